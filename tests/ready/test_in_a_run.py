"""Ready-made toolboxes in a run: they work on the run's own workspace and session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ready._client import names_in
from toolkit.runs import InPlace, load_run, run
from toolkit.testing import FakeCLI, text, tool_use
from toolkit_servers.ready.files import files
from toolkit_servers.ready.notes import notes


async def test_files_by_name_write_into_the_workspace_and_plans_belong_to_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("work", "current"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "home"))
    cli = FakeCLI(
        [
            tool_use("mcp__files__write_file", path="out.txt", content="done"),
            tool_use("mcp__files__write_file", path=str(tmp_path / "current" / "out.txt"), content="done"),
            tool_use("mcp__planning__make_plan", goal="Finish", steps=["Write it"]),
        ],
        [tool_use("mcp__planning__update_step", step=1, status="done")],
        [text("bye")],
    )
    result = await run("go", workspace=InPlace(tmp_path / "work"), tools=["files", "planning"], transport=cli)
    assert result.ok, result.debug
    assert [use.ok for use in result.tools] == [True, False, True, True]
    assert (tmp_path / "work" / "out.txt").read_text() == "done"
    assert names_in(tmp_path / "current") == []


_OWN: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "sub/p.txt", "content": "EVIL"}),
    ("write_file", {"path": "sub/deep/new.txt", "content": "EVIL"}),
    ("write_file", {"path": "link/p.txt", "content": "EVIL"}),
    ("edit_file", {"path": "sub/p.txt", "edits": [{"old": "keep", "new": "EVIL"}]}),
    ("make_directory", {"path": "sub/new"}),
    ("move", {"source": "sub/p.txt", "destination": "p.txt"}),
    ("move", {"source": "free.txt", "destination": "sub/free.txt"}),
    ("move", {"source": "above", "destination": "below"}),
    ("remove", {"path": "sub/p.txt"}),
    ("remove", {"path": "above", "recursive": True}),
]
_REFERENCE: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "sub/p.txt", "content": "EVIL"}),
    ("edit_file", {"path": "sub/p.txt", "edits": [{"oldText": "keep", "newText": "EVIL"}]}),
    ("create_directory", {"path": "sub/new"}),
    ("move_file", {"source": "sub/p.txt", "destination": "p.txt"}),
    ("move_file", {"source": "free.txt", "destination": "sub/free.txt"}),
    ("move_file", {"source": "above", "destination": "below"}),
]


@pytest.mark.parametrize("is_named", [False, True], ids=["workspace", "root"])
@pytest.mark.parametrize(("compat", "calls"), [(None, _OWN), ("reference", _REFERENCE)])
async def test_no_tool_of_files_changes_what_a_run_protects(
    compat: Any,
    calls: list[tuple[str, dict[str, Any]]],
    is_named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    for path in ("sub/p.txt", "above/one/q.txt", "free.txt"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("keep", encoding="utf-8")
    (work / "link").symlink_to("sub")
    before = sorted(str(path) for path in work.rglob("*"))
    uses = [tool_use(f"mcp__files__{name}", **arguments) for name, arguments in calls]
    uses += [tool_use("mcp__files__read_file", path="sub/p.txt")]
    cli = FakeCLI(*([use] for use in uses), [text("bye")])
    box = files(work if is_named else None, compat=compat)

    done = await run("go", workspace=InPlace(work), tools=[box], transport=cli, protect=["sub", "above/one/q.txt"])

    stored = load_run(done.run)
    told = [event.data["text"] for event in stored.events() if event.name == "tool.ended"]
    assert [use.ok for use in done.tools] == [False] * len(calls) + [True], told
    assert ["protected" in answer for answer in told[:-1]] == [True] * len(calls), told
    assert sorted(str(path) for path in work.rglob("*")) == before
    assert (work / "sub/p.txt").read_text(encoding="utf-8") == "keep"
    assert stored.warnings == []


async def test_what_is_beside_the_protected_paths_is_written_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    uses = [
        tool_use("mcp__files__write_file", path="subway/new.txt", content="x"),
        tool_use("mcp__files__make_directory", path="sub"),
        tool_use("mcp__files__move", source="subway/new.txt", destination="moved.txt"),
        tool_use("mcp__files__remove", path="subway"),
    ]
    cli = FakeCLI(*([use] for use in uses), [text("bye")])
    done = await run("go", workspace=InPlace(work), tools=["files"], transport=cli, protect=["sub"])
    assert [use.ok for use in done.tools] == [True] * 4
    assert names_in(work) == ["moved.txt", "sub"]


async def test_notes_in_a_file_that_a_run_protects_can_be_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    box = notes(work / "notes.db")
    await box.call("add_note", {"text": "kept"})
    uses = [
        tool_use("mcp__notes__add_note", text="EVIL"),
        tool_use("mcp__notes__update_note", note=1, text="EVIL"),
        tool_use("mcp__notes__remove_note", note=1),
        tool_use("mcp__notes__read_note", note=1),
    ]
    cli = FakeCLI(*([use] for use in uses), [text("bye")])
    done = await run("go", workspace=InPlace(work), tools=[box], transport=cli, protect=["notes.db"])
    told = [event.data["text"] for event in load_run(done.run).events() if event.name == "tool.ended"]
    assert ["is protected" in answer for answer in told] == [True, True, True, False], told
    assert "kept" in told[-1]
    assert load_run(done.run).warnings == []
