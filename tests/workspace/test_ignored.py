"""What the project's own ignore rules name, and caches, is counted and shown apart, and applied only by its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[WorkspaceSection]:
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / "src/app.py").write_text("x = 1\n")
    (shop / "src/.gitignore").write_text("*.tmp\n!keep.tmp\n")
    (shop / ".gitignore").write_text("__pycache__/\nbuild/\n*.log\n")
    (shop / "old.log").write_text("tracked in spite of the rules\n")
    with WorkspaceSection([HostMount(shop)], [shop], parent=tmp_path) as section:
        yield section


def _agent_writes(ws: WorkspaceSection, *names: str) -> None:
    for name in names:
        path = ws.temp_dir / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("made\n")


def test_new_paths_that_the_rules_name_are_ignored_and_no_others(ws: WorkspaceSection) -> None:
    _agent_writes(
        ws, "src/__pycache__/app.pyc", "build/deep/out.txt", "src/a.tmp", "src/keep.tmp", "b.tmp", "old.log", "new.log"
    )
    found = {change.path.removeprefix("shop/"): change.ignored for change in ws.changes() if change.type == "file"}
    assert found == {
        "src/__pycache__/app.pyc": True,
        "build/deep/out.txt": True,
        "src/a.tmp": True,
        "src/keep.tmp": False,
        "b.tmp": False,
        "old.log": False,
        "new.log": True,
    }
    assert {change.path for change in ws.changes().ignored} > {"shop/build", "shop/src/__pycache__"}


def test_rules_that_the_agent_writes_hide_nothing(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "shop/.gitignore").write_text("*\n")
    _agent_writes(ws, "evil.py", "lib/.gitignore", "lib/evil.py")
    assert not any(change.ignored for change in ws.changes())


def test_ignored_paths_are_told_in_one_line_and_left_out_of_the_patch(ws: WorkspaceSection) -> None:
    _agent_writes(ws, "src/app.py", *(f"src/__pycache__/{n}.pyc" for n in range(30)), "build/out.txt")
    summary = ws.changes().summary().splitlines()
    assert summary[0].startswith("M  shop/src/app.py")
    assert summary[1:] == [
        "1 change: 1 modified",
        "caches, or ignored by the project: 31 files in shop/build/, shop/src/__pycache__/",
    ]
    patch, ignored = ws.changes().patch(), "the project ignores it, or it is a cache"
    assert b"build/out.txt" not in patch
    assert patch.count(b"# not in this patch: ") == 2  # each folder once, whatever is in it
    assert ws.changes().not_in_patch() == [("shop/build", ignored), ("shop/src/__pycache__", ignored)]


def test_they_are_applied_only_by_their_name(ws: WorkspaceSection, tmp_path: Path) -> None:
    host = tmp_path / "shop"
    _agent_writes(ws, "src/app.py", "src/__pycache__/app.pyc", "build/out.txt")
    applied = ws.apply(paths=["shop"])
    assert (host / "src/app.py").read_text() == "made\n"
    assert not (host / "build").exists()
    assert [path for path, _ in applied.left] == ["shop/build", "shop/src/__pycache__"]

    ws.apply(paths=["shop/build/out.txt"])
    assert (host / "build/out.txt").read_text() == "made\n"
    assert not (host / "src/__pycache__").exists()


def test_caches_of_usual_tools_are_ignored_without_a_rule(tmp_path: Path) -> None:
    shop = tmp_path / "bare"
    shop.mkdir()
    (shop / "app.py").write_text("x = 1\n")
    made = ["__pycache__/app.pyc", "lib/__pycache__/deep/x.pyc", ".pytest_cache/README.md", "lib/pytest_cache/kept.txt"]
    with WorkspaceSection([HostMount(shop)], [shop], parent=tmp_path) as section:
        for name in [*made, "lib/new/.mypy_cache"]:
            path = section.temp_dir / "bare" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("made\n")
        found = {change.path.removeprefix("bare/") for change in section.changes().ignored if change.type == "file"}
        assert found == set(made[:3])  # a file of that name is no cache
        applied = section.apply()
    assert sorted(path for path, _ in applied.left) == [
        "bare/.pytest_cache",
        "bare/__pycache__",
        "bare/lib/__pycache__",
    ]
    assert (shop / "lib/pytest_cache/kept.txt").read_text() == "made\n"
    assert not (shop / "__pycache__").exists()
