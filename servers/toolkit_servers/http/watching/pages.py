"""`/health` and `/metrics`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolkit._base.json_bytes import json_bytes
from toolkit_servers.http.answers import answer, refuse
from toolkit_servers.http.auth import Grant

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolkit_servers.http.watching.metrics import Metrics


class Pages:
    """Two pages for those who look after the server: whether it works, and how much."""

    def __init__(self, metrics: Metrics, tools: Callable[[], int], is_ending: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._tools = tools
        self._is_ending = is_ending

    async def health(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 while it takes calls, 503 once it is about to end; that it answers at all says that it lives."""
        if scope["method"] not in ("GET", "HEAD"):
            return await refuse(send, 405, "use GET", headers=((b"allow", b"GET, HEAD"),))
        ready = not self._is_ending()
        body = {"live": True, "ready": ready, "tools": self._tools()}
        return await answer(send, 200 if ready else 503, json_bytes(body) + b"\n", "application/json", [_FRESH])

    async def metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The counts; behind a lock, for tokens that cover them."""
        if scope["method"] not in ("GET", "HEAD"):
            return await refuse(send, 405, "use GET", headers=((b"allow", b"GET, HEAD"),))
        user = scope.get("user")
        if user is not None and not Grant.of(user.scopes).metrics:
            self._metrics.refused("scope")
            return await refuse(send, 403, "this token does not cover metrics")
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return await answer(send, 200, self._metrics.text().encode(), kind, [_FRESH])


_FRESH = (b"cache-control", b"no-store")
