"""Tools that an interrupt or a deadline ended say so; those that failed by themselves do not."""

from __future__ import annotations

import asyncio

import pytest

from toolkit import Toolbox, ToolError, tool
from toolkit.runs import Event, Limits, load_run, run, start
from toolkit.runs.views import wink
from toolkit.testing import FakeCLI, ScriptedAPI, Status, text, tool_use

SLEEP = tool_use("Bash", command="echo begun; sleep 30")


@tool
async def hang() -> str:
    """Never end."""
    await asyncio.sleep(60)
    return "never"


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("no")


BOX = Toolbox("slow", [hang, fail])


def ended(events: list[Event]) -> list[tuple[str, bool, bool]]:
    return [(e.data["name"], e.data["ok"], e.data["interrupted"]) for e in events if e.name == "tool.ended"]


@pytest.mark.parametrize("by", ["interrupt", "deadline"])
async def test_the_real_cli_ends_a_tool_that_is_told_as_interrupted(by: str) -> None:
    limits = Limits(seconds=2) if by == "deadline" else Limits()
    with ScriptedAPI([SLEEP], otherwise=[text("never")]) as api:
        async with start("go", api_url=api.url, api_key="none", limits=limits, run_id="run-i") as live:
            async for event in live:
                if event.name == "tool.started" and by == "interrupt":
                    await live.interrupt()
            result = await live.result()
    events = list(load_run("run-i").events())
    assert result.code == ("aborted" if by == "interrupt" else "deadline")
    assert ended(events) == [("Bash", False, True)]
    [invoked] = [one for one in wink.view(events) if isinstance(one, wink.ToolInvoked)]
    assert invoked.result["interrupted"] is True


async def test_an_in_process_tool_that_a_deadline_ended_was_interrupted_and_one_that_failed_was_not() -> None:
    calls = [tool_use("mcp__slow__fail")], [tool_use("mcp__slow__hang")]
    cli = FakeCLI(*calls, [text("never")], strict=False)
    await run("go", tools=[BOX], limits=Limits(seconds=0.4), transport=cli, run_id="run-d")
    assert ended(list(load_run("run-d").events())) == [
        ("mcp__slow__fail", False, False),
        ("mcp__slow__hang", False, True),
    ]


async def test_after_an_api_error_the_model_did_not_stop_by_itself() -> None:
    result = await run("go", tools=[BOX], transport=FakeCLI([tool_use("mcp__slow__fail")], Status(500)))
    assert (result.code, result.stop) == ("api_error", None)


async def test_without_a_workspace_there_are_no_changes_and_that_is_known() -> None:
    result = await run("go", transport=FakeCLI([text("done")]), run_id="run-e")
    assert result.changes is not None
    assert list(result.changes) == []
    assert load_run("run-e").changed_files() == []
