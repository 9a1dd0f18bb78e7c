"""The hook before every tool call: fails closed, asks its rules in order, and says exactly what it decided."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from toolkit.runs.asking.guard import ALLOW, Guard, Rule, Verdict, before_deadline, only_offered, within_budget
from toolkit.tools import Budget, Deadline


async def asked(guard: Guard, tool: str = "Bash", call: str | None = "toolu_1", **more: Any) -> dict[str, Any]:
    """What the hook answers the CLI."""
    (matcher,) = guard.hooks()["PreToolUse"]
    given: Any = {"tool_name": tool, "tool_input": {"command": "id"}, **more}
    context: Any = None
    answer: Any = await matcher.hooks[0](given, call, context)
    return dict(answer)


def armed(*rules: Rule) -> Guard:
    guard = Guard(list(rules), {})
    guard.armed = True
    return guard


def saying(verdict: Verdict, heard: list[Mapping[str, Any]] | None = None) -> Rule:
    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        if heard is not None:
            heard.append(arguments)
        return verdict

    return rule


def deny(reason: str) -> dict[str, Any]:
    decision = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": decision}


async def test_nothing_passes_before_the_run_is_known_to_be_confined() -> None:
    denied: dict[str, str] = {}
    guard = Guard([saying(ALLOW)], denied)
    reason = "The run is not confirmed to be confined"
    assert await asked(guard) == {**deny(reason), "continue_": False, "stopReason": reason}
    assert (guard.stopped, denied) == ("unconfined", {"toolu_1": reason})


async def test_nothing_passes_once_the_run_is_being_stopped() -> None:
    guard = armed(saying(ALLOW))
    assert await asked(guard) == {}
    guard.stop("budget")
    answer = await asked(guard)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert (answer["continue_"], answer["stopReason"]) == (False, "The run is being stopped")
    assert guard.stopped == "budget"


async def test_a_rule_that_fails_refuses() -> None:
    async def broken(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        raise OSError("no")

    guard = armed(broken)
    assert await asked(guard) == deny("Permission check failed: OSError")
    assert guard.stopped is None


async def test_the_first_rule_that_does_not_allow_decides_and_no_further_one_is_asked() -> None:
    later: list[Mapping[str, Any]] = []
    guard = armed(saying(ALLOW), saying(Verdict(False, "because")), saying(Verdict(False, "later"), later))
    assert await asked(guard) == deny("because")
    assert later == []


async def test_later_rules_see_the_arguments_that_an_earlier_one_changed() -> None:
    heard: list[Mapping[str, Any]] = []
    guard = armed(
        saying(ALLOW, heard),
        saying(Verdict(True, arguments={"command": "ls"}), heard),
        saying(ALLOW, heard),
        saying(Verdict(True, arguments={}), heard),
        saying(ALLOW, heard),
    )
    decision = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {}}
    assert await asked(guard) == {"hookSpecificOutput": decision}
    assert heard == [{"command": "id"}, {"command": "id"}, {"command": "ls"}, {"command": "ls"}, {}]
    assert await asked(armed(saying(ALLOW))) == {}


async def test_a_deferred_call_is_neither_allowed_nor_refused_and_is_kept_for_the_caller() -> None:
    guard = armed(saying(Verdict(False, defers=True)))
    answer = await asked(guard, "Write")
    assert answer == {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}
    assert guard.deferred == {"toolu_1": ("Write", {"command": "id"})}
    guard.begin_turn()
    assert guard.deferred == {}


@pytest.mark.parametrize("defers", [True, False])
async def test_a_call_that_the_session_left_over_is_told_of_once_it_is_decided(defers: bool) -> None:
    told: list[tuple[str, str]] = []
    guard = Guard([saying(Verdict(not defers, defers=defers))], {})
    guard.resumed_in = "default"
    guard.on_left_over = lambda call, tool, arguments: told.append((call, tool))
    await asked(guard, permission_mode="default")
    assert (guard.armed, guard.continues) == (True, True)
    assert told == ([] if defers else [("toolu_1", "Bash")])
    told.clear()
    await asked(guard, permission_mode="default")
    assert told == []  # an ordinary call


@pytest.mark.parametrize(("mode", "resumed_in"), [("bypassPermissions", "default"), (None, None), ("default", None)])
async def test_in_another_mode_or_another_session_a_call_before_the_greeting_is_refused(
    mode: str | None, resumed_in: str | None
) -> None:
    guard = Guard([saying(ALLOW)], {})
    guard.resumed_in = resumed_in
    assert (await asked(guard, permission_mode=mode))["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert (guard.armed, guard.continues, guard.stopped) == (False, False, "unconfined")


async def test_a_call_is_known_by_its_id_wherever_that_stands_and_by_its_agent() -> None:
    denied: dict[str, str] = {}
    guard = Guard([saying(Verdict(False, "no"))], denied)
    guard.armed = True
    await asked(guard, call=None, tool_use_id="toolu_2", agent_id="agent_7")
    assert denied == {"toolu_2": "no"}
    assert guard.agents == {"toolu_2": "agent_7"}


async def test_only_what_was_offered_passes() -> None:
    rule = only_offered(lambda: ["Read", "mcp__notes__*"])
    assert [(await rule(tool, {}, "")).allowed for tool in ("Read", "mcp__notes__add", "Bash", "mcp__other__x")] == [
        True,
        True,
        False,
        False,
    ]


async def test_a_deadline_that_has_passed_refuses_and_stops_and_one_ahead_or_none_does_not() -> None:
    class InAMoment(Deadline):
        def remaining(self) -> float:
            return 0.5

    for ahead in (None, Deadline.after(60), InAMoment(0.0)):
        assert await before_deadline(partial(_given, ahead))("Bash", {}, "") == ALLOW
    late = await before_deadline(lambda: Deadline.after(0))("Bash", {}, "")
    assert late == Verdict(False, "Deadline exceeded", stops="deadline")


def _given(deadline: Deadline | None) -> Deadline | None:
    return deadline


@pytest.mark.parametrize("left", [None, 1, 0])
async def test_a_used_up_budget_refuses_and_stops(left: int | None) -> None:
    budget = Budget(left)
    verdict = await within_budget(lambda: budget)("Bash", {}, "")
    assert verdict == (Verdict(False, "Token budget exhausted", stops="budget") if left == 0 else ALLOW)
