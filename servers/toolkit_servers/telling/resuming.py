"""What was sent lately, so that a client whose connection broke gets the rest when it comes back.

mcp asks for it by the id of the last event that arrived. The streams of a session are named by the ids of its requests,
which other sessions have too: so each session has events of its own. Memory is bounded for all of them together. The
oldest events go first, and a client that comes back too late is told nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage
from starlette.applications import Starlette
from starlette.routing import Route

from toolkit._base.json_bytes import json_bytes

if TYPE_CHECKING:
    from mcp.server import Server

MOST_EVENTS = 4_096
MOST_BYTES = 32 * 1024 * 1024
RETRY_MS = 1_000
"""How long a client waits before it comes back."""
_SMALL = 200
"""Bytes that an event takes beside its text."""


@dataclass(frozen=True, slots=True)
class _Event:
    owner: SessionEvents
    stream: StreamId
    message: JSONRPCMessage | None
    size: int


class RecentEvents:
    """The last events of all sessions of one server."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._numbers = count(1)
        self.kept: OrderedDict[int, _Event] = OrderedDict()
        """By number, the oldest first."""
        self.bytes = 0
        """What they take, roughly."""

    def add(self, event: _Event) -> int:
        """Keep an event, and let go of the oldest ones for it; its number."""
        number = next(self._numbers)
        if event.size <= self._most_bytes:
            self.kept[number] = event
            self.bytes += event.size
        while len(self.kept) > self._most_events or self.bytes > self._most_bytes:
            self.bytes -= self.kept.popitem(last=False)[1].size
        return number


class SessionEvents(EventStore):
    """The events of one session among them."""

    def __init__(self, recent: RecentEvents) -> None:
        self._recent = recent

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep an event; one without a message only begins a stream."""
        size = _SMALL + (0 if message is None else len(json_bytes(message.model_dump(by_alias=True))))
        return str(self._recent.add(_Event(self, stream_id, message, size)))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what followed on the same stream; None where the event is not known (any more)."""
        number = int(last_event_id) if last_event_id.isascii() and last_event_id.isdecimal() else 0
        last = self._recent.kept.get(number)
        if last is None or last.owner is not self:
            return None
        for later, event in list(self._recent.kept.items()):
            is_same = event.owner is self and event.stream == last.stream
            if later > number and is_same and event.message is not None:
                await send_callback(EventMessage(event.message, str(later)))
        return last.stream


class ResumableSessions(StreamableHTTPSessionManager):
    """mcp's sessions, each with events of its own."""

    def __init__(self, server: Server[Any], **settings: Any) -> None:
        self._recent = RecentEvents()
        super().__init__(server, **settings)
        self.retry_interval = RETRY_MS

    @property
    def event_store(self) -> EventStore:  # asked once for each new session
        return SessionEvents(self._recent)

    @event_store.setter
    def event_store(self, store: object) -> None:
        """Every session makes its own."""


def app_of(sessions: ResumableSessions, path: str) -> Starlette:
    """The app that answers at `path`, as mcp's own server makes it."""
    return Starlette(
        routes=[Route(path, endpoint=StreamableHTTPASGIApp(sessions))], lifespan=lambda app: sessions.run()
    )
