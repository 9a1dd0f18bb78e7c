"""Conversations that go on with a call which was left to the caller, through the real CLI in the real jail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolkit import Toolbox, tool
from toolkit.runs import Decision, RunResult, load_run, run, start
from toolkit.runs.sessions.transcripts import lay_out
from toolkit.testing import ScriptedAPI, text, tool_use

NOTED: list[str] = []
KEY = "sk-the-real-one"


@tool
def note(word: str) -> str:
    """Note a word."""
    NOTED.append(word)
    return f"noted {word}"


BOX = Toolbox("notes", [note])
PLUM, PEAR = ([tool_use("mcp__notes__note", word=word)] for word in ("plum", "pear"))


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    NOTED.clear()


async def go(api: ScriptedAPI, prompt: str = "Go.", **more: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run(prompt, tools=[BOX], api_url=api.url, api_key=KEY, **more), 60)


def last_prompt(api: ScriptedAPI) -> str:
    return api.requests[-1].prompt


async def test_a_call_that_was_given_up_is_not_taken_up_later() -> None:
    with ScriptedAPI(PLUM, otherwise=[text("Fine.")]) as api:
        first = await go(api, policy={"note": "defer"})
        given_up = await go(api, "I did it.", policy={"note": "defer"}, resume=first.session)
        third = await go(api, "Go on.", resume=first.session)
        told = [str(request["messages"]) for request in api.requests[-2:]]
    assert ([given_up.code, third.code], third.tools, NOTED) == (["ok", "ok"], (), [])
    assert ["Tool result missing" in each and "plum" in each for each in told] == [True, True]


async def test_a_call_that_another_prompt_of_the_run_gave_up_is_not_taken_up_later() -> None:
    with ScriptedAPI(PLUM, otherwise=[text("Fine.")]) as api:
        async with start("Go.", tools=[BOX], policy={"note": "defer"}, api_url=api.url, api_key=KEY) as live:
            first = await live.result()
            await live.send("Leave it.")
        await go(api, "Go on.", resume=first.session)
    assert (first.code, NOTED) == ("pending", [])


async def test_the_model_may_call_more_tools_before_it_gets_the_prompt() -> None:
    with ScriptedAPI(PLUM, PEAR, [tool_use("Bash", command="echo ok")], [text("Noted.")], [text("Fine.")]) as api:
        first = await go(api, policy={"note": "defer"})
        second = await go(api, "Go on.", resume=first.session)
        prompts = ["Go on." in str(request["messages"]) for request in api.requests]
    assert (second.code, second.text, NOTED) == ("ok", "Fine.", ["plum", "pear"])
    assert prompts == [False, False, False, False, True]


async def test_the_next_deferred_call_is_the_callers_as_well_and_the_prompt_comes_when_none_is_left() -> None:
    allowed: set[str] = set()

    async def hook(given: Any, call: str | None, context: Any) -> dict[str, Any]:
        decision = "allow" if given["tool_use_id"] in allowed else "defer"
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}}

    hooks = {"PreToolUse": [hook]}
    with ScriptedAPI(PLUM, PEAR, [text("Noted.")], [text("Fine.")]) as api:
        first = await go(api, hooks=hooks)
        allowed |= {call.id for call in first.pending}
        second = await go(api, "Go on.", hooks=hooks, resume=first.session)
        assert ([call.arguments for call in second.pending], NOTED) == ([{"word": "pear"}], ["plum"])
        told = [event.data["what"] for event in load_run(second.run).events() if event.name == "lifecycle.warning"]
        assert told == ["the prompt was not sent: the turn ended with what the conversation had left over"]
        allowed |= {call.id for call in second.pending}
        third = await go(api, "Go on now.", hooks=hooks, resume=first.session)
        assert (first.code, second.code, third.code, third.text) == ("pending", "pending", "ok", "Fine.")
        assert (NOTED, last_prompt(api)) == (["plum", "pear"], "Go on now.")


async def test_a_run_that_is_ended_at_a_call_that_was_left_over_does_not_send_its_prompt() -> None:
    with ScriptedAPI(PLUM, otherwise=[text("Fine.")]) as api:
        first = await go(api, policy={"note": "defer"})
        no = {"policy": {"note": "ask"}, "approve": lambda question: Decision.deny("Enough.", stop=True)}
        second = await go(api, "Go on.", resume=first.session, **no)
        assert not any("Go on." in str(request["messages"]) for request in api.requests)
        third = await go(api, "Go on.", resume=first.session)
        assert ("Enough." in str(api.requests[-1]["messages"]), last_prompt(api)) == (True, "Go on.")
    assert (second.code, third.code, NOTED) == ("stopped", "ok", [])


async def test_a_turn_interrupted_at_what_was_left_over_takes_the_next_prompt() -> None:
    with ScriptedAPI(PLUM, [tool_use("Bash", command="read -t 50 < <(tail -f /dev/null)")], [text("Fine.")]) as api:
        first = await go(api, policy={"note": "defer"})
        async with start("Go on.", tools=[BOX], resume=first.session, api_url=api.url, api_key=KEY) as live:
            async for event in live:
                if event.name == "tool.started" and event.data["name"] == "Bash":
                    await live.interrupt()
            second = await live.result()
            third = await asyncio.wait_for(live.send("Go on."), 60)
    assert (second.code, third.code, third.text) == ("aborted", "ok", "Fine.")


async def test_a_deferred_call_of_a_tool_that_is_not_there_any_more_is_told_and_is_no_error_of_the_api() -> None:
    with ScriptedAPI(PLUM) as api:
        first = await go(api, policy={"note": "defer"})
        second = await asyncio.wait_for(run("Go on.", resume=first.session, api_url=api.url, api_key=KEY), 60)
    assert second.code == "bad_request"
    assert second.cause == (
        "mcp__notes__note isn't available, so its deferred call didn't run. "
        "Reconnect the tool and resume; a policy can refuse the call."
    )


async def test_a_prompt_is_sent_even_if_the_cli_does_not_take_up_the_call_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def mistaken(*given: Any, **more: Any) -> bool:
        await lay_out(*given, **more)
        return True

    with ScriptedAPI([text("One.")], [text("Two.")]) as api:
        first = await go(api)
        monkeypatch.setattr("toolkit.runs.turn.options.lay_out", mistaken)
        monkeypatch.setattr("toolkit.runs.turn.engine.UNTIL_TAKEN_UP", 0.1)
        second = await go(api, "Go on.", resume=first.session)
    assert (second.code, second.text) == ("ok", "Two.")
