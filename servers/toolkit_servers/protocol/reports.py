"""Progress and log messages of one call, on their way to the client."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from toolkit_servers.protocol.offer import LEVELS

_MOST_WAITING = 256
"""A client that reads slower than the tool reports loses the oldest reports."""


class Notifier(Protocol):
    """How a report is sent, in the words of one protocol library."""

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Say how far the call is, if its client asked."""

    async def log(self, level: str, body: Any) -> None:
        """Send a log message."""


class CallReports:
    """Progress and log messages of one call: sent in the order they were made, all before its result.

    Taking one returns at once; a task sends them.
    """

    def __init__(self, notifier: Notifier, lowest_level: str | None) -> None:
        self._notifier = notifier
        self._lowest_level = lowest_level
        """The least severe message the client wants; None when it wants none."""
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque(maxlen=_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self.put(lambda: self._notifier.progress(done, total, message))

    def log(self, level: str, message: str, data: Any) -> None:
        """Send a log message, unless the client asked for more severe ones only."""
        known = level if level in LEVELS else "info"
        if self._lowest_level not in LEVELS or LEVELS.index(known) < LEVELS.index(self._lowest_level):
            return
        body = message if data is None else {"message": message, "data": data}
        self.put(lambda: self._notifier.log(known, body))

    async def finish(self) -> None:
        """Wait until every report is sent; later ones are dropped."""
        self._closed = True
        if self._task is not None:
            await self._task
        if self._waiting:
            await self._send_all()

    def drop(self) -> None:
        """Send nothing more: the client cancelled the call."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def put(self, send: Callable[[], Awaitable[None]]) -> None:
        """Send something more, in its turn."""
        if self._closed:
            return
        self._waiting.append(send)
        if self._task is None or self._task.done():
            with contextlib.suppress(RuntimeError):  # not asyncio: they are sent when the call ends
                self._task = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._waiting:
            # What one report holds (data that is no JSON, say) must not cost the others or the result.
            with contextlib.suppress(Exception):
                await self._waiting.popleft()()
