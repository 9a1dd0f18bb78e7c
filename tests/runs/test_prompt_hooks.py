"""Hooks that are asked before a prompt: one that keeps it back has stopped the run, with the real CLI and the fake one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher

from toolkit.runs import RunResult, run, start
from toolkit.testing import FakeCLI, ScriptedAPI, text

UNKNOWN = "A hook of this run answered something unknown"
KEEPS_BACK = [
    ({"decision": "block", "reason": "not today"}, "not today"),
    ({"decision": "block"}, "A hook of this run stopped it before the model was asked"),
    ({"continue_": False, "stopReason": "enough"}, "enough"),
    ({"continue_": False}, "A hook of this run stopped it before the model was asked"),
    ("yes", "A hook of this run gave no answer that can be read"),
    ({"decison": "block"}, f"{UNKNOWN}: decison"),
    ({"decision": "blok"}, f"{UNKNOWN}: decision"),
    ({"async_": True}, f"{UNKNOWN}: async_"),
    ({"hookSpecificOutput": {"permissionDecision": "deny"}}, f"{UNKNOWN}: permissionDecision"),
    (
        {"hookSpecificOutput": {"additionalContext": "x"}},
        f"{UNKNOWN}: hookSpecificOutput without hookEventName UserPromptSubmit",
    ),
]


def hook(answer: Any) -> Any:
    async def answers(given: Any, call: Any, context: Any) -> Any:
        return answer

    return {"UserPromptSubmit": [answers]}


async def played(is_real: bool, **options: Any) -> tuple[RunResult[Any], int]:
    """The result, and how often the model was asked."""
    if not is_real:
        cli = FakeCLI([text("done")], strict=False)
        return await run("Go.", transport=cli, **options), len(cli.requests)
    with ScriptedAPI([text("done")], strict=False) as api:
        return await run("Go.", api_url=api.url, api_key="none", **options), len(api.requests)


@pytest.mark.parametrize(("answer", "cause"), KEEPS_BACK)
async def test_a_hook_that_keeps_the_prompt_back_has_stopped_the_run(answer: Any, cause: str) -> None:
    result, asked = await played(False, hooks=hook(answer))
    assert (result.code, result.ok, result.cause, result.text, asked) == ("stopped", False, cause, "", 0)


@pytest.mark.parametrize(("answer", "cause"), KEEPS_BACK[:3:2])
async def test_in_the_jail_too_and_what_was_not_begun_is_not_verified(answer: Any, cause: str) -> None:
    result, asked = await played(True, hooks=hook(answer), verify="true")
    assert (result.code, result.cause, result.text, asked) == ("stopped", cause, "", 0)
    assert (result.verified, result.attempts) == (False, ())


@pytest.mark.parametrize("is_real", [False, True])
async def test_a_hook_without_an_answer_in_time_has_stopped_the_run(is_real: bool) -> None:
    async def slow(given: Any, call: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    result, asked = await played(is_real, hooks={"UserPromptSubmit": [HookMatcher(hooks=[slow], timeout=0.1)]})
    assert (result.code, result.cause, asked) == ("stopped", "A hook of this run failed: TimeoutError", 0)


@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"decision": "approve"},
        {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "It is Monday."}},
    ],
)
async def test_a_hook_that_has_nothing_against_a_prompt_lets_it_pass(answer: Any, is_real: bool) -> None:
    result, asked = await played(is_real, hooks=hook(answer))
    assert (result.code, result.text, asked) == ("ok", "done", 1)


async def test_a_turn_whose_prompt_was_kept_back_is_followed_by_others() -> None:
    async def once(given: Any, call: Any, context: Any) -> Any:
        return {"decision": "block", "reason": "not this"} if given["prompt"] == "First." else {}

    with ScriptedAPI([text("done")]) as api:
        options: dict[str, Any] = {"hooks": {"UserPromptSubmit": [once]}, "api_url": api.url, "api_key": "none"}
        async with start("First.", **options) as live:
            first = await live.result()
            second = await live.send("Second.")
    assert [(one.code, one.text) for one in (first, second)] == [("stopped", ""), ("ok", "done")]


@pytest.mark.parametrize("is_real", [False, True])
async def test_a_hook_at_the_end_that_stops_has_stopped_the_run(is_real: bool) -> None:
    async def enough(given: Any, call: Any, context: Any) -> Any:
        return {"continue_": False}

    result, _ = await played(is_real, hooks={"Stop": [enough]})
    assert (result.code, result.text) == ("stopped", "done")
