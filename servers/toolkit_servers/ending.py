"""The process ends soon after its client is gone, whatever the user's code is doing.

A thread of its own watches for the client to hang up and for the parent to die, so
that neither a slow import nor a tool that blocks the event loop keeps the process
alive. Once the end is decided, a second thread lets nothing take longer than
`LAST_SECONDS`: not a sync tool stuck in its thread, not an async tool that swallows
its cancellation, not an exit handler.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

LAST_SECONDS = 0.7
UNRESPONSIVE_SECONDS = 0.4


class Lifeline:
    """Watches the client's end of stdin, and the process that started this one."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._parent = os.getppid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_end: Callable[[], None] = lambda: None
        self._on_hangup: Callable[[], object] = lambda: None
        self.on_early_end: Callable[[], object] = lambda: None
        """Called when nobody waits any more and there is no loop yet."""
        self._attached = threading.Event()
        self._ending = False
        threading.Thread(target=self._watch, name="toolkit-lifeline", daemon=True).start()

    def attach(
        self, loop: asyncio.AbstractEventLoop, *, on_hangup: Callable[[], object], on_end: Callable[[], None]
    ) -> None:
        """Have the loop told: `on_hangup` when the client writes no more, `on_end` when nobody waits any more."""
        self._on_hangup, self._on_end = on_hangup, on_end
        self._loop = loop
        self._attached.set()

    def end(self) -> None:
        """Nobody waits any more: tell the loop, and see to it that the process ends. Any thread, any time."""
        self.end_soon()
        if self._loop is None:
            self.on_early_end()
        self._tell(self._on_end)

    def end_soon(self) -> None:
        """From now on the process has `LAST_SECONDS` left."""
        if not self._ending:
            self._ending = True
            end_after(LAST_SECONDS)

    def _watch(self) -> None:
        if self._wait_until_gone() == "parent":
            self.end()
            return
        # What the client sent before it hung up is still to be served, also by a process that
        # has only begun to import: `echo '{…}' | toolkit serve tools.py` gets its answer.
        self._attached.wait()
        self._tell(self._on_hangup)
        while self._is_responsive():
            time.sleep(UNRESPONSIVE_SECONDS / 2)
        end_now()

    def _wait_until_gone(self) -> str:
        poller = select.poll()
        # Only hanging up: POLLHUP and POLLERR are always reported, POLLRDHUP is that of a socket.
        poller.register(self._fd, getattr(select, "POLLRDHUP", 0))
        parent_fd = None
        with contextlib.suppress(OSError, AttributeError):  # not on every kernel: then it is looked at now and then
            parent_fd = os.pidfd_open(self._parent)
            poller.register(parent_fd, select.POLLIN)
        while True:
            ready = poller.poll(None if parent_fd is not None else 500)
            if any(fd == parent_fd for fd, _ in ready) or os.getppid() != self._parent:
                return "parent"
            if ready:
                return "client"

    def _is_responsive(self) -> bool:
        answered = threading.Event()
        return not self._tell(answered.set) or answered.wait(UNRESPONSIVE_SECONDS)

    def _tell(self, function: Callable[[], object]) -> bool:
        """Run a function on the loop; False when there is none any more, and the process is about to end."""
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False
        return True


def end_after(seconds: float, code: int = 0) -> None:
    """End the process then, unless it has ended by itself. Returns at once."""
    ending = threading.Timer(seconds, end_now, [code])
    ending.daemon = True
    ending.start()


def end_now(code: int = 0) -> None:
    """Flush what was printed and leave, without waiting for anyone."""
    # os._exit, because a normal exit joins threads and runs exit handlers, and those of the user's code may
    # never return. Flushing has a thread of its own for the same reason: stderr may be a full pipe.
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(0.1)
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(Exception):
        # What C code printed waits in a buffer of its own.
        sys.modules["ctypes"].CDLL(None).fflush(None)
