"""Threads for sync tools, made so that one can be given up.

A thread cannot be stopped from outside. When nobody waits for its result any
more it is given up: it no longer counts against the number of tools that may run
at once, and when it ends, it ends. Threads are daemons, so that a tool which
never returns does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

MOST_AT_ONCE = 256
"""Sync tools that run at the same time; further calls wait their turn."""
_MOST_IDLE = 32
"""Threads kept for the next call."""

Post = Callable[[Callable[[], None]], object]


def poster() -> Post:
    """A function that runs its argument in the current event loop, callable from any thread."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio
        import anyio.from_thread
        import anyio.lowlevel

        return partial(anyio.from_thread.run_sync, token=anyio.lowlevel.current_token())
    return loop.call_soon_threadsafe


def _event() -> Any:
    """An event of the event loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio
        import anyio

        return anyio.Event()
    return asyncio.Event()


@dataclass(slots=True, eq=False)
class _Job:
    """One call: what to do, and whom to tell."""

    work: Callable[[], Any]
    announce: Callable[[], object]
    value: Any = None
    error: BaseException | None = None
    finished: bool = False
    given_up: bool = False

    def do(self) -> None:
        try:
            self.value = self.work()
        except BaseException as error:  # sys.exit() and the like end the call, not the server
            self.error = error


class Workers:
    """A pool of threads whose members can be given up."""

    def __init__(self, most_at_once: int = MOST_AT_ONCE) -> None:
        self._most_at_once = most_at_once
        self._lock = threading.Lock()
        self._idle: deque[SimpleQueue[_Job | None]] = deque()
        self._waiting: deque[_Job] = deque()
        self.running = 0
        """Calls that are running and awaited."""
        self.given_up = 0
        """Threads still busy with a call nobody waits for."""

    async def run(self, work: Callable[[], Any]) -> Any:
        """Run `work` in a thread and give its result; when cancelled, give the thread up at once.

        It finds the caller's context variables there, as it would in `asyncio.to_thread`.
        """
        post = poster()
        done = _event()
        job = _Job(partial(contextvars.copy_context().run, work), lambda: post(done.set))
        self._submit(job)
        try:
            await done.wait()
        except BaseException:
            self._give_up(job)
            raise
        if job.error is not None:
            raise job.error
        return job.value

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self.running >= self._most_at_once:
                self._waiting.append(job)
                return
            self.running += 1
        self._start(job)

    def _start(self, job: _Job) -> None:
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            # A ThreadPoolExecutor would join its threads at exit and count stuck ones for ever.
            threading.Thread(target=self._serve, args=(queue,), name="toolkit-tool", daemon=True).start()
        queue.put(job)

    def _serve(self, queue: SimpleQueue[_Job | None]) -> None:
        while True:
            job = queue.get()
            if job is None:
                return
            try:
                job.do()
            finally:  # also when the thread is made to end between two lines of ours
                self._finish(job)
            del job
            with self._lock:
                if len(self._idle) >= _MOST_IDLE:
                    return
                self._idle.append(queue)

    def _finish(self, job: _Job) -> None:
        with self._lock:
            job.finished = True
            if job.given_up:  # its place was freed when it was given up, and nobody waits to be told
                self.given_up -= 1
                return
        self._free_place()
        with contextlib.suppress(RuntimeError):  # the event loop has closed: nobody is left to tell
            job.announce()

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
                return
            if job.finished:
                return
            job.given_up = True
            self.given_up += 1
        self._free_place()

    def _free_place(self) -> None:
        with self._lock:
            if not self._waiting:
                self.running -= 1
                return
            job = self._waiting.popleft()
        self._start(job)


workers = Workers()
"""The threads all toolboxes of this process share."""
