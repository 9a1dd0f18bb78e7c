"""The process ends soon after its client is gone, whatever the tools are doing.

A thread of its own watches for the client to hang up and for the parent to die,
so that a tool that blocks the event loop cannot keep the process alive. Once the
end is decided, a second thread lets nothing take longer than `LAST_SECONDS`: not a
sync tool stuck in its thread, not an async tool that swallows its cancellation,
not an exit handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable

LAST_SECONDS = 0.8
UNRESPONSIVE_SECONDS = 0.4


class Lifeline:
    """Calls back on the event loop, once, when the client hung up or the parent died."""

    def __init__(
        self, fd: int, parent: int, *, on_hangup: Callable[[], None], on_parent_death: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._parent = parent
        self._on_hangup = on_hangup
        self._on_parent_death = on_parent_death
        self._ending = False
        threading.Thread(target=self._watch, name="toolkit-lifeline", daemon=True).start()

    def end_soon(self) -> None:
        """From now on the process has `LAST_SECONDS` left."""
        if not self._ending:
            self._ending = True
            threading.Thread(target=_end_after, args=(LAST_SECONDS,), name="toolkit-end", daemon=True).start()

    def _watch(self) -> None:
        self._call_back(self._on_parent_death if self._wait_for_the_end() == "parent" else self._on_hangup)
        # The loop has the rest of the input to read. It ends by itself unless a tool blocks it.
        while self._is_responsive():
            time.sleep(UNRESPONSIVE_SECONDS / 2)
        end_now()

    def _wait_for_the_end(self) -> str:
        poller = select.poll()
        # Only hanging up: POLLHUP and POLLERR are always reported, POLLRDHUP is that of a socket.
        poller.register(self._fd, select.POLLRDHUP)
        parent_fd = None
        with contextlib.suppress(OSError):
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
        return self._call_back(answered.set) and answered.wait(UNRESPONSIVE_SECONDS)

    def _call_back(self, function: Callable[[], object]) -> bool:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed: the process is on its way out
            self.end_soon()
            return True
        return True


def end_now() -> None:
    """Flush what was printed and leave, without waiting for anyone."""
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(0.1)
    os._exit(0)


def _end_after(seconds: float) -> None:
    time.sleep(seconds)
    end_now()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None:
        # What C code printed waits in a buffer of its own.
        with contextlib.suppress(Exception):
            ctypes.CDLL(None).fflush(None)
