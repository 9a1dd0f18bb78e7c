"""The vocabulary of Cogni: text_delta, usage_report, tool_call_start, tool_call_result, assistant_final, done.

One usage_report for each model call, with the numbers the API gave for that
call, and one for what no call explains (subagents, compaction), so that the
reports add up to the run. What a call costs is known when the turn is over:
`usage_facts` has it; in a usage_report `costUsd` is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolkit.runs.outcome.codes import Code
from toolkit.runs.outcome.events import Call, Event, Tokens
from toolkit.runs.views._view import Texts, View, said

SOURCE = "anthropic_sdk"
EXECUTOR = "claude_sdk"

CogniEvent = dict[str, Any]
UsageFact = dict[str, Any]

_ERRORS: dict[Code, str] = {
    "deadline": "timeout",
    "turn_limit": "timeout",
    "budget": "rate_limit",
    "throttled": "rate_limit",
}
_WEIGHTS = {"inputTokens": 100, "outputTokens": 500, "cacheReadTokens": 10, "cacheWriteTokens": 125}
"""How the price of one token relates to another's in Anthropic's prices. Only shares of a known cost are made of it."""


class Cogni(View[CogniEvent]):
    """Feed it events; it gives AiEvents as plain dicts."""

    def __init__(self) -> None:
        self._texts = Texts()

    def _say(self, event: Event) -> Iterator[CogniEvent]:
        delta = self._texts.feed(event)
        if delta:
            yield {"type": "text_delta", "delta": delta}
        elif event.name == "tool.started":
            yield _tool(event, "tool_call_start", toolName=event.data["name"], args=event.data["arguments"])
        elif event.name == "tool.ended":
            yield _tool(event, "tool_call_result", result=event.data["text"], isError=not event.data["ok"])
        elif event.name == "usage.call":
            yield {"type": "usage_report", "fact": _fact(Call(**event.data))}
        elif event.name == "lifecycle.finished":
            yield from ({"type": "usage_report", "fact": rest} for rest in _unexplained(event))
            yield {"type": "assistant_final", "content": event.data["text"]}
            yield {"type": "done"}


def view(events: Iterable[Event]) -> list[CogniEvent]:
    """The events of a run in Cogni's words."""
    return said(Cogni(), events)


def final(events: Iterable[Event], *, request_id: str = "") -> dict[str, Any] | None:
    """The GraphFinal of a run's last turn; None while it is not over.

    `error` is there unless the run is ok; it is a code, never a text of the SDK's.
    """
    ends = [event for event in events if event.name == "lifecycle.finished"]
    if not ends:
        return None
    data = ends[-1].data
    total = Tokens(**data["total"])
    answer = {
        "ok": data["ok"],
        "runId": ends[-1].run,
        "requestId": request_id,
        "content": data["text"],
        "usage": {"promptTokens": total.total - total.output, "completionTokens": total.output},
        "finishReason": "tool_calls" if data["code"] == "pending" else data["stop"],
    }
    error = error_of(data["code"])
    return answer if error is None else {**answer, "error": error}


def error_of(code: Code) -> str | None:
    """The AiExecutionErrorCode for a code; None for `ok` alone."""
    return None if code == "ok" else _ERRORS.get(code, "internal")


def usage_facts(events: Iterable[Event]) -> list[UsageFact]:
    """One fact for each model call, and one for what no call explains, with what each cost.

    The CLI counts the cost of a turn; a fact has the share of it that its tokens
    have. The facts of a turn add up to its tokens and to its cost. Where the cost of
    the turn is not known, each has None.
    """
    facts: list[UsageFact] = []
    turn: list[UsageFact] = []
    for event in events:
        if event.name == "usage.call":
            turn.append(_fact(Call(**event.data)))
        elif event.name == "lifecycle.finished":
            facts += _priced([*turn, *_unexplained(event)], event.data["cost"])
            turn = []
    return facts + turn


def idempotency_key(fact: UsageFact) -> str:
    """What a bill may be keyed by: `runId/attempt/usageUnitId`."""
    return f"{fact['runId']}/{fact['attempt']}/{fact['usageUnitId']}"


def _fact(call: Call) -> UsageFact:
    return {
        "usageUnitId": call.id,
        "runId": call.run,
        "attempt": call.attempt,
        "source": SOURCE,
        "executorType": EXECUTOR,
        "model": call.model,
        "inputTokens": call.input,
        "outputTokens": call.output,
        "cacheReadTokens": call.cache_read,
        "cacheWriteTokens": call.cache_write,
        "costUsd": None,
    }


def _unexplained(finished: Event) -> list[UsageFact]:
    """The fact for what the turn used beside its calls, if there is any; its model is not known."""
    rest = Tokens(**finished.data["unattributed"])
    if rest.total == 0:
        return []
    name = f"unattributed-{finished.data['turn']}"
    call = Call(name, "", rest.input, rest.output, rest.cache_read, rest.cache_write, finished.run)
    return [{**_fact(call), "model": None}]


def _priced(facts: list[UsageFact], cost: float | None) -> list[UsageFact]:
    if cost is None:
        return facts
    weights = [sum(fact[name] * weight for name, weight in _WEIGHTS.items()) for fact in facts]
    whole = sum(weights) or 1
    return [{**fact, "costUsd": cost * weight / whole} for fact, weight in zip(facts, weights, strict=True)]


def _tool(event: Event, kind: str, **fields: Any) -> CogniEvent:
    parent = {} if event.parent is None else {"parentToolCallId": event.parent}
    return {"type": kind, "toolCallId": event.id, **fields, **parent}
