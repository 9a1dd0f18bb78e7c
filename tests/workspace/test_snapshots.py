"""Remembering how a workspace looks, and going back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.workspace.copies import Edit, Tree, build, edit, edits, make_tree, memory_folder, prepare, tree_of, trees
from toolkit.errors import WorkspaceError
from toolkit_workspace.applying.apply import apply_changes
from toolkit_workspace.changes.changes import changes_of
from toolkit_workspace.moments.snapshot import Snapshots
from toolkit_workspace.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    host = make_tree(tmp_path / "host", {"a.txt": b"a\n" * 50, "b.txt": b"b\n", "dir/c.txt": b"c\n", "link": "a.txt"})
    return prepare(host)


def test_a_workspace_goes_back_to_how_it_looked(ws: Workspace) -> None:
    shots, src = Snapshots(ws), ws.folder / "src"
    (src / "a.txt").write_text("first\n")
    (src / "b.txt").unlink()
    then = tree_of(ws.folder)
    before_tests = shots.take("before tests")
    (src / "a.txt").write_text("second\n")
    (src / "b.txt").mkdir()
    shutil.rmtree(src / "dir")
    (src / "link").unlink()

    shots.rewind(before_tests)

    assert tree_of(ws.folder) == then


def test_what_a_rewind_took_away_can_be_had_back(ws: Workspace) -> None:
    shots = Snapshots(ws)
    start = shots.take("start")
    make_tree(ws.folder / "src", {"work/of/hours.txt": b"done\n"})
    worked = tree_of(ws.folder)

    until_now = shots.rewind(start)
    assert not (ws.folder / "src/work").exists()
    shots.rewind(until_now)

    assert tree_of(ws.folder) == worked


def test_two_snapshots_are_compared_like_any_changes(ws: Workspace) -> None:
    shots = Snapshots(ws)
    one = shots.take("one")
    (ws.folder / "src/a.txt").rename(ws.folder / "src/renamed.txt")
    (ws.folder / "src/b.txt").write_text("b\nmore\n")
    shots.take("two")
    (ws.folder / "src/b.txt").write_text("not in two\n")

    changes = shots.diff(one, "two")

    assert [(change.kind, change.path) for change in changes] == [
        ("modified", "src/b.txt"),
        ("renamed", "src/renamed.txt"),
    ]
    assert b"+more\n" in changes.patch()
    assert shots.diff(None, "one").summary() == "No changes."
    assert [change.path for change in shots.diff("two")] == ["src/b.txt"]


def test_only_changed_content_is_stored_and_the_same_bytes_once(ws: Workspace) -> None:
    shots = Snapshots(ws)
    shots.take("untouched")
    assert not (ws.state_dir / "objects").exists()
    for name in ("a.txt", "b.txt", "copy.txt"):
        (ws.folder / "src" / name).write_text("the same\n")
    shots.take("three alike")
    shots.take("again")
    assert len(list((ws.state_dir / "objects").iterdir())) == 1
    assert len(list((ws.state_dir / "snapshots").glob("record-*"))) == 1


def test_an_unknown_snapshot_is_named_with_those_there_are(ws: Workspace) -> None:
    shots = Snapshots(ws)
    shots.take("one")
    with pytest.raises(WorkspaceError, match="'one'"):
        shots.rewind("two")


def test_a_snapshot_outlives_an_apply(ws: Workspace) -> None:
    shots = Snapshots(ws)
    start, then = shots.take("start"), tree_of(ws.folder)
    (ws.folder / "src/a.txt").write_text("agent\n")
    (ws.folder / "src/dir/c.txt").unlink()
    apply_changes(ws)

    shots.rewind(start)

    assert tree_of(ws.folder) == then
    assert sorted(change.path for change in changes_of(ws)) == ["src/a.txt", "src/dir/c.txt"]


def test_bytes_that_were_not_kept_are_kept_before_an_apply_replaces_them(tmp_path: Path) -> None:
    host = make_tree(tmp_path / "host", {"a.txt": b"a\n"})
    ws = prepare(host, keep=False)
    ws.record.created_ns += 1_000_000_000  # as if the host's files were old when they were copied
    shots = Snapshots(ws)
    start = shots.take("start")
    (ws.folder / "src/a.txt").write_text("agent\n")
    apply_changes(ws)

    shots.rewind(start)

    assert (ws.folder / "src/a.txt").read_bytes() == b"a\n"


def test_lost_bytes_stop_a_rewind_before_it_touches_anything(tmp_path: Path) -> None:
    host = make_tree(tmp_path / "host", {"a.txt": b"a\n", "b.txt": b"b\n"})
    ws = prepare(host, keep=False)
    shots = Snapshots(ws)
    start = shots.take("start")
    (ws.folder / "src/a.txt").write_text("agent\n")
    (ws.folder / "src/new.txt").write_text("agent\n")
    (host / "a.txt").write_text("host\n")
    before = tree_of(ws.folder)
    with pytest.raises(WorkspaceError, match="lost"):
        shots.rewind(start)
    assert tree_of(ws.folder) == before


@given(tree=trees, first=edits, second=edits)
@settings(max_examples=80, deadline=None)
def test_any_edits_are_rewound_exactly(tree: Tree, first: list[Edit], second: list[Edit]) -> None:
    with memory_folder() as folder:
        top = Path(folder)
        build(top / "host", tree)
        ws = prepare(top / "host")
        for step in first:
            edit(ws.folder / "src", step)
        shots, then = Snapshots(ws), tree_of(ws.folder)
        shot = shots.take("then")
        for step in second:
            edit(ws.folder / "src", step)
        shots.rewind(shot)
        assert tree_of(ws.folder) == then
        assert len(shots.diff(shot)) == 0


def test_a_folder_the_agent_closed_is_rewound_too(ws: Workspace) -> None:
    shots = Snapshots(ws)
    start, then = shots.take("start"), tree_of(ws.folder)
    (ws.folder / "src/dir/c.txt").write_text("agent\n")
    (ws.folder / "src/dir").chmod(0o500)
    shots.rewind(start)
    assert tree_of(ws.folder) == then
    assert (ws.folder / "src/dir").stat().st_mode & 0o777 == 0o755
