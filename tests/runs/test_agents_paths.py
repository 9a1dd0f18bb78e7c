"""What is shown of a run names files as its agent does: the folder that the copy lies in is nobody's business."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from toolkit import Toolbox, ToolContext, WorkspacePath, tool
from toolkit.runs import Decision, Question, load_run, run, start
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

Start = Callable[..., ScriptedAPI]
pytestmark = needs_jail


@tool
def where(path: WorkspacePath, ctx: ToolContext) -> str:
    """Tell where a file is, as the host knows it."""
    ctx.progress(1, 2, f"looking at {path}")
    return f"{path} and {path}.bak, in {path.parent}"


@tool
def first_line(path: WorkspacePath) -> str:
    """Read a file that may not be there."""
    return path.open().readline()


@tool(structured=True)
def listing(path: WorkspacePath) -> dict[str, list[str]]:
    """List a folder."""
    return {"files": sorted(str(one) for one in path.iterdir())}


def box() -> Toolbox:
    return Toolbox("look", [where, first_line, listing])


WORK = [
    [tool_use("Bash", command="pwd; ls -d $PWD/*; echo new > new.txt; ln -s $PWD/app.txt link; cat nothing")],
    [tool_use("Write", file_path="{top}/made.txt", content="made\n"), tool_use("Read", file_path="{top}/nothing")],
    [tool_use("Glob", pattern="*.txt"), tool_use("Grep", pattern="as it", output_mode="files_with_matches")],
    [tool_use("mcp__look__where", path="app.txt"), tool_use("mcp__look__first_line", path="nothing")],
    [tool_use("mcp__look__listing", path="{top}"), tool_use("mcp__look__where", path="/etc/passwd")],
    [text("done")],
]


def turns(top: Path | str) -> list[Any]:
    """The work, for an agent that finds the project at `top`."""
    named = []
    for blocks in WORK:
        named.append([json.loads(json.dumps(block).replace("{top}", str(top))) for block in blocks])
    return named


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "app.txt").write_text("as it was\n")
    return shop


@pytest.mark.parametrize("at", [None, "/work"])
async def test_nothing_that_is_shown_of_a_run_names_the_folder_of_the_copy(
    shop: Path, scripted_api: Start, at: str | None, toolkit_home: Path
) -> None:
    top = at or str(shop)
    api = scripted_api(*turns(top))
    asked: list[Question] = []

    async def approve(question: Question) -> Decision:
        asked.append(question)
        return Decision("ALLOW_ONCE")

    section = WorkspaceSection([HostMount(shop)], [shop.parent], at=at)
    options: dict[str, Any] = {"workspace": section, "tools": [box()], "mode": "normal", "approve": approve}
    async with asyncio.timeout(90), start("work", api_url=api.url, api_key="fake", **options) as live:
        events = [event async for event in live]
        result = await live.result()
    assert result.code == "ok", result.debug
    assert result.changes is not None
    stored = load_run(result.run)
    copy = stored.facts["workspace"]

    told = "\n".join(event.to_json() for event in events)
    results = [event.data["text"] for event in events if event.name == "tool.ended"]
    assert any(f"{top}/app.txt and {top}/app.txt.bak, in {top}" in one for one in results)
    assert any(f"No such file or directory: '{top}/nothing'" in one for one in results)
    assert any(f'"{top}/app.txt"' in one for one in results)
    everything = {
        "events": told,
        "result": json.dumps(result.to_data()),
        "changes": json.dumps(result.changes.to_json()),
        "table": result.changes.summary(),
        "questions": json.dumps([[one.input, one.reason, one.title, one.blocked_path] for one in asked], default=str),
        "requests": json.dumps(api.requests),
        "stored": (stored.folder / "result.json").read_text(),
        "patch": stored.diff().decode(),
    }
    assert asked
    assert {name for name, shown in everything.items() if Path(copy).name in shown} == set()
    assert [change.agent_path for change in result.changes] == [
        f"{top}/{name}" for name in ("link", "made.txt", "new.txt")
    ]
    assert f"A  {top}/made.txt" in result.changes.summary()
    marked = {change.path: change.suspicious for change in result.changes if change.suspicious}
    if at is None:
        assert marked == {}
        stored.apply(paths=[f"{top}/link", f"{top}/new.txt"])
        assert (shop / "link").readlink() == shop / "app.txt"
    else:
        assert set(marked) == {"shop/link"}
        stored.apply(paths=[f"{top}/new.txt"])
    assert (shop / "new.txt").read_text() == "new\n"


async def test_an_empty_workspace_has_its_own_name_too(scripted_api: Start, tmp_path: Path) -> None:
    api = scripted_api([tool_use("mcp__look__where", path="x.txt")], [text("done")])
    result = await asyncio.wait_for(run("work", tools=[box()], api_url=api.url, api_key="fake"), 60)
    assert "/work/x.txt and" in json.dumps(api.requests[-1])
    assert load_run(result.run).facts["workspace"] not in json.dumps(api.requests)


def _report(desk: Desk) -> str:
    assert desk.toolkit("report", "last").code == 0
    return (desk.last().folder / "report.html").read_text(encoding="utf-8")


def test_the_commands_show_the_agents_paths(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo new > new.py; pwd")], [text("done")]))
    done = desk.toolkit("run", "work", "--mount", "src", "--stream-json")
    assert done.code == 0, done.err
    name = Path(desk.last().facts["workspace"]).name
    shown = {
        "run": done.out + done.err,
        "events": desk.toolkit("runs", "events", "last", "--json").out,
        "lines": desk.toolkit("runs", "events", "last").out,
        "diff": desk.toolkit("runs", "diff", "last").out,
        "table": desk.toolkit("runs", "diff", "last", "--stat").out,
        "json": desk.toolkit("runs", "diff", "last", "--json").out,
        "report": _report(desk),
    }
    # Where the copy is, is told once, to whoever wants to look into it.
    told = [line for line in desk.toolkit("runs", "show", "last").out.splitlines() if name in line]
    assert [line.split()[0] for line in told] == ["workspace"]
    assert {where for where, text in shown.items() if name in text} == set()
    assert "A  <here>/src/new.py" in shown["table"]
    assert f"{desk.src}/new.py" in shown["report"]
    tried = desk.toolkit("runs", "apply", "last", "--dry-run", "--json").out
    assert json.loads(tried)["applied"] == [
        {"path": "src/new.py", "agent_path": "<here>/src/new.py", "action": "created"}
    ]
    missed = desk.toolkit("runs", "apply", "last", "nothing.py").err
    assert "the changes are at: <here>/src/new.py\n" in missed
    (desk.src / "new.py").write_text("the host's\n")
    refused = desk.toolkit("runs", "apply", "last").err
    assert "\n  <here>/src/new.py: " in refused
    (desk.src / "new.py").unlink()
    applied = desk.toolkit("runs", "apply", "last", f"{desk.src}/new.py")
    assert (applied.code, applied.out) == (0, "created   <here>/src/new.py\n")
    assert (desk.src / "new.py").read_text() == "new\n"


def test_a_renamed_file_is_shown_by_both_of_its_names_as_the_agent_has_them(
    tmp_path: Path, scripted_api: Start
) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="mv app.py main.py")], [text("done")]))
    assert desk.toolkit("run", "work", "--mount", "src").code == 0
    assert "R  <here>/src/app.py → <here>/src/main.py" in desk.toolkit("runs", "diff", "last", "--stat").out
    assert f'"agent_old_path":"{desk.src}/app.py"' in _report(desk).replace('": "', '":"')
    applied = desk.toolkit("runs", "apply", "last", "src/app.py")
    assert applied.out == "deleted   <here>/src/app.py\ncreated   <here>/src/main.py\n"


def test_no_way_to_take_changes_is_shown_where_all_of_them_are_ignored(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo x > made.log")], [text("done")]))
    (desk.src / ".gitignore").write_text("*.log\n")
    done = desk.toolkit("run", "work", "--mount", "src")
    shown = desk.toolkit("runs", "show", "last").out
    for said in (done.err, shown):
        assert "caches, or ignored by the project: 1 file in <here>/src/made.log" in said
        assert "toolkit runs apply" not in said
