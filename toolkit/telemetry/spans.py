"""The events of one run become spans: one for the run, one for each model call, tool call, setup and verify.

| span | begins | ends |
|---|---|---|
| `invoke_agent claude-code` | with the first turn | with the last turn |
| `chat MODEL` | when the model was asked: with the turn, or when the tool call before it ended | with the answer |
| `execute_tool NAME` | `tool.started` | `tool.ended` |
| `setup`, `verify` | `….started` | `….ended` |

A subagent's spans hang below the tool call it works for. Approvals, refusals of the gate, retries and warnings are
events on the span they belong to.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from toolkit.telemetry import names
from toolkit.telemetry.ids import GivenIds, Lineage, below

if TYPE_CHECKING:
    from toolkit.runs import Event
    from toolkit.telemetry.metrics import Meters

_PHASES = ("setup", "verify")
_AS_EVENTS = {"retry", "warning", "changed"}


class RunSpans:
    """Feed it a run's events in their order, then `end` it."""

    def __init__(self, run: str, lineage: Lineage, tracer: Tracer, meters: Meters, *, contents: bool) -> None:
        self._run = run
        self._lineage = lineage
        self._tracer = tracer
        self._meters = meters
        self._contents = contents
        self._ids = GivenIds.put_into(tracer)
        self._root: Span | None = None
        self._open: dict[str, tuple[Span, float]] = {}
        """Spans of calls, messages and phases that have not ended: the span, and when it began."""
        self._asked: dict[str | None, float] = {}
        """When the model was asked last, for the main conversation and for each subagent."""
        self._models: dict[str, str] = {}
        self._phases: Counter[str] = Counter()
        self._turns = 0
        self._last: Event | None = None
        self._finished: dict[str, Any] = {}

    def feed(self, event: Event) -> None:
        """Take in one event."""
        self._last = event
        if event.stream == "lifecycle":
            self._lifecycle(event)
        elif event.stream == "assistant":
            self._assistant(event)
        elif event.stream == "tool":
            self._tool(event)
        elif event.name == "usage.call":
            self._usage(event)
        elif event.stream in _PHASES:
            self._phase(event)
        elif self._root is not None:
            call = event.data.get("call")
            span = self._open.get(call, (self._root, 0.0))[0] if isinstance(call, str) else self._root
            self._note(span, event)

    def end(self) -> None:
        """End what is open, at the time of the last event."""
        if self._last is None or self._root is None:
            return
        at = self._last.t
        for key in list(self._open):
            self._close(key, at)
        self._tell_end(self._root)
        self._root.end(_ns(at))
        self._root = None

    def _lifecycle(self, event: Event) -> None:
        if event.kind == "started":
            self._begin_turn(event)
        elif event.kind == "finished":
            self._finished = event.data
            for key in list(self._open):
                self._close(key, event.t)
            self._tell_refused_by_the_cli(event)
        elif event.kind in _AS_EVENTS and self._root is not None:
            self._note(self._root, event)

    def _tell_refused_by_the_cli(self, event: Event) -> None:
        """What the CLI itself refused is known at the end of a turn only, when the call's own span has ended."""
        for call in event.data.get("denied") or ():
            if self._root is not None:
                told = {names.TOOL_NAME: call["name"], names.TOOL_CALL: call["id"], "reason": call["reason"]}
                self._root.add_event("refused", told, _ns(event.t))

    def _begin_turn(self, event: Event) -> None:
        self._turns += 1
        self._asked[None] = event.t
        root = self._root = self._root or self._start_root(event.t)
        if self._turns > 1:
            root.add_event("turn", {"turn": event.data.get("turn") or 0}, _ns(event.t))
            return
        about = {names.CONVERSATION: event.data.get("session"), names.REQUEST_MODEL: event.data.get("model")}
        root.set_attributes(_known({**about, "toolkit.trace": event.trace}))
        if self._contents:
            root.set_attribute(names.INPUT_MESSAGES, names.as_messages("user", str(event.data.get("prompt", ""))))

    def _start_root(self, at: float) -> Span:
        """The span of the run; what comes before the first turn, a setup, belongs to it as well."""
        about = {names.OPERATION: "invoke_agent", names.AGENT_NAME: names.AGENT, names.PROVIDER: names.ANTHROPIC}
        name = f"invoke_agent {names.AGENT}"
        return self._start(name, at, self._run, SpanKind.INTERNAL, about | {"toolkit.run.id": self._run})

    def _assistant(self, event: Event) -> None:
        if event.kind == "started":
            model = str(event.data.get("model") or "")
            begun = self._asked.get(event.parent, event.t)
            about = {names.OPERATION: "chat", names.PROVIDER: names.ANTHROPIC, names.RESPONSE_ID: event.id}
            about |= {names.REQUEST_MODEL: model, names.RESPONSE_MODEL: model}
            self._models[event.id] = model
            self._begin(event, f"chat {model}".rstrip(), SpanKind.CLIENT, about, at=begun)
        elif event.kind == "ended" and (found := self._open.get(event.id)):
            if stop := event.data.get("stop"):
                found[0].set_attribute(names.FINISH_REASONS, [str(stop)])
            if self._contents and event.data.get("text"):
                found[0].set_attribute(names.OUTPUT_MESSAGES, names.as_messages("assistant", event.data["text"]))
            self._close(event.id, event.t, operation="chat", model=self._models.get(event.id, ""))
            self._asked[event.parent] = event.t

    def _usage(self, event: Event) -> None:
        data = event.data
        counts = {
            # The convention counts what came from the cache, and what went into it, as input.
            names.INPUT_TOKENS: data["input"] + data["cache_read"] + data["cache_write"],
            names.OUTPUT_TOKENS: data["output"],
            names.CACHE_READ: data["cache_read"],
            names.CACHE_WRITE: data["cache_write"],
        }
        if found := self._open.get(event.id):
            found[0].set_attributes(counts)
        self._meters.tokens(str(data.get("model") or ""), counts[names.INPUT_TOKENS], counts[names.OUTPUT_TOKENS])

    def _tool(self, event: Event) -> None:
        if event.kind == "started":
            name = str(event.data["name"])
            about = {names.OPERATION: "execute_tool", names.TOOL_NAME: name, names.TOOL_CALL: event.id}
            about[names.TOOL_TYPE] = "function"
            if self._contents:
                about[names.TOOL_ARGUMENTS] = names.as_content(event.data.get("arguments"))
            self._begin(event, f"execute_tool {name}", SpanKind.INTERNAL, about)
        elif event.kind == "ended" and (found := self._open.get(event.id)):
            if self._contents and event.data.get("text") is not None:
                found[0].set_attribute(names.TOOL_RESULT, names.as_content(event.data["text"]))
            if reason := event.data.get("reason"):
                found[0].add_event("refused", {"reason": names.bounded(str(reason))}, _ns(event.t))
            self._close(event.id, event.t, error=_tool_error(event.data), tool=str(event.data["name"]))
            self._asked[event.parent] = event.t

    def _phase(self, event: Event) -> None:
        """A setup or a verify; the run's id is its own, so it goes by its name and how often that was there."""
        key = f"{self._run}/{event.stream}/{self._phases[event.stream]}"
        if event.kind == "started":
            self._phases[event.stream] += 1
            key = f"{self._run}/{event.stream}/{self._phases[event.stream]}"
            self._begin(dataclasses.replace(event, id=key), event.stream, SpanKind.INTERNAL, {})
        elif event.kind == "ended" and key in self._open:
            told = event.data if self._contents else {**event.data, "output": None, "command": None}
            self._open[key][0].set_attributes(_plain(told, f"toolkit.{event.stream}."))
            failed = event.data.get("ok") is False or event.data.get("passed") is False
            self._close(key, event.t, error="failed" if failed else None)

    def _tell_end(self, root: Span) -> None:
        data = self._finished
        total = data.get("total") or {}
        if total:
            whole = total.get("input", 0) + total.get("cache_read", 0) + total.get("cache_write", 0)
            root.set_attributes({names.INPUT_TOKENS: whole, names.OUTPUT_TOKENS: total.get("output", 0)})
            root.set_attributes({names.CACHE_READ: total["cache_read"], names.CACHE_WRITE: total["cache_write"]})
        code = str(data.get("code") or "crashed")
        root.set_attribute("toolkit.run.code", code)
        root.set_attributes(_known({"toolkit.run.cost_usd": data.get("cost"), "toolkit.run.turns": data.get("turns")}))
        root.set_attributes(_known({"toolkit.run.verified": data.get("verified")}))
        if code != "ok":
            root.set_attribute(names.ERROR, code)
            root.set_status(Status(StatusCode.ERROR, str(data.get("message") or "") or None))
        self._meters.run(code, data.get("ms"), data.get("cost"))

    def _begin(self, event: Event, name: str, kind: SpanKind, about: dict[str, Any], at: float | None = None) -> None:
        self._root = self._root or self._start_root(event.t)
        begun = event.t if at is None else at
        self._open[event.id] = (self._start(name, begun, event.id, kind, about, parent=event.parent), begun)

    def _start(
        self, name: str, at: float, what: str, kind: SpanKind, about: dict[str, Any], parent: str | None = None
    ) -> Span:
        """A span whose id follows from what it is about."""
        if what == self._run:
            context = None if self._lineage.parent is None else below(self._lineage.parent)
        else:
            context = below(self._lineage.context_of(parent or self._run))
        mine = self._lineage.context_of(what)
        given = nullcontext() if self._ids is None else self._ids.next(mine.trace_id, mine.span_id)
        with given:
            return self._tracer.start_span(name, context, kind=kind, attributes=about, start_time=_ns(at))

    def _close(
        self,
        key: str,
        at: float,
        *,
        error: str | None = None,
        operation: str | None = None,
        model: str = "",
        tool: str | None = None,
    ) -> None:
        span, begun = self._open.pop(key)
        if error is not None:
            span.set_attribute(names.ERROR, error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(at))
        if operation is not None:
            self._meters.operation(operation, model, at - begun)
        if tool is not None:
            self._meters.tool(tool, at - begun, error)

    def _note(self, span: Span, event: Event) -> None:
        data = event.data
        if not self._contents and event.stream == "approval":
            data = {key: value for key, value in data.items() if key in _SAFE_OF_APPROVALS}
        span.add_event(event.name, _plain(data, ""), _ns(event.t))


_SAFE_OF_APPROVALS = {"call", "tool", "read_only", "decision", "by"}


def _tool_error(data: dict[str, Any]) -> str | None:
    for word in ("denied", "interrupted", "deferred"):
        if data.get(word):
            return word
    return None if data.get("ok") else "tool_error"


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is not known."""
    return {key: value for key, value in values.items() if value is not None}


def _plain(data: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values an attribute can hold, texts bounded."""
    kept = {key: value for key, value in data.items() if isinstance(value, str | int | float | bool)}
    return {prefix + key: names.bounded(value) if isinstance(value, str) else value for key, value in kept.items()}
