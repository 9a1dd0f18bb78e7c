"""The first messages, answered before there is an event loop: loading one takes as long as all else until then.

A greeting, a list, a ping need none. The first message that does is left as it came, with all that came after it. A
server whose tools nobody calls never loads one, nor pydantic, and stays as small as it is.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from toolkit_servers.protocol.wire import Frame, parse_line
from toolkit_servers.stdio._kernel import Kernel
from toolkit_servers.stdio._outlet import FirstLines, Outlet

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.stdio._claim import Wires

_CHUNK = 64 * 1024
_LONGEST = 1024 * 1024
"""Bytes of a message that is read here; longer ones have room elsewhere."""


class Ended(BaseException):
    """A signal asked to end, or nobody waits any more."""


@dataclass(frozen=True)
class Begun:
    """A connection whose first messages are answered."""

    kernel: Kernel
    outlet: Outlet
    unsent: bytes
    """What the client has not taken yet: it is slow, or gone."""
    unread: bytearray
    """What it has said and nobody has dealt with."""
    has_ended: bool
    """It says nothing more. A terminal says so only once."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.has_ended and not self.unread and not self.unsent


def begin(box: Toolbox, wires: Wires, signals: Sequence[int]) -> Begun:
    """Answer messages until one needs more, the client hangs up, or takes no more.

    Raises:
        Ended: one of the signals came, or the parent died.
    """

    def end(*_: object) -> NoReturn:
        wires.lifeline.end_soon()
        raise Ended

    for number in signals:
        signal.signal(number, end)
    ended, end_early = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    wires.lifeline.on_early_end = lambda: os.write(end_early, b"x")
    outlet = Outlet(wires.writing)
    lines = FirstLines(outlet)
    kernel = Kernel(box, lines)
    unread, has_ended = bytearray(), False
    while not lines.unsent:
        at = unread.find(b"\n")
        if at >= 0:
            if not _is_dealt_with(kernel, unread[:at]):
                break
            del unread[: at + 1]
        elif len(unread) > _LONGEST:
            break
        elif more := _more(wires.reading, ended):
            unread += more
        else:
            has_ended = True
            break
    return Begun(kernel, outlet, lines.unsent, unread, has_ended)


def _is_dealt_with(kernel: Kernel, line: bytearray) -> bool:
    if not line or line.isspace():
        return True
    frame = parse_line(line)
    return isinstance(frame, Frame) and kernel.take_first(frame)


def _more(reading: int, ended: int) -> bytes:
    """The next bytes; none at the end."""
    poller = select.poll()
    poller.register(reading, select.POLLIN)
    poller.register(ended, select.POLLIN)
    while True:
        if any(fd == ended for fd, _ in poller.poll()):
            raise Ended
        try:
            return os.read(reading, _CHUNK)
        except (BlockingIOError, InterruptedError):
            continue
        except OSError:
            return b""
