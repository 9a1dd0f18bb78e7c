"""The caller's own hooks, behind the guard: they can refuse what it lets pass, and never let pass what it refuses.

A hook before a tool call is asked in this process, after the guard; what it changes is
judged again. One that raises, takes too long or answers something unknown has refused.
The hooks for other events go to the SDK as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolkit._base.words import safe_line
from toolkit.runs.asking.guard import Verdict
from toolkit.runs.asking.patterns import PLAIN_MATCHER

if TYPE_CHECKING:
    from claude_agent_sdk import HookMatcher

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
_BEFORE_TOOL = "PreToolUse"
_FAILS_CLOSED = ("UserPromptSubmit",)
_WIDTH = 100
_SPECIAL = "hookSpecificOutput"
_ALLOWS = (None, "allow")
_KEYS = ("continue", "continue_", "decision", "reason", "stopReason", "suppressOutput", "systemMessage", _SPECIAL)
_SPECIAL_KEYS = ("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext")


class OwnHooks:
    """The hooks of one run, by event."""

    def __init__(self, hooks: Mapping[str, Sequence[HookMatcher]]) -> None:
        self._before = tuple(hooks.get(_BEFORE_TOOL, ()))
        self.others: dict[str, list[HookMatcher]] = {
            event: [_closed(one) if event in _FAILS_CLOSED else one for one in matchers]
            for event, matchers in hooks.items()
            if event != _BEFORE_TOOL
        }
        """The hooks for all other events, for the SDK's options."""

    async def before_tool(self, given: Mapping[str, Any], call: str, context: Any) -> Verdict:
        """What they say of a call, one after the other: the first that does not allow it decides."""
        import asyncio  # not for who only wants the names of the events

        changed: Mapping[str, Any] | None = None
        for matcher in self._before:
            if not _is_for(matcher.matcher, str(given["tool_name"])):
                continue
            for hook in matcher.hooks:
                told: Any = {**given, "tool_input": dict(changed or given.get("tool_input") or {})}
                try:
                    verdict = _verdict(await asyncio.wait_for(hook(told, call, context), matcher.timeout))
                except Exception as error:
                    verdict = Verdict(False, f"A hook of this run failed: {type(error).__name__}")
                if not verdict.allowed:
                    return verdict
                changed = verdict.arguments if verdict.arguments is not None else changed
        return Verdict(True, arguments=changed)


def _closed(matcher: HookMatcher) -> HookMatcher:
    return replace(matcher, on_failure="block")


def _is_for(matcher: str | None, tool: str) -> bool:
    """Whether a matcher names this tool: a name, names with bars between, or a pattern, as the CLI reads them."""
    if not matcher or matcher == "*":
        return True
    if re.fullmatch(PLAIN_MATCHER, matcher):
        return tool in matcher.split("|")
    return re.search(matcher, tool) is not None


def _unknown(answer: Mapping[Any, Any], special: Any) -> str:
    """What of an answer means nothing: it may be a refusal that is misspelled."""
    if not isinstance(special, Mapping):
        return _SPECIAL
    wrong = [str(key) for key in answer if key not in _KEYS] + [str(key) for key in special if key not in _SPECIAL_KEYS]
    wrong += [key for key in ("continue", "continue_") if answer.get(key) not in (None, True, False)]
    wrong += ["hookEventName"] if special.get("hookEventName") not in (None, _BEFORE_TOOL) else []
    changed = special.get("updatedInput")
    wrong += [] if changed is None or isinstance(changed, Mapping) else ["updatedInput"]
    return ", ".join(wrong)


def _verdict(answer: Any) -> Verdict:
    if answer is None:
        return Verdict(True)
    if not isinstance(answer, Mapping):
        return Verdict(False, "A hook of this run gave no answer that can be read")
    special = answer.get(_SPECIAL)
    special = {} if special is None else special
    if unknown := _unknown(answer, special):
        return Verdict(False, f"A hook of this run answered something unknown: {safe_line(unknown, _WIDTH)}")
    decision = special.get("permissionDecision")
    stops = False in (answer.get("continue_"), answer.get("continue"))
    reason = str(special.get("permissionDecisionReason") or answer.get("reason") or "A hook of this run refused it")
    if stops:
        return Verdict(False, reason, stops="stopped")
    if decision == "defer":
        return Verdict(False, reason, defers=True)
    if decision not in _ALLOWS or answer.get("decision") not in (None, "approve"):
        return Verdict(False, reason)
    return Verdict(True, arguments=special.get("updatedInput"))
