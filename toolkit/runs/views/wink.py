"""The vocabulary of the WINK adapter: PromptRendered, ToolInvoked for every call, PromptExecuted.

Every tool call gives one ToolInvoked, also one that failed, was refused or was
cut off. Every end but `ok` has an error: ThrottleError for a throttled API,
PromptEvaluationError for all others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from toolkit.runs.outcome.codes import Code
from toolkit.runs.outcome.events import Event, Tokens
from toolkit.runs.outcome.result import RunFailedError, RunResult
from toolkit.runs.views._view import View, said
from toolkit.tools import Budget, Deadline, ToolContext

OutputT = TypeVar("OutputT")

ADAPTER = "claude_agent_sdk"
_TOKENS = ("input", "output", "cache_read", "cache_write")


class PromptEvaluationError(RunFailedError):
    """A prompt that was not evaluated to its end; `code` and `result` say why."""


class ThrottleError(PromptEvaluationError):
    """The model API refused because of load: trying again later may help."""


@dataclass(frozen=True, slots=True)
class PromptRendered:
    """The prompt as it was sent."""

    prompt_name: str
    adapter: str
    text: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolInvoked:
    """One tool call, native or custom, once it is over."""

    prompt_name: str
    adapter: str
    name: str
    params: dict[str, Any]
    result: dict[str, Any]
    """`stdout`, `stderr` (the text of a call that failed), `interrupted` and `isImage`."""
    call_id: str
    ok: bool = True
    denied: bool = False
    duration: float = 0.0
    """Seconds."""


@dataclass(frozen=True, slots=True)
class PromptExecuted:
    """The end of the evaluation."""

    prompt_name: str
    adapter: str
    output: Any
    """The structured output where the result is given and has one, else the text."""
    usage: Tokens
    duration: float
    """Seconds."""
    error: type[PromptEvaluationError] | None = None


@dataclass(frozen=True, slots=True)
class PromptResponse(Generic[OutputT]):
    """What evaluating a prompt gave."""

    prompt_name: str
    text: str
    output: OutputT | None


@dataclass(frozen=True, slots=True)
class HookContext:
    """What hooks and tools can know of the evaluation they are part of."""

    session: str | None
    adapter_name: str
    prompt_name: str
    deadline: Deadline | None = None
    budget_tracker: Budget | None = None
    stop_reason: str | None = None

    @classmethod
    def in_tool(cls, context: ToolContext, prompt_name: str) -> HookContext:
        """The context inside a tool that asked for its ToolContext."""
        return cls(context.session, ADAPTER, prompt_name, context.deadline, context.budget)


WinkEvent = PromptRendered | ToolInvoked | PromptExecuted


class Wink(View[WinkEvent]):
    """Feed it events; with the result its last event has the structured output."""

    def __init__(self, prompt_name: str = "run", *, result: RunResult[Any] | None = None) -> None:
        self._name = prompt_name
        self._result = result
        self._params: dict[str, dict[str, Any]] = {}
        self.context = HookContext(None, ADAPTER, prompt_name)
        """All that is known so far: the deadline of the turn, the tokens used until now, at the end the stop reason."""

    def _say(self, event: Event) -> Iterator[WinkEvent]:
        data = event.data
        if event.name == "lifecycle.started":
            limits = data.get("limits") or {}
            seconds, tokens = limits.get("seconds"), limits.get("tokens")
            # The events tell the time of day; what is left of the deadline is what is left of it now.
            deadline = None if seconds is None else Deadline.after(event.t + seconds - time.time())
            used = 0 if self.context.budget_tracker is None else self.context.budget_tracker.used
            self.context = HookContext(data["session"], ADAPTER, self._name, deadline, Budget(tokens, used))
            yield PromptRendered(self._name, ADAPTER, data["prompt"], tuple(data["tools"]))
        elif event.name == "lifecycle.continued":
            yield PromptRendered(self._name, ADAPTER, data["prompt"], tuple(data["tools"]))
        elif event.name == "tool.started":
            self._params[event.id] = data["arguments"]
        elif event.name == "tool.ended":
            yield self._invoked(event)
        elif event.name == "usage.call" and self.context.budget_tracker is not None:
            self.context.budget_tracker.used += sum(data[name] for name in _TOKENS)
        elif event.name == "lifecycle.finished":
            self.context = replace(self.context, stop_reason=data["stop"])
            output = None if self._result is None else self._result.output
            said = data["text"] if output is None else output
            total = Tokens(**data["total"])
            yield PromptExecuted(self._name, ADAPTER, said, total, data["ms"] / 1000, error_of(data["code"]))

    def _invoked(self, event: Event) -> ToolInvoked:
        data = event.data
        text, ok = data["text"], data["ok"]
        result = {
            "stdout": text if ok else "",
            "stderr": "" if ok else text,
            "interrupted": data["interrupted"],
            "isImage": text == "[image]",
        }
        params = self._params.pop(event.id, {})
        seconds = data["ms"] / 1000
        return ToolInvoked(self._name, ADAPTER, data["name"], params, result, event.id, ok, data["denied"], seconds)


def view(events: Iterable[Event], prompt_name: str = "run", *, result: RunResult[Any] | None = None) -> list[WinkEvent]:
    """The events of a run in WINK's words."""
    return said(Wink(prompt_name, result=result), events)


def error_of(code: Code) -> type[PromptEvaluationError] | None:
    """The error type for a code; None for `ok` alone."""
    if code == "ok":
        return None
    return ThrottleError if code == "throttled" else PromptEvaluationError


def response(result: RunResult[OutputT], prompt_name: str = "run") -> PromptResponse[OutputT]:
    """The response of a run that is ok.

    Raises:
        ThrottleError: the model API was throttled.
        PromptEvaluationError: any other end that is not ok.
    """
    error = error_of(result.code)
    if error is not None:
        raise error(result)
    return PromptResponse(prompt_name, result.text, result.output)
