"""The vocabulary of Lace: token, token_usage_update, approval_request, complete, and the provider's response.

The response holds everything the model said and every tool it called in the turn,
not only its last message. A token_usage_update counts the whole turn so far, so the
last one is the total. `complete` comes once, also after a failure: then the
response's stopReason is `error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError
from toolkit.runs.asking.approvals import Decision, Kind
from toolkit.runs.outcome.events import Call, Event, Tokens
from toolkit.runs.views._view import Texts, View, said

if TYPE_CHECKING:
    from toolkit.runs.asking.approvals import Approvals


@dataclass(frozen=True, slots=True)
class Emitted:
    """One event of the provider: its name and what listeners get."""

    name: str
    payload: dict[str, Any]


class Lace(View[Emitted]):
    """Feed it events. With `live.approvals` the approval requests carry a `resolve` that answers them."""

    def __init__(self, approvals: Approvals | None = None) -> None:
        self._approvals = approvals
        self._loop = None if approvals is None else asyncio.get_running_loop()
        self._texts = Texts()
        self._begin()

    def _begin(self) -> None:
        self._used = Tokens()
        self._calls: list[dict[str, Any]] = []

    def _say(self, event: Event) -> Iterator[Emitted]:
        data, token = event.data, self._texts.feed(event)
        if token:
            yield Emitted("token", {"token": token})
        elif event.name == "lifecycle.started":
            self._begin()
        elif event.name == "tool.started" and event.parent is None:
            self._calls.append({"id": event.id, "name": data["name"], "arguments": data["arguments"]})
        elif event.name == "usage.call":
            self._used += Call(**data).tokens
            yield Emitted("token_usage_update", {"usage": usage(self._used)})
        elif event.name == "approval.asked":
            asked = {"toolName": data["tool"], "input": data["input"], "isReadOnly": data["read_only"]}
            answer = {"requestId": event.id, "resolve": self._resolver(event.id)}
            yield Emitted("approval_request", {**asked, **answer})
        elif event.name == "lifecycle.finished":
            used = usage(Tokens(**data["total"]))
            yield Emitted("token_usage_update", {"usage": used})
            spoken = {"content": "\n\n".join(self._texts.messages), "toolCalls": list(self._calls)}
            end = {"stopReason": "stop" if data["ok"] else "error", "usage": used}
            yield Emitted("complete", {"response": {**spoken, **end}})

    def _resolver(self, request: str) -> Callable[[Decision | Kind | bool], None] | None:
        approvals, loop = self._approvals, self._loop
        if approvals is None or loop is None:
            return None

        def resolve(decision: Decision | Kind | bool) -> None:
            chosen = Decision(decision) if isinstance(decision, str) else decision
            loop.call_soon_threadsafe(approvals.answer, request, chosen)

        return resolve


def view(events: Iterable[Event]) -> list[Emitted]:
    """The events of a run in Lace's words."""
    return said(Lace(), events)


def response(events: Iterable[Event], *, throws: bool = False) -> dict[str, Any] | None:
    """The response of a run's last turn: content, toolCalls, usage, stopReason; None while it is not over.

    Raises:
        RunError: with `throws`, the turn failed; the text names the code.
    """
    lace, answer, code = Lace(), None, "ok"
    for event in events:
        for emitted in lace.feed(event):
            if emitted.name == "complete":
                answer, code = emitted.payload["response"], event.data["code"]
    if throws and code != "ok":
        raise RunError(f"SDK execution failed: {code}")
    return answer


def usage(tokens: Tokens) -> dict[str, int]:
    """Tokens as Lace counts them; the prompt is all the model read, from a cache or not."""
    return {
        "promptTokens": tokens.total - tokens.output,
        "completionTokens": tokens.output,
        "totalTokens": tokens.total,
    }
