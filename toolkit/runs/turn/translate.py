"""SDK messages become events: one pure state machine, no clock and no IO of its own.

It relies on the stream for text and usage, on the assistant frames for tool calls
and on the user frames for their results, and closes whatever is open at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    RateLimitEvent,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from toolkit.runs.outcome.events import Call, Event, Stream
from toolkit.runs.outcome.result import ToolUse
from toolkit.runs.turn.usage import Meter

_SYNTHETIC = "<synthetic>"
"""The model name of messages the CLI writes itself, such as its text for an API error."""
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}
"""The kind of an event by the API's type of delta; the text is under that same name."""
_MOST_TEXT = 200_000
"""Characters of a tool's result that an event carries."""


@dataclass(slots=True)
class _OpenTool:
    name: str
    started: float
    parent: str | None


@dataclass(slots=True)
class _OpenMessage:
    id: str
    blocks: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    stop: str | None = None


class Translator:
    """Feed it the SDK's messages of one CLI process; it gives the events of the run."""

    def __init__(self, run: str, meter: Meter, clock: Callable[[], float]) -> None:
        self._run = run
        self._meter = meter
        self._clock = clock
        self._message: _OpenMessage | None = None
        self._streamed: set[str] = set()
        self._tools: dict[str, _OpenTool] = {}
        self._said: list[str] = []
        self._compacting = False
        self.tools: list[ToolUse] = []
        """The tool calls of this turn that have ended."""
        self.denied: dict[str, str] = {}
        """Reasons by tool call; whoever refuses a call writes them here."""
        self.stop: str | None = None
        """Why the model stopped the last time."""
        self.model: str | None = None
        self.session: str | None = None

    def begin_turn(self) -> None:
        """Forget what belongs to the turn before."""
        self.tools = []
        self._said = []
        self.stop = None

    @property
    def text(self) -> str:
        """What the model said last, complete or not."""
        return self._said[-1] if self._said else ""

    def event(self, stream: Stream, kind: str, id: str, parent: str | None = None, /, **data: Any) -> Event:
        """An event of this run, now."""
        return Event(stream, kind, self._clock(), self._run, id, parent, data)

    def feed(self, message: Message) -> Iterable[Event]:
        """The events in one message. Messages that say nothing new give none."""
        if isinstance(message, StreamEvent):
            event = message.event
            if event.get("type") == "content_block_delta":  # by far the most of a run
                return self._delta(event["index"], event["delta"], message.parent_tool_use_id)
            return self._stream(event, message.parent_tool_use_id)
        if isinstance(message, AssistantMessage):
            return self._assistant(message)
        if isinstance(message, UserMessage):
            return self._user(message)
        if isinstance(message, SystemMessage):
            return self._system(message)
        return self._rate_limit(message) if isinstance(message, RateLimitEvent) else ()

    def close(self) -> Iterator[Event]:
        """Close what is open: the message under way, the calls it made, the tools that never answered."""
        if self._compacting:  # it failed: there is no count of what is left
            self._compacting = False
            yield self.event("compaction", "ended", self._run, trigger=None, before=None, after=None)
        if self._message is not None:
            yield from self._end_message(self._message)
        for call in self._meter.cut_off():
            yield self._usage(call)
        for call_id in list(self._tools):
            yield self._end_tool(call_id, ok=False, text="", interrupted=True)

    def _stream(self, event: dict[str, Any], parent: str | None) -> Iterator[Event]:
        kind, message = event.get("type"), self._message
        if kind == "message_start":
            yield from self._start_message(event["message"], parent)
        elif message is None:
            return
        elif kind == "content_block_start":
            message.blocks[event["index"]] = (event["content_block"]["type"], [])
        elif kind == "content_block_stop":
            yield from self._end_block(message, event["index"], parent)
        elif kind == "message_delta":
            self.stop = message.stop = event["delta"].get("stop_reason")
            call = self._meter.ended(message.id, event.get("usage"))
            if call is not None:
                yield self._usage(call)
        elif kind == "message_stop":
            yield from self._end_message(message)

    def _start_message(self, message: dict[str, Any], parent: str | None) -> Iterator[Event]:
        if self._message is not None:  # a retry inside the CLI: the first attempt never ended
            yield from self._end_message(self._message)
        self._message = _OpenMessage(message["id"])
        self._streamed.add(message["id"])
        self.model = message["model"]
        self._meter.started(message["id"], message["model"], message.get("usage"))
        yield self.event("assistant", "started", message["id"], parent, model=message["model"])

    def _delta(self, index: int, delta: dict[str, Any], parent: str | None) -> tuple[Event, ...]:
        kind, message = _DELTAS.get(delta.get("type", "")), self._message
        text = delta.get(kind, "") if kind is not None else ""
        if kind is None or message is None or not text:
            return ()
        block = message.blocks.get(index)
        if block is None:
            block = message.blocks[index] = (kind, [])
        block[1].append(text)
        return (Event("assistant", kind, self._clock(), self._run, message.id, parent, {"text": text}),)

    def _end_block(self, message: _OpenMessage, index: int, parent: str | None) -> Iterator[Event]:
        kind, parts = message.blocks.pop(index, ("", []))
        text = "".join(parts)
        if kind == "text":
            message.text.append(text)
        if kind in ("text", "thinking") and text:
            yield self.event("assistant", "block", message.id, parent, type=kind, text=text)

    def _end_message(self, message: _OpenMessage) -> Iterator[Event]:
        for index in list(message.blocks):
            yield from self._end_block(message, index, None)
        text = "".join(message.text)
        if text:
            self._said.append(text)
        self._message = None
        yield self.event("assistant", "ended", message.id, stop=message.stop, text=text)

    def _assistant(self, message: AssistantMessage) -> Iterator[Event]:
        if message.model == _SYNTHETIC or message.error is not None:
            return
        id = message.message_id or message.uuid or self._run
        parent = message.parent_tool_use_id
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                yield from self._start_tool(block, parent)
            elif id not in self._streamed and isinstance(block, TextBlock):
                if parent is None:
                    self._said.append(block.text)
                yield self.event("assistant", "block", id, parent, type="text", text=block.text)
            elif id not in self._streamed and isinstance(block, ThinkingBlock):
                yield self.event("assistant", "block", id, parent, type="thinking", text=block.thinking)

    def _start_tool(self, block: ToolUseBlock, parent: str | None) -> Iterator[Event]:
        if block.id in self._tools:
            return
        self._tools[block.id] = _OpenTool(block.name, self._clock(), parent)
        yield self.event("tool", "started", block.id, parent, name=block.name, arguments=block.input)

    def _user(self, message: UserMessage) -> Iterator[Event]:
        if isinstance(message.content, str):
            return
        for block in message.content:
            if isinstance(block, ToolResultBlock) and block.tool_use_id in self._tools:
                yield self._end_tool(block.tool_use_id, ok=not block.is_error, text=result_text(block.content))

    def _end_tool(self, call_id: str, *, ok: bool, text: str, interrupted: bool = False) -> Event:
        tool = self._tools.pop(call_id)
        ms = round((self._clock() - tool.started) * 1000)
        denied = call_id in self.denied
        self.tools.append(ToolUse(call_id, tool.name, ok, ms, tool.parent))
        flags = {"denied": denied, "interrupted": interrupted}
        shown = text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + f"… ({len(text)} characters)"
        return self.event("tool", "ended", call_id, tool.parent, name=tool.name, ok=ok, text=shown, ms=ms, **flags)

    def _usage(self, call: Call) -> Event:
        return self.event("usage", "call", call.id, **dataclasses.asdict(call))

    def _system(self, message: SystemMessage) -> Iterator[Event]:
        data = message.data
        if message.subtype == "init":
            self.session = data.get("session_id")
            self.model = data.get("model")
        elif message.subtype == "api_retry":
            yield self.event(
                "lifecycle",
                "retry",
                self._run,
                attempt=data.get("attempt"),
                delay_ms=data.get("retry_delay_ms"),
                status=data.get("error_status"),
                error=data.get("error"),
            )
        elif message.subtype == "mirror_error":
            what = f"part of the conversation could not be kept, so it may not be resumed whole: {data.get('error')}"
            yield self.event("lifecycle", "warning", self._run, what=what)
        elif message.subtype == "status" and data.get("status") == "compacting":
            self._compacting = True
            yield self.event("compaction", "started", self._run, trigger=data.get("trigger"))
        elif message.subtype == "compact_boundary":
            meta = data.get("compact_metadata") or {}
            counts = {"before": meta.get("pre_tokens"), "after": meta.get("post_tokens")}
            self._compacting = False
            yield self.event("compaction", "ended", self._run, trigger=meta.get("trigger"), **counts)

    def _rate_limit(self, message: RateLimitEvent) -> Iterator[Event]:
        info = message.rate_limit_info
        if info.status != "allowed":
            yield self.event("lifecycle", "warning", self._run, what=f"rate limit: {info.status}")


def result_text(content: Any) -> str:
    """The text in a tool result; other content as its type."""
    if isinstance(content, str):
        return content
    parts = []
    for item in content or []:
        kind = item.get("type") if isinstance(item, dict) else None
        parts.append(str(item["text"]) if kind == "text" else f"[{kind}]")
    return "\n".join(parts)
