"""Ready-made toolboxes in a run: they work on the run's own workspace and session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ready._client import names_in
from toolkit.runs import InPlace, run
from toolkit.testing import FakeCLI, text, tool_use


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
