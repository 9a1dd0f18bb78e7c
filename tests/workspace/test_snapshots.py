"""Remembering how a workspace looks, and going back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.workspace.copies import Edit, Tree, build, edit, edits, make_tree, memory_folder, prepare, tree_of, trees
from tests.workspace.repositories import repository
from toolkit.errors import WorkspaceError
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[WorkspaceSection]:
    host = make_tree(tmp_path / "host", {"a.txt": b"a\n" * 50, "b.txt": b"b\n", "dir/c.txt": b"c\n", "link": "a.txt"})
    section = prepare(host).prepare()
    yield section
    section.release()


def test_a_workspace_goes_back_to_how_it_looked(ws: WorkspaceSection) -> None:
    src = ws.temp_dir / "src"
    (src / "a.txt").write_text("first\n")
    (src / "b.txt").unlink()
    then = tree_of(ws.temp_dir)
    before_tests = ws.snapshot("before tests")
    (src / "a.txt").write_text("second\n")
    (src / "b.txt").mkdir()
    shutil.rmtree(src / "dir")
    (src / "link").unlink()

    ws.rewind(before_tests)

    assert tree_of(ws.temp_dir) == then


def test_what_a_killed_snapshot_left_behind_stops_no_later_one(ws: WorkspaceSection) -> None:
    ws.snapshot("one")
    kept = ws.state_dir / "snapshots"
    for left in (".2.json.0123.new", "2.new", "manifest-2.new", "record-2.new", ".record-2.45.new"):
        (kept / left).write_bytes(b"{")
    (ws.temp_dir / "src/a.txt").write_text("work\n")

    two = ws.snapshot("two")
    ws.rewind("one")
    ws.rewind(two)

    assert (ws.temp_dir / "src/a.txt").read_text() == "work\n"


def test_a_snapshot_of_more_than_it_may_take_is_refused_and_stores_nothing(ws: WorkspaceSection) -> None:
    holes = ws.temp_dir / "src/holes"
    holes.touch()
    os.truncate(holes, 5_000_000)
    with pytest.raises(WorkspaceError, match=r"too large for a snapshot: 5\.0 MB of at most 1\.0 MB"):
        ws.snapshot("large", most_bytes=1_000_000)
    holes.unlink()
    assert ws.snapshot("small", most_bytes=1_000_000).number == 1


def test_a_huge_file_of_holes_is_compared_where_it_has_bytes(tmp_path: Path) -> None:
    host = make_tree(tmp_path / "host", {"huge": b""})
    os.truncate(host / "huge", 1 << 40)  # reading all of it would take minutes
    section = prepare(host, keep=False)
    copy = section.temp_dir / "src/huge"
    os.utime(copy)
    assert list(section.changes()) == []
    with copy.open("r+b") as file:
        file.seek(1 << 39)
        file.write(b"x")
    assert [one.path for one in section.changes()] == ["src/huge"]
    with copy.open("r+b") as file:
        file.seek(1 << 39)
        file.write(b"\0")  # a hole and what is written there read alike
    assert list(section.changes()) == []


def test_what_a_rewind_took_away_can_be_had_back(ws: WorkspaceSection) -> None:
    start = ws.snapshot("start")
    make_tree(ws.temp_dir / "src", {"work/of/hours.txt": b"done\n"})
    worked = tree_of(ws.temp_dir)

    until_now = ws.rewind(start)
    assert not (ws.temp_dir / "src/work").exists()
    ws.rewind(until_now)

    assert tree_of(ws.temp_dir) == worked


def test_two_snapshots_are_compared_like_any_changes(ws: WorkspaceSection) -> None:
    one = ws.snapshot("one")
    (ws.temp_dir / "src/a.txt").rename(ws.temp_dir / "src/renamed.txt")
    (ws.temp_dir / "src/b.txt").write_text("b\nmore\n")
    ws.snapshot("two")
    (ws.temp_dir / "src/b.txt").write_text("not in two\n")

    changes = ws.diff(one, "two")

    assert [(change.kind, change.path) for change in changes] == [
        ("modified", "src/b.txt"),
        ("renamed", "src/renamed.txt"),
    ]
    assert b"+more\n" in changes.patch()
    assert ws.diff(None, "one").summary() == "No changes."
    assert [change.path for change in ws.diff("two")] == ["src/b.txt"]


def test_only_changed_content_is_stored_and_the_same_bytes_once(ws: WorkspaceSection) -> None:
    ws.snapshot("untouched")
    assert not (ws.state_dir / "objects").exists()
    for name in ("a.txt", "b.txt", "copy.txt"):
        (ws.temp_dir / "src" / name).write_text("the same\n")
    ws.snapshot("three alike")
    ws.snapshot("again")
    assert len(list((ws.state_dir / "objects").iterdir())) == 1
    assert len(list((ws.state_dir / "snapshots").glob("record-*"))) == 1


def test_an_unknown_snapshot_is_named_with_those_there_are(ws: WorkspaceSection) -> None:
    ws.snapshot("one")
    with pytest.raises(WorkspaceError, match="'one'"):
        ws.rewind("two")


def test_a_snapshot_outlives_an_apply(ws: WorkspaceSection) -> None:
    start, then = ws.snapshot("start"), tree_of(ws.temp_dir)
    (ws.temp_dir / "src/a.txt").write_text("agent\n")
    (ws.temp_dir / "src/dir/c.txt").unlink()
    ws.apply()

    ws.rewind(start)

    assert tree_of(ws.temp_dir) == then
    assert sorted(change.path for change in ws.changes()) == ["src/a.txt", "src/dir/c.txt"]


def test_bytes_that_were_not_kept_are_kept_before_an_apply_replaces_them(tmp_path: Path) -> None:
    host = make_tree(tmp_path / "host", {"a.txt": b"a\n"})
    ws = prepare(host, keep=False).prepare()
    start = ws.snapshot("start")
    (ws.temp_dir / "src/a.txt").write_text("agent\n")
    ws.apply()

    ws.rewind(start)

    assert (ws.temp_dir / "src/a.txt").read_bytes() == b"a\n"


def test_lost_bytes_stop_a_rewind_before_it_touches_anything(tmp_path: Path) -> None:
    host = make_tree(tmp_path / "host", {"a.txt": b"a\n", "b.txt": b"b\n"})
    ws = prepare(host, keep=False).prepare()
    start = ws.snapshot("start")
    (ws.temp_dir / "src/a.txt").write_text("agent\n")
    (ws.temp_dir / "src/new.txt").write_text("agent\n")
    (host / "a.txt").write_text("host\n")
    before = tree_of(ws.temp_dir)
    with pytest.raises(WorkspaceError, match="lost"):
        ws.rewind(start)
    assert tree_of(ws.temp_dir) == before


@given(tree=trees, first=edits, second=edits)
@settings(max_examples=80, deadline=None)
def test_any_edits_are_rewound_exactly(tree: Tree, first: list[Edit], second: list[Edit]) -> None:
    with memory_folder() as folder:
        top = Path(folder)
        build(top / "host", tree)
        ws = prepare(top / "host").prepare()
        for step in first:
            edit(ws.temp_dir / "src", step)
        then = tree_of(ws.temp_dir)
        shot = ws.snapshot("then")
        for step in second:
            edit(ws.temp_dir / "src", step)
        ws.rewind(shot)
        assert tree_of(ws.temp_dir) == then
        assert len(ws.diff(shot)) == 0
        ws.release()


def test_a_folder_the_agent_closed_is_rewound_too(ws: WorkspaceSection) -> None:
    start, then = ws.snapshot("start"), tree_of(ws.temp_dir)
    (ws.temp_dir / "src/dir/c.txt").write_text("agent\n")
    (ws.temp_dir / "src/dir").chmod(0o500)
    ws.rewind(start)
    assert tree_of(ws.temp_dir) == then
    assert (ws.temp_dir / "src/dir").stat().st_mode & 0o777 == 0o755


def test_the_copys_own_git_is_no_change_that_a_snapshot_counts(tmp_path: Path) -> None:
    project = repository(tmp_path / "shop", files={"a.py": b"x = 1\n"})
    with WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path]) as section:
        assert section.snapshot("fresh").changed == len(section.changes()) == 0
