"""Ends that cut something short, and what is known then: tools that were interrupted, stop reasons, changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolkit import Toolbox, ToolError, tool
from toolkit.runs import Event, Limits, RunSpec, load_run, run, start
from toolkit.runs.views import wink
from toolkit.testing import FakeCLI, ScriptedAPI, Status, text, tool_use
from toolkit.workspace import Changes, HostMount, WorkspaceSection

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


async def test_a_run_that_is_left_in_mid_turn_asks_the_model_nothing_more_and_can_go_on() -> None:
    calls = [[text(f"Said {number}."), tool_use("Bash", command="true")] for number in range(60)]
    with ScriptedAPI(*calls, [text("late")], strict=False) as api:
        async with asyncio.timeout(90), start("go", api_url=api.url, api_key="not-a-key") as live:
            async for event in live:
                if event.name == "tool.ended":
                    break
            asked = len(api.requests)
        result = await live.result()
    # One may be on its way. A CLI that is only asked to end would go on with its turn, and with what that costs.
    assert asked <= len(api.requests) <= asked + 2
    assert result.code == "aborted"

    with ScriptedAPI([text("Here.")]) as api:
        going_on = run("Go on.", resume=result.session, api_url=api.url, api_key="not-a-key")
        again = await asyncio.wait_for(going_on, 90)
        assert api.requests[-1].contains("Said 0.")
    assert (again.code, again.text) == ("ok", "Here.")


async def test_an_in_process_tool_that_a_deadline_ended_was_interrupted_and_one_that_failed_was_not() -> None:
    calls = [tool_use("mcp__slow__fail")], [tool_use("mcp__slow__hang")]
    cli = FakeCLI(*calls, [text("never")], strict=False)
    result = await run("go", tools=[BOX], limits=Limits(seconds=0.4), transport=cli, run_id="run-d")
    assert [use.interrupted for use in result.tools] == [False, True]
    assert ended(list(load_run("run-d").events())) == [
        ("mcp__slow__fail", False, False),
        ("mcp__slow__hang", False, True),
    ]


async def test_after_an_api_error_the_model_did_not_stop_by_itself() -> None:
    result = await run("go", tools=[BOX], transport=FakeCLI([tool_use("mcp__slow__fail")], Status(500)))
    assert (result.code, result.stop) == ("api_error", None)


async def test_run_looks_at_the_changes_once_and_start_also_after_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("old", encoding="utf-8")
    looks = 0
    look = WorkspaceSection.changes

    def counted(section: WorkspaceSection) -> Changes:
        nonlocal looks
        looks += 1
        return look(section)

    def edit(given: dict[str, Any]) -> str:
        (section.temp_dir / "a.txt").write_text("new", encoding="utf-8")
        return "done"

    monkeypatch.setattr(WorkspaceSection, "changes", counted)
    for way, times in (("run", 1), ("start", 2)):
        section = WorkspaceSection([HostMount(tmp_path / "a.txt")], allowed_host_roots=[tmp_path])
        cli = FakeCLI([tool_use("Bash", command="x")], [text("done")], tools={"Bash": edit})
        looks = 0
        if way == "run":
            result = await run("go", workspace=section, transport=cli, run_id="run-1")
        else:
            async with start("go", workspace=section, transport=cli, run_id="run-2") as live:
                result = await live.result()
        assert [change.path for change in result.changes or ()] == ["a.txt"]
        assert [one["path"] for one in load_run(result.run).changed_files() or ()] == ["a.txt"]
        assert looks == times
        section.cleanup()


async def test_without_a_workspace_there_are_no_changes_and_that_is_known() -> None:
    result = await run("go", transport=FakeCLI([text("done")]), run_id="run-e")
    assert result.changes is not None
    assert list(result.changes) == []
    assert load_run("run-e").changed_files() == []


async def test_a_turn_that_fails_before_its_prompt_is_sent_has_no_changes_either() -> None:
    def fails(spec: RunSpec) -> None:
        raise ValueError("no")

    spec = RunSpec("go", transport=FakeCLI([text("done")], strict=False), before_run=fails)
    async with start(spec) as live:
        result = await live.result()  # and not only when the run is over
    assert result.changes is not None
    assert list(result.changes) == []
