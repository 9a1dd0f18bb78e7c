"""What a run came to, told from its events alone: for a run that was killed before it could say so itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from toolkit.runs.outcome.codes import Code
from toolkit.runs.outcome.events import Call, Event, Tokens
from toolkit.runs.outcome.result import DeniedCall, RunResult, ToolUse


@dataclass(slots=True)
class Rebuilt:
    """Fed with the events of a run in order, it knows what a result can say."""

    run: str
    code: Code = "crashed"
    said: str = ""
    saying: list[str] = field(default_factory=list)
    """The words of the message under way."""
    facts: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    open_calls: dict[str, None] = field(default_factory=dict)
    tools: list[ToolUse] = field(default_factory=list)
    open_tools: dict[str, Event] = field(default_factory=dict)
    denied: list[DeniedCall] = field(default_factory=list)
    unattributed: Tokens = field(default_factory=Tokens)
    cost: float = 0.0
    ms: int = 0
    since: float | None = None
    """When the turn under way began."""
    last: float = 0.0

    def feed(self, event: Event) -> None:
        """Take one event in."""
        self.last = event.t
        handle = _HANDLERS.get(event.name)
        if handle is not None:
            handle(self, event, event.data)

    def result(self) -> RunResult[Any]:
        """The result, with whatever was under way closed."""
        total = self.unattributed
        for call in self.calls:
            total += call.tokens
        cut_off = [
            ToolUse(id, event.data["name"], False, round((self.last - event.t) * 1000), event.parent)
            for id, event in self.open_tools.items()
        ]
        under_way = 0 if self.since is None else round((self.last - self.since) * 1000)
        return RunResult(
            run=self.run,
            code=self.code,
            text="".join(self.saying) or self.said,
            session=self.facts.get("session"),
            stop=self.facts.get("stop"),
            calls=tuple(self.calls),
            total=total,
            unattributed=self.unattributed,
            cost=self.cost,
            ms=self.ms + under_way,
            tools=(*self.tools, *cut_off),
            denied=tuple(self.denied),
            model=self.facts.get("model"),
            debug={"calls_without_usage": list(self.open_calls)} if self.open_calls else {},
        )

    def _turn_started(self, event: Event, data: dict[str, Any]) -> None:
        self.facts = {"session": data.get("session"), "model": data.get("model")}
        self.code, self.since, self.said, self.saying = "crashed", event.t, "", []

    def _turn_finished(self, event: Event, data: dict[str, Any]) -> None:
        self.code, self.since, self.said, self.saying = data["code"], None, data["text"], []
        self.facts["stop"] = data["stop"]
        self.cost += data["cost"]
        self.ms += data["ms"]
        self.unattributed += Tokens(**data["unattributed"])

    def _message_started(self, event: Event, data: dict[str, Any]) -> None:
        self.open_calls[event.id] = None
        if event.parent is None:
            self.saying = []

    def _words(self, event: Event, data: dict[str, Any]) -> None:
        if event.parent is None:
            self.saying.append(data["text"])

    def _block(self, event: Event, data: dict[str, Any]) -> None:
        is_streamed = event.id in self.open_calls
        if not is_streamed and event.parent is None and data["type"] == "text":
            self.said = data["text"]

    def _message_ended(self, event: Event, data: dict[str, Any]) -> None:
        self.said, self.saying = data["text"] or self.said, []
        self.facts["stop"] = data["stop"]

    def _call(self, event: Event, data: dict[str, Any]) -> None:
        self.open_calls.pop(event.id, None)
        self.calls.append(Call(**data))

    def _tool_started(self, event: Event, data: dict[str, Any]) -> None:
        self.open_tools[event.id] = event

    def _tool_ended(self, event: Event, data: dict[str, Any]) -> None:
        self.open_tools.pop(event.id, None)
        self.tools.append(ToolUse(event.id, data["name"], data["ok"], data["ms"], event.parent))
        if data["denied"]:
            self.denied.append(DeniedCall(event.id, data["name"], data["text"]))


_HANDLERS = {
    "lifecycle.started": Rebuilt._turn_started,
    "lifecycle.finished": Rebuilt._turn_finished,
    "assistant.started": Rebuilt._message_started,
    "assistant.text": Rebuilt._words,
    "assistant.block": Rebuilt._block,
    "assistant.ended": Rebuilt._message_ended,
    "usage.call": Rebuilt._call,
    "tool.started": Rebuilt._tool_started,
    "tool.ended": Rebuilt._tool_ended,
}


def rebuilt(run: str, events: Iterable[Event]) -> RunResult[Any]:
    """The result that the events of a run tell; `crashed` where its last turn did not finish."""
    story = Rebuilt(run)
    for event in events:
        story.feed(event)
    return story.result()


def turn_under_way(run: str, events: Iterable[Event]) -> RunResult[Any]:
    """The same for the last turn alone, which did not finish."""
    story = Rebuilt(run)
    for event in events:
        story.feed(event)
        if event.name == "lifecycle.finished":
            story = Rebuilt(run)
    return story.result()
