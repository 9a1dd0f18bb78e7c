"""A second process for a large copy: Python's threads would only wait for each other.

It is handed open folders and the names to copy from one to the other, a few at a time, and knows no path.
It only saves time: where it cannot be started, or is killed, the caller copies what it was asked for.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import resource
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit._base.handles import CREATE_FILE, READ_FILE
from toolkit_workspace.copying import small_files as _small_files
from toolkit_workspace.copying.small_files import LONGEST_MESSAGE, Result, SmallFiles
from toolkit_workspace.copying.transfer import SMALL

MOST_NAMES = 48
"""A request holds at most this many names: a folder of thousands is shared between the two processes."""
_MOST_WAITING = 96
"""Names asked for and not answered: enough never to leave it idle, few enough not to wait for it in the end."""
_MOST_REQUESTS = 8
"""Requests not answered: each keeps two folders open, and handles can be scarce."""
_LONGEST_SILENCE = 600.0
_FEWEST_HANDLES = 128
_HOW = (READ_FILE, CREATE_FILE, SMALL)

small_files = SmallFiles(*_HOW)
"""What the second process does, for this one."""


class SecondGone(Exception):
    """The second process has ended; what it was asked for is unanswered."""


@dataclass(slots=True)
class Second:
    """The running process, and how many names it has been asked for."""

    _channel: socket.socket
    _process: subprocess.Popen[bytes]
    _waiting: deque[int] = field(default_factory=deque)

    @classmethod
    def start(cls) -> Second | None:
        """Start it; None where it would not help or cannot be had."""
        handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if len(os.sched_getaffinity(0)) < 2 or handles < _FEWEST_HANDLES:
            return None
        if "python" not in Path(sys.executable or "").name:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-I", "-S", _small_files.__file__, str(os.getpid())]
            nothing = subprocess.DEVNULL
            try:
                # A group of its own: Ctrl-C is for us to act on.
                process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=nothing, stderr=nothing, process_group=0
                )
            except OSError:
                ours.close()
                return None
        ours.setblocking(False)
        with contextlib.suppress(OSError):
            ours.send(marshal.dumps(_HOW))
        return cls(ours, process)

    @property
    def is_busy(self) -> bool:
        """Whether it has enough to do."""
        return len(self._waiting) >= _MOST_REQUESTS or sum(self._waiting) >= _MOST_WAITING

    @property
    def is_asked(self) -> bool:
        """Whether an answer is to come."""
        return bool(self._waiting)

    def ask(self, names: Sequence[str], parent: int, into: int, room: int) -> bool:
        """Have `names` copied from one open folder to another; False if it cannot be asked now.

        Answers come in the order of asking.
        """
        message = marshal.dumps((room, os.fsencode("\0".join(names))))
        try:
            socket.send_fds(self._channel, [message], [parent, into])
        except OSError:
            return False  # if it has ended, the next answer says so
        self._waiting.append(len(names))
        return True

    def answer(self, *, wait: bool) -> Result | None:
        """The next answer; None if there is none yet and we do not wait.

        Raises:
            SecondGone: it has ended.
            OSError: the copy cannot be written.
        """
        if wait:
            self._wait_for_answer()
        try:
            message = self._channel.recv(LONGEST_MESSAGE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise SecondGone from error
        if not message:
            raise SecondGone
        self._waiting.popleft()
        try:
            result: Result | int = marshal.loads(message)
        except (EOFError, ValueError, TypeError) as error:
            raise SecondGone from error  # it is something else than we started
        if isinstance(result, int):
            raise OSError(result, os.strerror(result))
        return result

    def _wait_for_answer(self) -> None:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        if not poll.poll(_LONGEST_SILENCE * 1000):
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def close(self) -> None:
        """End it, whatever it is doing, and wait until it has ended: it writes nothing after this."""
        self._channel.close()
        self._process.kill()
        self._process.wait(_LONGEST_SILENCE)
