"""What a running tool tells its client: progress and log messages, in order and before the result."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, get_args

from mcp.server.session import ServerSession
from mcp_types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams, RequestId

_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""From debug to emergency."""
_MOST_WAITING = 256
"""A client that reads slower than the tool reports loses the oldest reports."""

_Send = Callable[[], Coroutine[Any, Any, None]]


class CallReports:
    """Progress and log messages of one call: sent in the order they were made, all before its result.

    Taking one returns at once; a task sends them.
    """

    def __init__(self, session: ServerSession, request_id: RequestId | None, lowest_level: str | None) -> None:
        self._session = session
        self._request_id = request_id
        self._lowest_level = lowest_level
        self._waiting: deque[_Send] = deque(maxlen=_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self.put(lambda: self._session.report_progress(done, total, message))

    def log(self, level: str, message: str, data: Any) -> None:
        """Send a log message, unless the client asked for more severe ones only."""
        known: LoggingLevel = next((name for name in _LEVELS if name == level), "info")
        if self._lowest_level not in _LEVELS or _LEVELS.index(known) < _LEVELS.index(self._lowest_level):
            return
        body = message if data is None else {"message": message, "data": data}
        params = LoggingMessageNotificationParams(level=known, data=body)
        notification = LoggingMessageNotification(params=params)
        self.put(lambda: self._session.send_notification(notification, related_request_id=self._request_id))

    async def finish(self) -> None:
        """Wait until every report is sent; later ones are dropped."""
        self._closed = True
        if self._task is not None:
            await self._task
        await self._send_all()

    def drop(self) -> None:
        """Send nothing more: the client cancelled the call."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def put(self, send: _Send) -> None:
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
