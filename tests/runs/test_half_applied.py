"""A run whose apply, or its undo, was killed half way stays, and nobody goes on from it, until that is settled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.runs.half_undone import NEW, OLD, applied_run, files_of, half_undone_run, project_in
from toolkit.errors import RunError, ToolkitError, WorkspaceError
from toolkit.runs import StoredRun, list_runs, load_run, remove_older_than, run
from toolkit.runs.storage import tidy_copies
from toolkit.testing import FakeCLI, text
from toolkit.workspace import WorkspaceSection


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path)


@pytest.fixture
def half_undone(project: Path) -> StoredRun:
    return asyncio.run(half_undone_run(project))


def assert_names_the_way_out(error: ToolkitError, stored: StoredRun) -> None:
    assert "was interrupted" in error.what
    assert f"toolkit runs apply {stored.id} --resume" in error.fix
    assert f"toolkit runs apply {stored.id} --undo" in error.fix


def test_it_is_not_removed_before_it_is_settled(half_undone: StoredRun, project: Path) -> None:
    with pytest.raises(RunError) as caught:
        half_undone.remove()
    assert_names_the_way_out(caught.value, half_undone)

    assert load_run(half_undone.id).undo_apply()
    assert files_of(project) == OLD
    assert [one.name for one in project.iterdir() if one.name.startswith(".")] == []
    half_undone.remove()
    assert list_runs() == []


def test_its_copy_is_not_dropped_before_it_is_settled(half_undone: StoredRun, project: Path) -> None:
    with pytest.raises(RunError) as caught:
        half_undone.drop_workspace()
    assert_names_the_way_out(caught.value, half_undone)

    assert half_undone.resume_apply()
    assert files_of(project) == NEW
    assert half_undone.drop_workspace()


def test_removing_old_runs_leaves_it_out_with_a_word(
    half_undone: StoredRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    other = asyncio.run(applied_run(project_in(tmp_path / "other")))
    assert remove_older_than(0) == [other.id]
    assert [one.id for one in list_runs()] == [half_undone.id]
    assert f"toolkit runs apply {half_undone.id} --resume" in caplog.text


@pytest.mark.parametrize("dry_run", [True, False])
def test_making_room_leaves_it_out_and_goes_on_with_the_others(
    half_undone: StoredRun, tmp_path: Path, dry_run: bool
) -> None:
    (tmp_path / "other").mkdir()
    other = asyncio.run(applied_run(project_in(tmp_path / "other")))
    done = {one.run: (one.gone, one.unfinished) for one in tidy_copies(most_seconds=0, dry_run=dry_run)}
    assert done == {half_undone.id: (False, True), other.id: (True, False)}
    assert Path(half_undone.facts["workspace"]).is_dir()
    assert Path(other.facts["workspace"]).is_dir() == dry_run


def test_what_applies_or_delivers_names_the_command_that_settles_it(half_undone: StoredRun) -> None:
    with pytest.raises(WorkspaceError) as caught:
        half_undone.apply()
    assert_names_the_way_out(caught.value, half_undone)
    with pytest.raises(WorkspaceError) as caught:
        half_undone.branch("agent/work")
    assert_names_the_way_out(caught.value, half_undone)
    with pytest.raises(WorkspaceError) as caught:
        half_undone.mails()
    assert_names_the_way_out(caught.value, half_undone)


def test_nobody_goes_on_in_its_conversation(half_undone: StoredRun, project: Path) -> None:
    def everything() -> dict[Path, bytes]:
        copy = Path(half_undone.facts["workspace"])
        return {path: path.read_bytes() for top in (copy, project) for path in top.rglob("*") if path.is_file()}

    before = everything()
    with pytest.raises(RunError) as caught:
        asyncio.run(run("More.", resume=half_undone.session, transport=FakeCLI([text("never")], strict=False)))
    assert_names_the_way_out(caught.value, half_undone)
    assert everything() == before


def test_nobody_goes_on_in_its_copy(half_undone: StoredRun) -> None:
    with WorkspaceSection.open(half_undone.facts["workspace"]) as section, pytest.raises(WorkspaceError) as caught:
        asyncio.run(run("More.", workspace=section, transport=FakeCLI([text("never")], strict=False)))
    assert "was interrupted" in caught.value.what
    assert f"toolkit workspace apply {section.temp_dir} --undo" in caught.value.fix


def test_of_a_damaged_run_the_copy_is_named(half_undone: StoredRun, project: Path) -> None:
    copy = Path(half_undone.facts["workspace"])
    (half_undone.folder / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError) as caught:
        half_undone.remove()
    assert f"toolkit workspace apply {copy} --undo" in caught.value.fix

    with WorkspaceSection.open(copy) as section:
        assert section.undo_apply()
    assert files_of(project) == OLD
    half_undone.remove()
