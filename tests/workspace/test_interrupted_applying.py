"""An apply that is killed at any point leaves all or nothing to be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.copies import make_tree, memory_folder, prepare, tree_of
from toolkit.errors import WorkspaceError
from toolkit.workspace import WorkspaceSection
from toolkit_workspace import clean_workspaces, find_workspaces

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("what", ["resume", "undo", "undo again", "apply again"])
def test_a_kill_at_any_point_ends_with_all_or_nothing(what: str) -> None:
    with memory_folder() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.workspace.killed_apply", folder, what],
            cwd=ROOT, capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] == []
    assert result["points"] > 40
    assert result["found"] == (["nothing"] if what.startswith("undo") else ["all", "nothing"])


@pytest.mark.parametrize(("option", "wanted"), [("--resume", b"agent\n"), ("--undo", b"host\n")])
def test_the_command_line_settles_what_a_killed_command_left(tmp_path: Path, option: str, wanted: bytes) -> None:
    names = [f"{number}.txt" for number in range(6)]
    host = make_tree(tmp_path / "host", dict.fromkeys(names, b"host\n"))
    ws = prepare(host)
    make_tree(ws.temp_dir / "src", dict.fromkeys(names, b"agent\n"))
    killed = (
        "import sys; from tests.workspace.killed_apply import die_before; from toolkit.cli import main\n"
        "die_before(int(sys.argv.pop(1))); main()"
    )
    for point in range(10, 40):
        subprocess.run(
            [sys.executable, "-c", killed, str(point), "workspace", "apply", str(ws.temp_dir)],
            cwd=ROOT, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        found = {data for _, data in tree_of(host).values()}
        if found == {b"agent\n", b"host\n"}:
            break
        ws.undo_apply()
    assert found == {b"agent\n", b"host\n"}, "never killed half-way"

    done = _toolkit("workspace", "apply", ws.temp_dir, option)

    assert done.returncode == 0, done.stderr
    assert tree_of(host) == {name.encode(): ("-", wanted) for name in names}


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkspaceSection:
    """A workspace whose apply stopped after its first file, and could not be taken back either."""
    ws = _edited(tmp_path)
    with _stopping_after_one_file(monkeypatch):
        ws.apply()
    return ws


@pytest.fixture
def half_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkspaceSection:
    """A workspace whose apply was finished, and whose undo stopped after its first file."""
    ws = _edited(tmp_path)
    ws.apply()
    with _stopping_after_one_file(monkeypatch):
        ws.undo_apply()
    assert {data for _, data in tree_of(tmp_path / "host").values()} > {b"agent\n"}
    return ws


def _edited(tmp_path: Path) -> WorkspaceSection:
    ws = prepare(make_tree(tmp_path / "host", {"a": b"a\n", "b": b"b\n"}))
    (ws.temp_dir / "src/a").write_text("agent\n")
    (ws.temp_dir / "src/b").write_text("agent\n")
    return ws


@contextmanager
def _stopping_after_one_file(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = os.rename
    made: list[object] = []

    def stops(*args: Any, **kwargs: Any) -> None:
        if made:
            raise SystemExit
        made.append(args)
        real(*args, **kwargs)

    monkeypatch.setattr(os, "rename", stops)
    with pytest.raises(SystemExit):
        yield
    monkeypatch.undo()


def test_an_undo_that_was_interrupted_is_announced_everywhere(half_undone: WorkspaceSection) -> None:
    parent, folder = half_undone.temp_dir.parent, half_undone.temp_dir
    host = tree_of(parent / "host")
    assert [one.status for one in find_workspaces(parent)] == ["unfinished"]
    assert list(clean_workspaces(parent, kept=True)) == []
    with pytest.raises(WorkspaceError, match="interrupted"):
        half_undone.apply()
    with pytest.raises(WorkspaceError, match="kept"):
        WorkspaceSection.open(folder).cleanup()
    done = _toolkit("workspace", "diff", folder)
    assert "interrupted" in done.stderr
    assert "--resume" in done.stderr
    assert _toolkit("workspace", "list", "--parent", parent).stdout.startswith("unfinished")
    assert tree_of(parent / "host") == host


def test_ctrl_c_in_the_middle_of_an_undo_says_what_is_half_done(tmp_path: Path) -> None:
    ws = _edited(tmp_path)
    ws.apply()
    interrupted = (
        "import os; from toolkit.cli import main; real, made = os.rename, []\n"
        "def once(*args, **kwargs):\n"
        "    if made: raise KeyboardInterrupt\n"
        "    made.append(args); real(*args, **kwargs)\n"
        "os.rename = once; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", interrupted, "workspace", "apply", str(ws.temp_dir), "--undo"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert [one.status for one in find_workspaces(tmp_path)] == ["unfinished"]
    assert done.returncode == 1
    assert f"--resume {ws.temp_dir}" in done.stderr or f"{ws.temp_dir} --resume" in done.stderr
    assert done.stderr.endswith("Aborted!\n")


@pytest.mark.parametrize(("option", "wanted"), [("--resume", {b"agent\n"}), ("--undo", {b"a\n", b"b\n"})])
def test_an_undo_that_was_interrupted_is_finished_either_way(
    half_undone: WorkspaceSection, option: str, wanted: set[bytes]
) -> None:
    parent = half_undone.temp_dir.parent
    assert _toolkit("workspace", "apply", half_undone.temp_dir, option).returncode == 0
    assert {data for _, data in tree_of(parent / "host").values()} == wanted
    assert [one.status for one in find_workspaces(parent)] == ["kept"]
    half_undone.apply()
    assert {data for _, data in tree_of(parent / "host").values()} == {b"agent\n"}


def _toolkit(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolkit", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_else_is_applied_before_an_interrupted_apply_is_settled(interrupted: WorkspaceSection) -> None:
    assert [one.status for one in find_workspaces(interrupted.temp_dir.parent)] == ["unfinished"]
    with pytest.raises(WorkspaceError, match="interrupted"):
        interrupted.apply()
    assert interrupted.resume_apply()
    assert [one.status for one in find_workspaces(interrupted.temp_dir.parent)] == ["kept"]
    assert not interrupted.resume_apply()


def test_a_file_edited_on_the_host_meanwhile_is_not_lost_by_resuming(interrupted: WorkspaceSection) -> None:
    host = interrupted.temp_dir.parent / "host"
    (host / "b").write_text("edited\n")
    with pytest.raises(WorkspaceError, match="changed while"):
        interrupted.resume_apply()
    assert (host / "b").read_text() == "edited\n"
    (host / "b").write_text("b\n")
    assert interrupted.undo_apply()
    assert tree_of(host) == {b"a": ("-", b"a\n"), b"b": ("-", b"b\n")}


def test_an_interrupted_apply_keeps_its_workspace_until_it_is_settled(interrupted: WorkspaceSection) -> None:
    parent = interrupted.temp_dir.parent
    assert [one.status for one in find_workspaces(parent)] == ["unfinished"]
    assert list(clean_workspaces(parent, kept=True)) == []
    section = WorkspaceSection.open(interrupted.temp_dir)
    with pytest.raises(WorkspaceError, match="kept"):
        section.cleanup()
    with WorkspaceSection.open(interrupted.temp_dir) as section:
        assert section.undo_apply()
        section.cleanup()
    assert not interrupted.temp_dir.exists()
