"""The small server behind `toolkit serve`: answers what clients ask first and most, without importing mcp.

It answers the greeting, the list of tools, calls, pings and log levels of both protocol eras itself, where a
message leaves no doubt (`protocol/shapes.py`). Everything else goes to mcp, which is started when the first
such message comes and is told the story so far (`_behind.py`). Written by us because importing mcp takes several
times as long as everything else; tests/serving/parity plays the same bytes to both and compares every answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from toolkit_servers.offering import changed_kinds, may_ask, offers_more_than_tools
from toolkit_servers.protocol import shapes
from toolkit_servers.protocol.offer import CAPABILITIES_KEY, HANDSHAKE_VERSIONS, Offer
from toolkit_servers.protocol.wire import METHOD_NOT_FOUND, error_line, notification_line, result_line, same_id

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.protocol.wire import Frame, RequestId
    from toolkit_servers.stdio._behind import Behind
    from toolkit_servers.stdio._calls import Call
    from toolkit_servers.stdio._streams import LineWriter

_MOST_BEFORE_REQUEST = 8
"""Messages before the first request that count; mcp forgets later ones."""
_CLOSING_SECONDS = 0.3


@dataclass
class Story:
    """What has been agreed with the client so far."""

    is_modern: bool | None = None
    """The era; None before the first request."""
    is_opened: bool = False
    """The kernel has answered a request, so mcp must be told in which era."""
    greeting: dict[str, Any] | None = None
    """The params of the `initialize` that was accepted."""
    is_ready: bool = False
    """The client has said `notifications/initialized`."""
    log_level: str | None = None
    """What the client has set; mcp and we send everything until it does."""


class Lines(Protocol):
    """Where answers go before there is an event loop."""

    def answer(self, request_id: RequestId, line: bytes) -> None:
        """Send the answer to a request."""


class Kernel:
    """One connection: takes the client's messages one by one and writes the answers."""

    def __init__(self, box: Toolbox, lines: Lines, *, reloads: bool = False) -> None:
        self._offer = Offer(box, notifies=True, reloads=reloads)
        self._lines = lines
        """Where answers go."""
        self._writer: LineWriter | None = None
        """The same, for calls and for mcp: there is an event loop."""
        self._story = Story()
        self._early = 0
        self._calls: dict[RequestId, Call] = {}
        """Calls that a client can cancel, by the id it gave last."""
        self._running: set[Call] = set()
        self._hears_changes = False
        """The client was greeted when there was something to hear of."""
        self._behind: Behind | None = None
        # Who follows their tools with opentelemetry gets the spans that mcp makes for every message.
        self._is_aside = "opentelemetry.sdk.trace" in sys.modules
        """mcp has the whole connection."""

    @property
    def toolbox(self) -> Toolbox:
        """The tools of the next request."""
        return self._offer.toolbox

    def enter_loop(self, writer: LineWriter) -> None:
        """From now on there is an event loop, so every message can be taken."""
        self._lines = self._writer = writer

    async def swap(self, box: Toolbox) -> None:
        """Put another box in place of the one before, and tell the client."""
        kinds = changed_kinds(self.toolbox, box)
        self._offer.toolbox = box
        if self._behind is not None:
            self._behind.adopt(box)
        for kind in kinds:
            await self.tell(kind)

    async def tell(self, what: str) -> None:
        """Tell the client that a list (`tools`, `prompts`, `resources`) or the resource at a URI changed."""
        if self._hears_changes and not self._is_aside and what in ("tools", "prompts", "resources"):
            self._lines_of_loop.write(notification_line(f"notifications/{what}/list_changed"))
        if self._behind is not None:
            await self._behind.tell(what)

    def take_first(self, frame: Frame) -> bool:
        """Deal with one message before there is an event loop; False where it needs one, and nothing is done yet."""
        if frame.is_request:
            return frame.method != "tools/call" and self._answered(frame)
        if frame.method == "notifications/initialized":
            self.take(frame)
            return True
        return False

    def take(self, frame: Frame) -> None:
        """Deal with one message; returns at once, calls go on as tasks."""
        if frame.is_request:
            self._take_request(frame)
            return
        if self._story.is_modern is None:
            self._early += 1
            if self._early > _MOST_BEFORE_REQUEST:
                return
        if frame.method == "notifications/cancelled" and self._cancelled(frame):
            return
        if frame.method == "notifications/initialized" and shapes.is_ready(frame.params):
            self._story.is_ready = True
        if self._behind is not None:
            self._behind.give(frame)

    async def room(self) -> None:
        """Wait until another message may be taken."""
        if self._behind is not None:
            await self._behind.room()

    async def caught_up(self) -> None:
        """Wait until every message that was taken is being answered."""
        if self._behind is not None:
            await self._behind.caught_up()

    async def close(self) -> None:
        """Cancel what runs; whoever still waits for an answer is told that the connection is closed."""
        if self._behind is not None:
            self._behind.close()
        waited = [call.end() for call in self._running]
        if self._behind is not None:
            waited.append(self._behind.task)
        if waited:
            import asyncio

            await asyncio.wait(waited, timeout=_CLOSING_SECONDS)

    def _take_request(self, frame: Frame) -> None:
        if self._answered(frame):
            return
        story = self._story
        assert frame.request_id is not None
        self._calls.pop(same_id(frame.request_id), None)
        if self._behind is None:
            from toolkit_servers.stdio._behind import Behind

            self._behind = Behind(self._offer, self._lines_of_loop, story)
            self._behind.is_alone = self._is_aside
        if frame.method == "initialize" and not story.is_modern:
            # It may change what the connection speaks, and only mcp knows to what.
            self._is_aside = self._behind.is_alone = True
        self._behind.give(frame)

    def _answered(self, frame: Frame) -> bool:
        """Answer a request, or start to, and know then what the connection speaks; False when it is mcp's."""
        story = self._story
        if story.is_modern is None:
            story.is_modern = frame.method != "initialize" and shapes.has_envelope(frame.params)
        if self._is_aside or not self._answer(frame, modern=story.is_modern):
            return False
        story.is_opened = True
        return True

    @property
    def _lines_of_loop(self) -> LineWriter:
        assert self._writer is not None
        return self._writer

    def _answer(self, frame: Frame, *, modern: bool) -> bool:
        """Answer a request, or start to; False when it is mcp's."""
        method, params = frame.method, frame.params
        if method == "tools/call":
            return shapes.is_call(params, modern=modern) and self._may_enter(modern) and self._start(frame, modern)
        if method == "initialize":
            return not modern and shapes.is_greeting(params) and self._greet(frame)
        if method == "logging/setLevel":
            return not modern and shapes.is_log_level(params) and self._may_enter(modern) and self._set_level(frame)
        if method in shapes.SPEC_METHODS or modern:
            if not shapes.is_listing(params, modern=modern):
                return False
        elif shapes.has_envelope(params):
            return False
        return self._answer_plainly(frame, modern=modern)

    def _answer_plainly(self, frame: Frame, *, modern: bool) -> bool:
        """Answer a request that has no parameters to speak of."""
        method = frame.method
        if method == "tools/list" and self._may_enter(modern) and _is_ordinary(self.toolbox):
            return self._write(frame, self._offer.listing(modern=modern))
        if method == "ping" and not modern:
            return self._write(frame, {})
        if method == "server/discover" and modern:
            return self._write(frame, self._offer.discovery())
        is_unknown = method not in shapes.SPEC_METHODS
        if is_unknown or (method in shapes.LISTS and not offers_more_than_tools(self.toolbox)):
            assert frame.request_id is not None
            line = error_line(frame.request_id, METHOD_NOT_FOUND, "Method not found", method)
            self._lines.answer(frame.request_id, line)
            return True
        return False

    def _may_enter(self, modern: bool) -> bool:
        return modern or self._story.greeting is not None or self._story.is_ready

    def _greet(self, frame: Frame) -> bool:
        if self._behind is not None:
            return False
        assert frame.params is not None
        self._story.greeting = frame.params
        self._hears_changes = self._offer.is_live
        wanted = frame.params["protocolVersion"]
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return self._write(frame, self._offer.greeting(version))

    def _set_level(self, frame: Frame) -> bool:
        assert frame.params is not None
        self._story.log_level = frame.params["level"]
        if self._behind is not None:
            self._behind.retell_log_level()
        return self._write(frame, {})

    def _start(self, frame: Frame, modern: bool) -> bool:
        assert frame.request_id is not None
        assert frame.params is not None
        tool = self.toolbox.tools.get(frame.params["name"])
        if tool is not None and may_ask(tool, self._client_capabilities(frame.params, modern)):
            return False
        key = same_id(frame.request_id)
        level = self._story.log_level or "debug"
        from toolkit_servers.stdio._calls import Call

        call = self._calls[key] = Call(frame, self._offer, self._lines_of_loop, level, self.tell, modern=modern)
        self._running.add(call)

        def forget() -> None:
            self._running.discard(call)
            if self._calls.get(key) is call:
                del self._calls[key]

        call.start(forget)
        return True

    def _client_capabilities(self, params: dict[str, Any], modern: bool) -> dict[str, Any]:
        found = params["_meta"][CAPABILITIES_KEY] if modern else (self._story.greeting or {}).get("capabilities", {})
        assert isinstance(found, dict)
        return found

    def _cancelled(self, frame: Frame) -> bool:
        """Cancel a call of ours; False when it is none."""
        given = (frame.params or {}).get("requestId")
        call = self._calls.get(same_id(given)) if type(given) is str or type(given) is int else None
        if call is None:
            return False
        call.cancel()
        return True

    def _write(self, frame: Frame, result: dict[str, Any]) -> bool:
        assert frame.request_id is not None
        self._lines.answer(frame.request_id, result_line(frame.request_id, result))
        return True


def _is_ordinary(box: Toolbox) -> bool:
    """Whether mcp's own check of the list could find nothing: it looks at what `Tool.from_schema` was given."""
    return all(_is_entry(entry) for entry in box.listing())


def _is_entry(entry: dict[str, Any]) -> bool:
    checks: dict[str, Callable[[Any], bool]] = {"title": _is_text, "description": _is_text, "annotations": _are_hints}
    schemas = [entry[key] for key in ("inputSchema", "outputSchema") if key in entry]
    return all(schema.get("type") == "object" for schema in schemas) and all(
        check(entry[key]) for key, check in checks.items() if key in entry
    )


def _is_text(value: object) -> bool:
    return type(value) is str


def _are_hints(hints: dict[str, Any]) -> bool:
    return all(type(value) is (str if key == "title" else bool) for key, value in hints.items())
