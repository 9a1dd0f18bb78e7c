"""Runs in WINK's words: one PromptRendered, one ToolInvoked for every call, one PromptExecuted."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from tests.runs.play import ADD, COUNT, SOON, call, delegating, play, story
from toolkit import Toolbox, ToolContext, tool
from toolkit.runs import Code, Limits, RunResult, Tokens
from toolkit.runs.views import wink
from toolkit.runs.views.wink import PromptExecuted, PromptRendered, ToolInvoked
from toolkit.testing import FakeCLI, Status, Turn, text, tool_use
from toolkit.tools import Budget

NAMES = ("notes", "claude_agent_sdk")


def output(text: str, *, ok: bool = True) -> dict[str, Any]:
    return {"stdout": text if ok else "", "stderr": "" if ok else text, "interrupted": False, "isImage": False}


async def test_a_run_is_rendered_invoked_and_executed_in_that_order() -> None:
    events, _ = await story()
    refusal = "PreToolUse:Bash hook error: Bash is not offered in this run"
    assert wink.view(events, "notes") == [
        PromptRendered(*NAMES, "Go.", ("Bash", ADD, COUNT)),
        ToolInvoked(*NAMES, ADD, {"title": "a"}, output("added 'a'"), "toolu_1", duration=0.005),
        ToolInvoked(
            *NAMES, ADD, {"title": ""}, output("a note needs a title", ok=False), "toolu_2", ok=False, duration=0.005
        ),
        ToolInvoked(*NAMES, COUNT, {}, output("2"), "toolu_3", duration=0.005),
        ToolInvoked(
            *NAMES,
            "Bash",
            {"command": "id"},
            output(refusal, ok=False),
            "toolu_4",
            ok=False,
            denied=True,
            duration=0.005,
        ),
        PromptExecuted(*NAMES, "All done.", Tokens(117, 28, 50, 9), 0.005),
    ]


async def test_a_subagents_calls_are_invoked_too() -> None:
    events, _ = await play(cli=delegating(), native=["Agent"])
    invoked = [event.call_id for event in wink.view(events) if isinstance(event, ToolInvoked)]
    assert invoked == ["toolu_inner", "toolu_agent"]


async def test_a_call_that_was_cut_off_is_invoked_and_not_ok() -> None:
    @tool
    async def hang() -> str:
        await asyncio.sleep(60)
        return "never"

    cli = FakeCLI([call("toolu_1", "mcp__slow__hang")], strict=False)
    events, _ = await play(cli=cli, tools=[Toolbox("slow", [hang])], limits=Limits(seconds=SOON))
    *_, invoked, executed = wink.view(events)
    assert isinstance(invoked, ToolInvoked)
    assert (invoked.call_id, invoked.ok) == ("toolu_1", False)
    assert isinstance(executed, PromptExecuted)
    assert executed.error is wink.PromptEvaluationError


@dataclass
class Verdict:
    good: bool


async def test_the_structured_output_is_in_the_last_event_and_in_the_response() -> None:
    cli = FakeCLI([tool_use("StructuredOutput", good=True)])
    events, result = await play(cli=cli, output=Verdict)
    executed = wink.view(events, result=result)[-1]
    assert isinstance(executed, PromptExecuted)
    assert executed.output == Verdict(good=True)
    assert wink.response(result, "judge") == wink.PromptResponse("judge", result.text, Verdict(good=True))


@pytest.mark.parametrize("code", [code for code in get_args(Code) if code != "ok"])
def test_every_end_that_is_not_ok_is_an_error(code: Code) -> None:
    result: RunResult[Any] = RunResult(run="run-1", code=code)
    with pytest.raises(wink.PromptEvaluationError) as caught:
        wink.response(result)
    assert caught.value.result is result
    assert type(caught.value) is (wink.ThrottleError if code == "throttled" else wink.PromptEvaluationError)
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


async def test_an_api_error_is_executed_with_its_error_type() -> None:
    throttled, _ = await play(Status(429))
    refused, _ = await play(Status(500), run_id="run-2")
    ends = [wink.view(events)[-1] for events in (throttled, refused)]
    assert [getattr(end, "error", None) for end in ends] == [wink.ThrottleError, wink.PromptEvaluationError]


async def test_the_context_has_its_six_fields_in_a_tool_and_beside_the_events() -> None:
    seen: list[wink.HookContext] = []

    @tool
    def look(context: ToolContext) -> str:
        seen.append(wink.HookContext.in_tool(context, "notes"))
        return "ok"

    cli = FakeCLI([tool_use("mcp__n__look")], Turn([text("done")]))
    events, result = await play(cli=cli, tools=[Toolbox("n", [look])], limits=Limits(seconds=60, tokens=1000))
    view = wink.Wink("notes")
    beside: list[wink.HookContext] = []
    for event in events:
        view.feed(event)
        beside.append(view.context)

    [inside] = seen
    assert (inside.session, inside.adapter_name, inside.prompt_name) == (result.session, "claude_agent_sdk", "notes")
    assert inside.deadline is not None
    assert inside.budget_tracker is not None
    end = beside[-1]
    assert (end.session, end.adapter_name, end.prompt_name) == (result.session, "claude_agent_sdk", "notes")
    assert end.deadline is not None
    assert end.budget_tracker == Budget(1000, result.total.total)
    assert (beside[0].stop_reason, end.stop_reason) == (None, "end_turn")
