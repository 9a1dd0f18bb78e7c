"""Tell clients what changed: a list, or one resource that they subscribed to.

In the handshake era every connected client hears of lists, and who subscribed to a URI hears of that. In 2026-07-28
a client listens, and names what it wants to hear of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import SubscriptionsListenRequestParams

if TYPE_CHECKING:
    from mcp.server import Server

_MOST_CLIENTS = 1000
_MOST_SUBSCRIPTIONS = 10_000
"""The oldest are forgotten first: a client that is gone does not say so."""
_TELLING_SECONDS = 1.0
"""A client that does not read is not waited for."""

_Send = Callable[[ServerSession], Awaitable[None]]
_LISTS: dict[str, tuple[_Send, ServerEvent]] = {
    "tools": (ServerSession.send_tool_list_changed, ToolsListChanged()),
    "prompts": (ServerSession.send_prompt_list_changed, PromptsListChanged()),
    "resources": (ServerSession.send_resource_list_changed, ResourcesListChanged()),
}


class Changes:
    """Who wants to hear of changes, in both eras."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._greeted: deque[ServerSession] = deque(maxlen=_MOST_CLIENTS)
        self._subscribed: dict[tuple[str | None, str], ServerSession] = {}

    def listen_on(self, server: Server[Any]) -> None:
        """Let clients of 2026-07-28 listen."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(self._bus))

    def greet(self, session: ServerSession) -> None:
        """Remember a client of the handshake era."""
        self._greeted.append(session)

    def subscribe(self, session_id: str | None, uri: str, session: ServerSession) -> None:
        """Remember that a client wants to hear of one resource."""
        if len(self._subscribed) >= _MOST_SUBSCRIPTIONS:
            del self._subscribed[next(iter(self._subscribed))]
        self._subscribed[session_id, uri] = session

    def unsubscribe(self, session_id: str | None, uri: str) -> None:
        """Forget it again; nothing happens where it was not remembered."""
        self._subscribed.pop((session_id, uri), None)

    async def tell(self, what: str) -> None:
        """Tell that a list (`tools`, `prompts`, `resources`) or the resource at a URI changed."""
        if what in _LISTS:
            send, event = _LISTS[what]
            await _tell(list(self._greeted), send)
            await self._bus.publish(event)
            return
        sessions = [session for (_, uri), session in self._subscribed.items() if uri == what]
        await _tell(sessions, lambda session: session.send_resource_updated(what))
        await self._bus.publish(ResourceUpdated(uri=what))


async def _tell(sessions: list[ServerSession], send: _Send) -> None:
    async def one(session: ServerSession) -> None:
        with anyio.move_on_after(_TELLING_SECONDS):
            await send(session)

    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(one, session)
