"""What the SDK's messages mean: the events of a run, and when its work is over.

Translator is a pure state machine, with no clock and no IO of its own. It relies on
the stream for text and usage, on the assistant frames for tool calls and on the user
frames for their results, and closes whatever is open at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit._base.words import safe_line
from toolkit.runs.outcome.events import Call, Event, Stream, piece_of
from toolkit.runs.outcome.result import REFUSED_BY_CLI
from toolkit.runs.turn.meter import Meter

if TYPE_CHECKING:
    from claude_agent_sdk import (
        AssistantMessage,
        Message,
        RateLimitEvent,
        ResultMessage,
        StreamEvent,
        SystemMessage,
        ToolUseBlock,
        UserMessage,
    )

_SYNTHETIC = "<synthetic>"
"""The model name of messages the CLI writes itself, such as its text for an API error."""
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}
"""The kind of an event by the API's type of delta; the text is under that same name."""
_MOST_TEXT = 200_000
"""Characters of a tool's result that an event carries."""
_MOST_REASON = 300
_NOT_BEGUN = ("<tool_use_error>", "The user doesn't want to ", "[Request interrupted by user")
"""How the CLI begins to say that it did not run a call: no such tool, arguments that do not fit, an interrupt."""
_AGENTS = ("local_agent", "local_workflow")
_OVER = ("completed", "failed", "stopped", "killed")


@dataclass(slots=True)
class _OpenTool:
    name: str
    started: float
    parent: str | None
    told: float = 0.0
    """How many seconds it had run when that was last said."""


@dataclass(slots=True)
class _OpenMessage:
    id: str
    parent: str | None
    blocks: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    stop: str | None = None


class Translator:
    """Feed it the SDK's messages of one CLI process; it gives the events of the run."""

    def __init__(self, run: str, clock: Callable[[], float], processes_before: int = 0) -> None:
        self._run = run
        self._clock = clock
        self.meter = Meter(run, processes_before)
        self._events: list[Event] = []
        self._message: _OpenMessage | None = None
        self._streamed: set[str] = set()
        self._tools: dict[str, _OpenTool] = {}
        self._compacting = False
        self._cut_short: set[str] = set()
        self.denied: dict[str, str] = {}
        """Reasons by tool call; whoever refuses a call writes them here."""
        self.judged: Mapping[str, bool] | None = None
        """The calls that somebody was asked about before they ran, and whether they may; None where nobody is asked."""
        self.unasked: str | None = None
        """The name of a tool that ran without that, once one has."""
        self.deferred: Container[str] = ()
        """The calls that were left to the caller: they end without having run."""

    def event(self, stream: Stream, kind: str, id: str, parent: str | None = None, /, **data: Any) -> Event:
        """An event of this run, now."""
        return Event(stream, kind, self._clock(), self._run, id, parent, data)

    def feed(self, message: Message) -> list[Event]:
        """The events in one message. Messages that say nothing new give none."""
        import claude_agent_sdk as sdk

        if isinstance(message, sdk.StreamEvent):
            return self.feed_stream(message)
        if isinstance(message, sdk.AssistantMessage):
            self._assistant(message)
        elif isinstance(message, sdk.UserMessage):
            self._user(message)
        elif isinstance(message, sdk.SystemMessage):
            self._system(message)
        elif isinstance(message, sdk.RateLimitEvent):
            self._rate_limit(message)
        events, self._events = self._events, []
        return events

    def feed_stream(self, message: StreamEvent) -> list[Event]:
        """The events in a message that tells of a model call under way."""
        event, parent = message.event, message.parent_tool_use_id
        if event.get("type") == "content_block_delta":  # by far the most of a run
            self._delta(event["index"], event["delta"], parent)
        else:
            self._stream(event, parent)
        events, self._events = self._events, []
        return events

    def interrupting(self) -> None:
        """The CLI is told to stop: a tool that is under way now and then fails was interrupted."""
        self._cut_short |= self._tools.keys()

    def take_up(self, call: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """A call goes on that an earlier run left over; its message was told there."""
        import claude_agent_sdk as sdk

        self._start_tool(sdk.ToolUseBlock(call, tool, dict(arguments)), None)

    def tick(self, every: float, waiting: Collection[str]) -> tuple[list[Event], float]:
        """Progress of the CLI's own tools that went on for `every` seconds and wait for nobody, and when to ask again.

        In-process tools report for themselves.
        """
        now, rest = self._clock(), every
        for call, tool in self._tools.items():
            if tool.name.startswith("mcp__") or call in waiting:
                continue
            seconds = now - tool.started
            if seconds - tool.told >= every:
                self._add("tool", "progress", call, tool.parent, done=round(seconds, 3), total=None, message="running")
                tool.told = seconds - seconds % every
            rest = min(rest, max(tool.told + every - seconds, 0.0))
        events, self._events = self._events, []
        return events, rest

    def close(self) -> list[Event]:
        """Close what is open: the message under way, the calls it made, the tools that never answered."""
        if self._compacting:  # it failed: there is no count of what is left
            self._compacting = False
            self._add("compaction", "ended", self._run, trigger=None, before=None, after=None)
        if self._message is not None:
            self._end_message(self._message)
        for call in self.meter.cut_off():
            self._add_call(call)
        self.interrupting()
        for call_id in list(self._tools):
            self._end_tool(call_id, ok=False, text="")
        self._cut_short.clear()
        events, self._events = self._events, []
        return events

    def _add(self, stream: Stream, kind: str, id: str, parent: str | None = None, /, **data: Any) -> None:
        self._events.append(Event(stream, kind, self._clock(), self._run, id, parent, data))

    def _stream(self, event: dict[str, Any], parent: str | None) -> None:
        kind, message = event.get("type"), self._message
        if kind == "message_start":
            self._start_message(event["message"], parent)
        elif message is None:
            return
        elif kind == "content_block_start":
            message.blocks[event["index"]] = (event["content_block"]["type"], [])
        elif kind == "content_block_stop":
            self._end_block(message, event["index"])
        elif kind == "message_delta":
            message.stop = event["delta"].get("stop_reason")
            call = self.meter.ended(message.id, event.get("usage"), is_whole=message.stop is not None)
            if call is not None:
                self._add_call(call)
        elif kind == "message_stop":
            self._end_message(message)

    def _start_message(self, message: dict[str, Any], parent: str | None) -> None:
        if self._message is not None:  # a retry inside the CLI: the first attempt never ended
            self._end_message(self._message)
        self._message = _OpenMessage(message["id"], parent)
        self._streamed.add(message["id"])
        self.meter.started(message["id"], message["model"], message.get("usage"))
        self._add("assistant", "started", message["id"], parent, model=message["model"])

    def _delta(self, index: int, delta: dict[str, Any], parent: str | None) -> None:
        kind, message = _DELTAS.get(delta.get("type", "")), self._message
        text = delta.get(kind, "") if kind is not None else ""
        if kind is None or message is None or not text:
            return
        block = message.blocks.get(index)
        if block is None:
            block = message.blocks[index] = (kind, [])
        block[1].append(text)
        self._events.append(piece_of(kind, self._clock(), self._run, message.id, parent, text))

    def _end_block(self, message: _OpenMessage, index: int) -> None:
        kind, parts = message.blocks.pop(index, ("", []))
        text = "".join(parts)
        if kind == "text":
            message.text.append(text)
        if kind in ("text", "thinking") and text:
            self._add("assistant", "block", message.id, message.parent, type=kind, text=text)

    def _end_message(self, message: _OpenMessage) -> None:
        for index in list(message.blocks):
            self._end_block(message, index)
        self._message = None
        text = "".join(message.text)
        self._add("assistant", "ended", message.id, message.parent, stop=message.stop, text=text)

    def _assistant(self, message: AssistantMessage) -> None:
        import claude_agent_sdk as sdk

        if message.model == _SYNTHETIC or message.error is not None:
            return
        id = message.message_id or message.uuid or self._run
        parent = message.parent_tool_use_id
        for block in message.content:
            if isinstance(block, sdk.ToolUseBlock):
                self._start_tool(block, parent)
            elif id not in self._streamed and isinstance(block, sdk.TextBlock):
                self._add("assistant", "block", id, parent, type="text", text=block.text)
            elif id not in self._streamed and isinstance(block, sdk.ThinkingBlock):
                self._add("assistant", "block", id, parent, type="thinking", text=block.thinking)

    def _start_tool(self, block: ToolUseBlock, parent: str | None) -> None:
        if block.id in self._tools:
            return
        self._tools[block.id] = _OpenTool(block.name, self._clock(), parent)
        self._add("tool", "started", block.id, parent, name=block.name, arguments=block.input)

    def _user(self, message: UserMessage) -> None:
        import claude_agent_sdk as sdk

        if isinstance(message.content, str):
            return
        for block in message.content:
            if isinstance(block, sdk.ToolResultBlock) and block.tool_use_id in self._tools:
                ok, text = not block.is_error, result_text(block.content)
                if self._ran_unasked(block.tool_use_id, ok=ok, text=text):
                    self.unasked = self.unasked or self._tools[block.tool_use_id].name
                self._end_tool(block.tool_use_id, ok=ok, text=text)

    def _ran_unasked(self, call: str, *, ok: bool, text: str) -> bool:
        if self.judged is None or self.judged.get(call, False):
            return False
        was_begun = call not in self._cut_short and not _never_ran(text)
        return ok or (call not in self.judged and was_begun)

    def _end_tool(self, call_id: str, *, ok: bool, text: str) -> None:
        tool = self._tools.pop(call_id)
        ms = round((self._clock() - tool.started) * 1000)
        reason = self.denied.get(call_id)
        deferred = call_id in self.deferred
        interrupted = not ok and reason is None and call_id in self._cut_short and not deferred
        how = {"denied": reason is not None, "reason": reason, "interrupted": interrupted}
        how |= {"deferred": True} if deferred else {}
        kept = text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + f"… ({len(text)} characters)"
        self._add("tool", "ended", call_id, tool.parent, name=tool.name, ok=ok, text=kept, ms=ms, **how)

    def _add_call(self, call: Call) -> None:
        self._add("usage", "call", call.id, **dataclasses.asdict(call))

    def _system(self, message: SystemMessage) -> None:
        data = message.data
        if message.subtype == "api_retry":
            self._add(
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
            self._add("lifecycle", "warning", self._run, what=what)
        elif message.subtype == "permission_denied":  # what the guard refused has its reason already
            self.denied.setdefault(str(data.get("tool_use_id")), _refusal(data))
        elif message.subtype == "status" and data.get("status") == "requesting":
            self.meter.asked()
        elif message.subtype == "status" and data.get("status") == "compacting":
            self._compacting = True
            self._add("compaction", "started", self._run, trigger=data.get("trigger"))
        elif message.subtype == "compact_boundary":
            meta = data.get("compact_metadata") or {}
            counts = {"before": meta.get("pre_tokens"), "after": meta.get("post_tokens")}
            self._compacting = False
            self._add("compaction", "ended", self._run, trigger=meta.get("trigger"), **counts)

    def _rate_limit(self, message: RateLimitEvent) -> None:
        info = message.rate_limit_info
        if info.status != "allowed":
            self._add("lifecycle", "warning", self._run, what=f"rate limit: {info.status}")


def _refusal(data: Mapping[str, Any]) -> str:
    """Why the CLI itself refused a call, in a sentence; what it goes on to tell the model is left out."""
    why = str(data.get("decision_reason") or data.get("message") or "").partition(". ")[0].rstrip(".")
    return f"{REFUSED_BY_CLI}: {safe_line(why, _MOST_REASON)}" if why else REFUSED_BY_CLI


def result_text(content: Any) -> str:
    """The text in a tool result; other content as its type."""
    if isinstance(content, str):
        return content
    parts = []
    for item in content or []:
        kind = item.get("type") if isinstance(item, dict) else None
        parts.append(str(item["text"]) if kind == "text" else f"[{kind}]")
    return "\n".join(parts)


def _never_ran(text: str) -> bool:
    """Whether the error of a call says that the CLI did not begin with it; what a tool says itself comes bare."""
    return text.startswith(_NOT_BEGUN)


class Work:
    """Follows the messages for one prompt, and knows when the work for it is over.

    A result message ends one turn of the CLI. A subagent may go on in the background,
    and its end wakes the CLI for another turn with another result: only then is the
    work done. The CLI says so with its session state; where it does not, the tasks it
    announced decide. Commands in the background are not waited for: a server never ends.
    """

    def __init__(self) -> None:
        self._result: ResultMessage | None = None
        self._cli_state: str | None = None
        self._agents: set[str] = set()

    def done(self, message: Message) -> ResultMessage | None:
        """The last result, once this message shows that nothing more will come."""
        import claude_agent_sdk as sdk

        if isinstance(message, sdk.ResultMessage):
            self._result = message
            if message.is_error:
                return message
        elif isinstance(message, sdk.SystemMessage):
            self._follow(message)
        return self._result if self._cli_state in (None, "idle") and not self._agents else None

    def _follow(self, message: SystemMessage) -> None:
        data = message.data
        if message.subtype == "session_state_changed":
            self._cli_state = data.get("state")
        elif message.subtype == "task_started" and data.get("task_type") in _AGENTS:
            self._agents.add(data["task_id"])
        elif message.subtype == "task_notification" or _is_over(data):
            self._agents.discard(data.get("task_id", ""))


def _is_over(data: dict[str, Any]) -> bool:
    return data.get("subtype") == "task_updated" and (data.get("patch") or {}).get("status") in _OVER
