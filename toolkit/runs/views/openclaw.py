"""The vocabulary of OpenClaw: its callbacks, in its order, and the result of an embedded run.

onAssistantMessageStart opens a message; onPartialReply and onReasoningStream get its
deltas, thinking apart from text; onBlockReply gets whole blocks (`text_end`) or what
a message has said (`message_end`). Before a tool starts, what was said is handed on
and onBlockReplyFlush is called; after it, onToolResult. onAgentEvent gets every
lifecycle, tool, assistant and compaction event, after the callback that is about the same.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolkit._base.words import did_you_mean
from toolkit.errors import RunError
from toolkit.runs.outcome.events import Event
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.views._view import Texts, View, listener, said

Break = Literal["text_end", "message_end"]
Answer = Callable[..., Any]

CALLBACKS = (
    "onAssistantMessageStart",
    "onPartialReply",
    "onReasoningStream",
    "onBlockReply",
    "onBlockReplyFlush",
    "onToolResult",
    "onAgentEvent",
)
SWITCHES = ("shouldEmitToolResult", "shouldEmitToolOutput")
PROVIDER = "anthropic"

_ABORTED = ("aborted", "stopped", "deadline", "budget")
_KINDS = ("context_overflow", "image_size")


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a callback; those without a payload take no argument."""

    name: str
    payload: dict[str, Any] | None = None


class OpenClaw(View[Called]):
    """Feed it events; it gives the callbacks to call. A shouldEmit… that is not among the switches says yes.

    Raises:
        RunError: a break mode or a switch that does not exist.
    """

    def __init__(
        self, *, block_reply_break: Break = "text_end", switches: Mapping[str, Callable[[], bool]] | None = None
    ) -> None:
        if block_reply_break not in ("text_end", "message_end"):
            raise RunError(f"blockReplyBreak is text_end or message_end, not '{block_reply_break}'")
        self._switches = dict(_checked(switches or {}, SWITCHES))
        self._at_text_end = block_reply_break == "text_end"
        self._texts = Texts()
        self._message: str | None = None
        self._waiting: list[str] = []
        self._names: dict[str, str] = {}

    def _say(self, event: Event) -> Iterator[Called]:
        delta = self._texts.feed(event)
        if event.stream == "assistant":
            if event.parent is None:
                yield from self._assistant(event, delta)
        elif event.stream == "tool":
            yield from self._tool(event)
        elif event.stream == "compaction":
            ends = {} if event.kind == "started" else {"willRetry": False}
            yield _agent("compaction", "start" if event.kind == "started" else "end", **ends)
        elif event.stream == "lifecycle":
            yield from self._lifecycle(event)
        elif event.name == "verify.ended":
            yield _agent("lifecycle", "verify", attempt=event.data["attempt"], passed=event.data["passed"])
        elif event.stream == "gate" and event.data["times"] == 1:
            yield _agent("lifecycle", "warning", message=f"the gate refused {event.data['what']}: {event.data['why']}")

    def _assistant(self, event: Event, delta: str) -> Iterator[Called]:
        if event.kind != "ended" and event.id != self._message:
            self._message = event.id
            yield Called("onAssistantMessageStart")
        if delta:
            yield Called("onPartialReply", {"text": delta})
            yield _agent("assistant", None, delta=delta)
        if event.kind == "thinking":
            yield Called("onReasoningStream", {"text": event.data["text"]})
        elif event.kind == "block" and event.data["type"] == "text":
            self._waiting.append(event.data["text"])
            if self._at_text_end:
                yield from self._hand_on()
        elif event.kind == "ended":
            yield from self._hand_on()

    def _tool(self, event: Event) -> Iterator[Called]:
        data = event.data
        facts: dict[str, Any] = {"toolCallId": event.id}
        if event.parent is not None:
            facts["parentToolCallId"] = event.parent
        if event.kind == "started":
            self._names[event.id] = data["name"]
            if event.parent is None:
                yield from self._hand_on()
                yield Called("onBlockReplyFlush")
            yield _agent("tool", "start", name=data["name"], **facts, args=data["arguments"])
        elif event.kind == "progress":
            partial = {name: data[name] for name in ("done", "total", "message")}
            yield _agent("tool", "update", name=self._names.get(event.id, ""), **facts, partialResult=partial)
        else:
            self._names.pop(event.id, None)
            output = {"result": data["text"]} if self._is_on("shouldEmitToolOutput") else {}
            if event.parent is None and self._is_on("shouldEmitToolResult"):
                text = data["text"] if output else data["name"]
                yield Called("onToolResult", {"text": text, "isError": not data["ok"]})
            yield _agent("tool", "result", name=data["name"], **facts, isError=not data["ok"], **output)

    def _lifecycle(self, event: Event) -> Iterator[Called]:
        data, at = event.data, round(event.t * 1000)
        if event.kind == "started":
            self._message = None
            yield _agent("lifecycle", "start", startedAt=at)
        elif event.kind == "finished":
            yield from self._hand_on()
            if data["ok"] or data["code"] in ("aborted", "pending"):
                yield _agent("lifecycle", "end", endedAt=at, aborted=data["code"] == "aborted")
            else:
                yield _agent("lifecycle", "error", endedAt=at, error=data["message"])
        elif event.kind == "retry":
            yield _agent("lifecycle", "retry", attempt=data["attempt"], delayMs=data["delay_ms"])
        elif event.kind in ("warning", "changed"):
            yield _agent("lifecycle", "warning", message=data["what"])

    def _hand_on(self) -> Iterator[Called]:
        text, self._waiting = "".join(self._waiting), []
        if text.strip():
            yield Called("onBlockReply", {"text": text})

    def _is_on(self, switch: str) -> bool:
        return switch not in self._switches or bool(self._switches[switch]())


def view(
    events: Iterable[Event],
    *,
    block_reply_break: Break = "text_end",
    switches: Mapping[str, Callable[[], bool]] | None = None,
) -> list[Called]:
    """The callbacks that a run's events call, in order."""
    return said(OpenClaw(block_reply_break=block_reply_break, switches=switches), events)


def caller(
    callbacks: Mapping[str, Answer], *, block_reply_break: Break = "text_end"
) -> Callable[[Event], Awaitable[None]]:
    """A listener for `live.bus.subscribe` that calls these callbacks, by their names, sync or async.

    Raises:
        RunError: a name that is no callback's.
    """
    known = _checked(callbacks, (*CALLBACKS, *SWITCHES))
    switches = {name: known[name] for name in SWITCHES if name in known}

    def call(called: Called) -> Any:
        callback = known.get(called.name)
        if callback is None:
            return None
        return callback() if called.payload is None else callback(called.payload)

    return listener(OpenClaw(block_reply_break=block_reply_break, switches=switches), call)


def result(events: Iterable[Event], result: RunResult[Any]) -> dict[str, Any]:
    """The EmbeddedPiRunResult of a run's last turn: `payloads` and `meta`.

    What was said before the run ended early is in the payloads; an end that is not
    ok adds a payload with `isError`, unless it was the caller who interrupted.
    """
    texts, compacting = Texts(), False
    for event in events:
        texts.feed(event)
        if event.stream == "compaction":
            compacting = event.data.get("after") is None
    payloads: list[dict[str, Any]] = [{"text": text} for text in texts.messages]
    if not result.ok and result.code not in ("aborted", "pending"):
        payloads.append({"text": result.message, "isError": True})
    total = result.total
    counts = {"input": total.input, "output": total.output, "cacheRead": total.cache_read}
    usage = {**counts, "cacheWrite": total.cache_write, "total": total.total}
    agent = {"sessionId": result.session or "", "provider": PROVIDER, "model": result.model or "", "usage": usage}
    meta: dict[str, Any] = {"durationMs": result.ms, "agentMeta": agent, "aborted": result.code in _ABORTED}
    if result.code in _KINDS:
        kind = "compaction_failure" if compacting and result.code == "context_overflow" else result.code
        meta["error"] = {"kind": kind, "message": result.message}
    stop = "tool_calls" if result.code == "pending" else result.stop
    if stop is not None:
        meta["stopReason"] = stop
    if result.pending:
        meta["pendingToolCalls"] = [
            {"id": call.id, "name": call.name, "arguments": json.dumps(call.arguments)} for call in result.pending
        ]
    return {"payloads": payloads, "meta": meta}


def _agent(stream: str, phase: str | None, **data: Any) -> Called:
    return Called("onAgentEvent", {"stream": stream, "data": data if phase is None else {"phase": phase, **data}})


def _checked(given: Mapping[str, Answer], known: tuple[str, ...]) -> Mapping[str, Answer]:
    example = 'Write for example: caller({"onBlockReply": function})'
    if not isinstance(given, Mapping):
        raise RunError(f"callbacks are a mapping of names to functions, not {type(given).__name__}(…)", fix=example)
    for name, function in given.items():
        if name not in known:
            raise RunError(f"there is no callback '{name}'{did_you_mean(str(name), known)}")
        if not callable(function):
            raise RunError(f"the callback '{name}' is a function, not {type(function).__name__}(…)", fix=example)
    return given
