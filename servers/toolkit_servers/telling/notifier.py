"""The reports of one call, sent by mcp's session."""

from __future__ import annotations

from typing import Any

from mcp.server.session import ServerSession
from mcp_types import LoggingMessageNotification, LoggingMessageNotificationParams, RequestId


class SessionNotifier:
    """Sends the reports of one call to the client of a session."""

    def __init__(self, session: ServerSession, request_id: RequestId | None) -> None:
        self._session = session
        self._request_id = request_id

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Say how far the call is, if its client asked."""
        await self._session.report_progress(done, total, message)

    async def log(self, level: str, body: Any) -> None:
        """Send a log message."""
        params = LoggingMessageNotificationParams.model_validate({"level": level, "data": body})
        notification = LoggingMessageNotification(params=params)
        await self._session.send_notification(notification, related_request_id=self._request_id)
