"""The caller's own hooks, behind the guard: they can refuse what it lets pass, and never let pass what it refuses.

A hook before a tool call is asked in this process, after the guard; what it changes is
judged again. One that raises, takes too long or answers something unknown has refused,
and so has one for a prompt. The hooks for other events are asked by the SDK. Whatever
fails in one is told.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from toolkit._base.words import safe_line
from toolkit.runs.asking.guard import Verdict
from toolkit.runs.asking.patterns import matches

if TYPE_CHECKING:
    from claude_agent_sdk import HookMatcher

_log = logging.getLogger("toolkit.runs")
HOOK_EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Notification",
)
"""The events that a hook can be for."""
TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
"""Those of them whose matcher is about tools."""
_BEFORE_TOOL, _BEFORE_PROMPT = "PreToolUse", "UserPromptSubmit"
_WIDTH, _LONGEST = 100, 300
_CLI_WAITS = 5.0
"""Seconds that the CLI waits longer for a hook than the hook may take."""
_SPECIAL = "hookSpecificOutput"
_ALLOWS = (None, "allow")
_APPROVES = (None, "approve")
_KEYS = ("continue", "continue_", "decision", "reason", "stopReason", "suppressOutput", "systemMessage", _SPECIAL)
_SPECIAL_KEYS = {
    _BEFORE_TOOL: ("permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"),
    _BEFORE_PROMPT: ("additionalContext", "sessionTitle", "suppressOriginalPrompt"),
}
_REFUSED = "A hook of this run refused it"
_UNREADABLE = "A hook of this run gave no answer that can be read"

Hook = Callable[[Any, Any, Any], Awaitable[Any]]


class OwnHooks:
    """The hooks of one run, by event."""

    def __init__(self, hooks: Mapping[str, Sequence[HookMatcher]]) -> None:
        self._before = tuple(hooks.get(_BEFORE_TOOL, ()))
        self.on_failure: Callable[[str], None] = lambda what: None
        """Told of a hook that failed, in words."""
        self.others: dict[str, list[HookMatcher]] = {
            event: [self._told(event, one) for one in matchers]
            for event, matchers in hooks.items()
            if event != _BEFORE_TOOL
        }
        """The hooks for all other events, for the SDK's options."""

    async def before_tool(self, given: Mapping[str, Any], call: str, context: Any) -> Verdict:
        """What they say of a call, one after the other: the first that does not allow it decides."""
        changed: Mapping[str, Any] | None = None
        for matcher in self._before:
            if not matches(matcher.matcher, str(given["tool_name"])):
                continue
            for hook in matcher.hooks:
                told: Any = {**given, "tool_input": dict(changed or given.get("tool_input") or {})}
                try:
                    verdict = _verdict(await self._ask(_BEFORE_TOOL, matcher, hook, told, call, context))
                except Exception as error:
                    verdict = Verdict(False, f"A hook of this run failed: {_name_of(error)}")
                if not verdict.allowed:
                    return verdict
                changed = verdict.arguments if verdict.arguments is not None else changed
        return Verdict(True, arguments=changed)

    async def _ask(self, event: str, matcher: HookMatcher, hook: Hook, *given: Any) -> Any:
        """What a hook answers.

        Raises:
            Exception: it failed, or took too long; that was told.
        """
        import asyncio  # here for who only wants the names of the events

        from toolkit.runs.listeners import on_its_own

        try:
            async with asyncio.timeout(matcher.timeout):
                return await on_its_own(hook(*given))
        except Exception as error:
            said = f": {error}" if str(error) and type(error).__name__ == _name_of(error) else ""
            self._failed(event, hook, f"failed: {_name_of(error)}{said}", error)
            raise

    def _failed(self, event: str, hook: Hook, how: str, error: Exception | None = None) -> None:
        name = getattr(hook, "__name__", type(hook).__name__)
        what = safe_line(f"the hook '{name}' for {event} {how}", _LONGEST)
        _log.warning("%s", what, exc_info=error)
        self.on_failure(what)

    def _told(self, event: str, matcher: HookMatcher) -> HookMatcher:
        """The same for the SDK, with a failure told; and before a prompt with one that refuses."""
        asked = self._before_prompt if event == _BEFORE_PROMPT else self._at
        hooks: list[Any] = [partial(asked, event, matcher, hook) for hook in matcher.hooks]
        # Its time is up here first: the CLI only says that it got no answer.
        timeout = None if matcher.timeout is None else matcher.timeout + _CLI_WAITS
        blocks = event == _BEFORE_PROMPT
        return replace(matcher, hooks=hooks, timeout=timeout, on_failure="block" if blocks else matcher.on_failure)

    async def _at(self, event: str, matcher: HookMatcher, hook: Hook, *given: Any) -> Any:
        """What a hook of any event answers; where its failure counts for nothing, nothing."""
        try:
            answer = await self._ask(event, matcher, hook, *given)
        except Exception:
            if matcher.on_failure not in (None, "continue"):
                raise
            return {}
        answer = {} if answer is None else answer
        if wrong := _unreadable(answer, event):
            self._failed(event, hook, f"gave an answer that the CLI cannot read: {wrong}")
        return answer

    async def _before_prompt(self, event: str, matcher: HookMatcher, hook: Hook, *given: Any) -> Any:
        """What a hook says of a prompt; one that fails, or says something unknown, has refused it."""
        try:
            answer = await self._ask(event, matcher, hook, *given)
        except Exception as error:
            return _block(f"A hook of this run failed: {_name_of(error)}")
        answer = {} if answer is None else answer
        if not isinstance(answer, Mapping):
            return _block(_UNREADABLE)
        if unknown := _unknown(answer, event) or _unreadable(answer, event):
            return _block(f"A hook of this run answered something unknown: {safe_line(unknown, _WIDTH)}")
        return answer


def _block(reason: str) -> dict[str, Any]:
    return {"decision": "block", "reason": reason}


def _stops(answer: Mapping[Any, Any]) -> bool:
    return False in (answer.get("continue_"), answer.get("continue"))


def _name_of(error: Exception) -> str:
    """What went wrong, in a word; where no exception of a name did, in words."""
    from toolkit.runs.listeners import EndedItself

    return str(error) if isinstance(error, EndedItself) else type(error).__name__


def _special(answer: Mapping[Any, Any]) -> Any:
    special = answer.get(_SPECIAL)
    return {} if special is None else special


def _unknown(answer: Mapping[Any, Any], event: str) -> str:
    """What of an answer means nothing: it may be a refusal that is misspelled."""
    special = _special(answer)
    if not isinstance(special, Mapping):
        return _SPECIAL
    known = ("hookEventName", *_SPECIAL_KEYS[event])
    wrong = [str(key) for key in answer if key not in _KEYS] + [str(key) for key in special if key not in known]
    wrong += [key for key in ("continue", "continue_") if answer.get(key) not in (None, True, False)]
    wrong += ["hookEventName"] if special.get("hookEventName") not in (None, event) else []
    changed = special.get("updatedInput")
    wrong += [] if changed is None or isinstance(changed, Mapping) else ["updatedInput"]
    return ", ".join(wrong)


def _unreadable(answer: Any, event: str) -> str:
    """What of an answer the CLI does not take: then it drops all of it."""
    if not isinstance(answer, Mapping):
        return type(answer).__name__
    wrong = [] if answer.get("decision") in (*_APPROVES, "block") else ["decision"]
    wrong += [key for key in ("continue", "continue_") if answer.get(key) not in (None, True, False)]
    wrong += [key for key in ("reason", "stopReason") if not isinstance(answer.get(key, ""), str)]
    if _SPECIAL in answer:
        special = answer[_SPECIAL]
        fits = isinstance(special, Mapping) and special.get("hookEventName") == event
        wrong += [] if fits else [f"{_SPECIAL} without hookEventName {event}"]
    return safe_line(", ".join(wrong), _WIDTH)


def _verdict(answer: Any) -> Verdict:
    if answer is None:
        return Verdict(True)
    if not isinstance(answer, Mapping):
        return Verdict(False, _UNREADABLE)
    if unknown := _unknown(answer, _BEFORE_TOOL):
        return Verdict(False, f"A hook of this run answered something unknown: {safe_line(unknown, _WIDTH)}")
    special = _special(answer)
    decision = special.get("permissionDecision")
    reason = str(special.get("permissionDecisionReason") or answer.get("reason") or _REFUSED)
    if _stops(answer):
        return Verdict(False, reason, stops="stopped")
    if decision == "defer":
        return Verdict(False, reason, defers=True)
    if decision not in _ALLOWS or answer.get("decision") not in _APPROVES:
        return Verdict(False, reason)
    return Verdict(True, arguments=special.get("updatedInput"))
