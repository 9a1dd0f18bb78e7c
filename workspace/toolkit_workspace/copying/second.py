"""Share the small files of a large copy with a second process: it gets as many as it can take, the rest stays here.

Small files cost system calls, not bytes. Python's threads would only wait for each other between them, so a second
process makes half of the calls: a copy of 10,000 files takes about two thirds of the time.

It is handed open folders and the names to copy from one to the other, a few at a time, and knows no path.
It only saves time: where it cannot be started, or is killed, what it was asked for is copied here.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit._base.handles import CREATE_FILE, READ_FILE
from toolkit_workspace.copying import small_files as _small_files
from toolkit_workspace.copying.small_files import LONGEST_MESSAGE, Result, SmallFiles
from toolkit_workspace.copying.transfer import SMALL

if TYPE_CHECKING:
    from toolkit_workspace.copying.copy import Batch

ENOUGH_FILES = 1_000
"""Only a copy of more files is worth a second process."""
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


class Sharing:
    """Who copies which batch. What the second process has done is heard of later, in between."""

    def __init__(self) -> None:
        self._second = Second.start()
        self._asked: deque[Batch] = deque()
        self._answered: deque[tuple[Batch, Result]] = deque()

    def hand_over(self, batch: Batch, room: int) -> bool:
        """Have the second process copy a batch, `room` bytes at most; False if it is to be copied here."""
        second, most = self._second, _most(batch)
        if second is None or second.is_busy or most > room - self.claimed():
            return False
        try:
            source, into = batch.place.expect(batch.source, batch.into)
        except OSError:
            return False
        if not second.ask(batch.names, source, into, most):
            batch.place.unexpect()
            return False
        batch.source, batch.into, batch.is_shared = source, into, True
        self._asked.append(batch)
        return True

    def done(self) -> Iterator[tuple[Batch, Result]]:
        """What is done by now and was not yet heard of."""
        self._receive(wait=False)
        while self._answered:
            yield self._answered.popleft()

    def wait(self) -> None:
        """Wait until nothing is asked any more, so that what is claimed is what was written."""
        while self._asked:
            self._receive(wait=True)

    def claimed(self) -> int:
        """How many bytes batches that were not yet heard of have written, or may write."""
        written = sum(host[0] for _, (_, files) in self._answered for _, _, host in files)
        return written + sum(_most(batch) for batch in self._asked)

    def close(self) -> None:
        """End the second process, whatever it was asked."""
        if self._second is not None:
            self._second.close()
            self._second = None

    def _receive(self, *, wait: bool) -> None:
        """Take in the answers that are there; with `wait`, at least one."""
        while self._second is not None and self._asked:
            try:
                result = self._second.answer(wait=wait)
            except SecondGone:
                self._take_over()
                return
            if result is None:
                return
            self._answered.append((self._asked.popleft(), result))
            wait = False

    def _take_over(self) -> None:
        """Copy what the second process leaves behind: nothing of it is known, so nothing of it is kept."""
        self.close()
        while self._asked:
            batch = self._asked[0]
            for name in batch.names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=batch.into)
            result = small_files.copy(batch.names, batch.source, batch.into, _most(batch))
            self._answered.append((self._asked.popleft(), result))


def _most(batch: Batch) -> int:
    return SMALL * len(batch.names)
