# ruff: noqa: PTH208
"""include_glob and exclude_glob by gitignore rules; what is excluded is never read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.hostile import Witness, run_as
from tests.workspace.judge import Tree
from toolkit.errors import WorkspaceError
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.selecting.pattern import GitPattern
from toolkit_workspace.selecting.rules import MOST_RULE_BYTES, RuleList, read_rule_file


def _copied(tmp_path: Path, paths: str, **options: Any) -> list[str]:
    """The files that arrive of those made."""
    top = tmp_path / "t"
    Tree({}, [path.encode() for path in paths.split()]).make(top)
    with WorkspaceSection([HostMount(top, **options)], [tmp_path], parent=tmp_path) as section:
        copy = section.temp_dir / "t"
        return sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if not path.is_dir())


FILES = "a.py b.txt src/c.py src/d.txt src/gen/e.py docs/f.md build/g.o build/keep.txt"


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), "a.py b.txt build/g.o build/keep.txt docs/f.md src/c.py src/d.txt src/gen/e.py"),
        ((), ("*.py",), "b.txt build/g.o build/keep.txt docs/f.md src/d.txt"),
        ((), ("build/", "!build/keep.txt"), "a.py b.txt docs/f.md src/c.py src/d.txt src/gen/e.py"),
        ((), ("build/*", "!build/keep.txt"), "a.py b.txt build/keep.txt docs/f.md src/c.py src/d.txt src/gen/e.py"),
        (("*.py",), (), "a.py src/c.py src/gen/e.py"),
        (("/*.py",), (), "a.py"),
        (("src/",), (), "src/c.py src/d.txt src/gen/e.py"),
        (("src/", "!src/gen/"), (), "src/c.py src/d.txt"),
        (("src/", "!*.txt"), (), "src/c.py src/gen/e.py"),
        (("src/**/*.py", "docs"), (), "docs/f.md src/c.py src/gen/e.py"),
        (("*.py",), ("src/gen/",), "a.py src/c.py"),
        (("*",), ("*.txt", "!b.txt"), "a.py b.txt build/g.o docs/f.md src/c.py src/gen/e.py"),
    ],
)
def test_patterns_choose_what_comes_along(
    tmp_path: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: str
) -> None:
    assert _copied(tmp_path, FILES, include_glob=include, exclude_glob=exclude) == expected.split()


def test_with_include_only_folders_on_the_way_are_made(tmp_path: Path) -> None:
    Tree({}, [b"a/b/c.py", b"empty/", b"d/e.txt"]).make(tmp_path / "t")
    with WorkspaceSection([HostMount(tmp_path / "t", include_glob="*.py")], [tmp_path]) as section:
        copy = section.temp_dir / "t"
        assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == ["a", "a/b", "a/b/c.py"]


def test_an_excluded_folder_is_never_read(tmp_path: Path) -> None:
    def look() -> None:
        Tree({}, [b"node_modules/m/x.js", b"a.js"]).make(tmp_path / "t")
        witness = Witness(tmp_path / "t/node_modules")
        with WorkspaceSection([HostMount(tmp_path / "t", exclude_glob="node_modules/")], [tmp_path]) as section:
            assert os.listdir(section.temp_dir / "t") == ["a.js"]
        assert witness.seen() == []
        witness.close()

    run_as(False, look, alone_in=tmp_path)


def test_exclude_glob_is_stronger_than_a_gitignore_file(tmp_path: Path) -> None:
    Tree({"": b"*.log\n"}, [b"a.log", b"keep.log", b"b.txt"]).make(tmp_path / "t")
    mount = HostMount(tmp_path / "t", exclude_glob=("b.txt", "!keep.log"), gitignore=True)
    with WorkspaceSection([mount], [tmp_path]) as section:
        assert sorted(os.listdir(section.temp_dir / "t")) == [".gitignore", "keep.log"]


def test_patterns_decide_about_a_single_file_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    for options in ({"exclude_glob": "*.txt"}, {"include_glob": "*.py"}):
        with WorkspaceSection([HostMount(tmp_path / "a.txt", **options)], [tmp_path]) as section:  # type: ignore[arg-type]
            assert os.listdir(section.temp_dir) == []


def test_the_plan_says_what_stays_behind_and_by_which_rule(tmp_path: Path) -> None:
    Tree({"src": b"# c\n*.o\n"}, [b"src/a.o", b"src/b.c", b"x.pyc", b"y.pyc", b"cache/z"]).make(tmp_path / "t")
    (tmp_path / "t/out").symlink_to("/etc")
    mount = HostMount(tmp_path / "t", exclude_glob=("*.pyc", "cache/"), gitignore=True)
    section = WorkspaceSection([mount], [tmp_path], parent=tmp_path)
    plan = section.plan().mounts[0]
    assert (plan.files, plan.folders, plan.links) == (2, 1, 0)
    assert plan.left_counts == {
        ("excluded", "exclude_glob *.pyc"): 2,
        ("excluded", "exclude_glob cache/"): 1,
        ("ignored", "src/.gitignore:2 *.o"): 1,
        ("link leads out", ""): 1,
    }
    assert {(one.path, one.detail) for one in plan.left_out} >= {
        ("src/a.o", "src/.gitignore:2 *.o"),
        ("cache/", "exclude_glob cache/"),
        ("out", "-> /etc"),
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_the_plan_counts_what_the_copy_brings(tmp_path: Path) -> None:
    Tree({"": b"*.o\n"}, [b"a/b.c", b"a/c.o", b"d/"]).make(tmp_path / "t")
    (tmp_path / "t/a/b.c").write_bytes(b"12345")
    section = WorkspaceSection([HostMount(tmp_path / "t", gitignore=True)], [tmp_path])
    plan = section.plan()
    with section:
        files = [path for path in section.temp_dir.rglob("*") if path.is_file()]
        assert plan.files == len(files)
        assert plan.size == sum(path.stat().st_size for path in files)
        assert plan.mounts[0].folders == 2


def test_the_plan_draws_a_tree_with_sizes(tmp_path: Path) -> None:
    Tree({}, [b"src/a.py", b"src/b.pyc", b"README"]).make(tmp_path / "t")
    (tmp_path / "t/src/a.py").write_bytes(b"x" * 1500)
    plan = WorkspaceSection([HostMount(tmp_path / "t", exclude_glob="*.pyc")], [tmp_path]).plan()
    assert plan.tree() == (
        f"t  2 files, 1.5 kB  from {tmp_path}/t\n"
        "  src/  1 file, 1.5 kB\n"
        "    a.py  1.5 kB\n"
        "  README  0 B\n"
        "  left out or remarked:\n"
        '    1 excluded by "exclude_glob *.pyc": src/b.pyc'
    )


def test_a_rule_for_folders_includes_no_file_of_that_name(tmp_path: Path) -> None:
    assert _copied(tmp_path, "build src/build/a", include_glob=("build/",)) == ["src/build/a"]


def test_a_name_that_only_ends_like_gits_folder_is_within_reach_of_a_gitignore_file(tmp_path: Path) -> None:
    top = tmp_path / "t"
    Tree({"": b"*.git\n"}, [b"mirror.git/config", b"note.git", b"kept"]).make(top)
    with WorkspaceSection([HostMount(top, gitignore=True)], [tmp_path], parent=tmp_path) as section:
        found = {path.name for path in (section.temp_dir / "t").iterdir()}
    assert found == {"kept", ".gitignore"}


@pytest.mark.parametrize("is_folder", [True, False])
def test_rules_asked_one_by_one_say_what_they_say_at_once(monkeypatch: pytest.MonkeyPatch, is_folder: bool) -> None:
    """The automaton that asks all at once answers nothing when it runs out of memory."""
    lines = [b"a*", b"!ab", b"b/", b"*.py", b"!keep.py", b"c", b"!c", b"d/**"]
    rules = [GitPattern(line, "test", number) for number, line in enumerate(lines, 1)]
    at_once = RuleList(rules)
    monkeypatch.setattr("toolkit_workspace.selecting.pattern.match_many", lambda regexes: lambda path: [])
    one_by_one = RuleList(rules)
    for path in (b"a", b"ab", b"b", b"x/b", b"m.py", b"keep.py", b"c", b"d", b"d/e", b"z"):
        assert one_by_one.last_match(path, is_folder) == at_once.last_match(path, is_folder), path


def test_more_rules_than_fit_into_one_automaton_count_as_one_list() -> None:
    lines = [f"{'x' * 500}{number}".encode() for number in range(400)]
    rules = RuleList([GitPattern(line, "test", number) for number, line in enumerate([*lines, b"!x*1"], 1)])
    assert len(rules._blocks) > 2
    for number in (0, 1, 150, 399):
        expected = 401 if lines[number].endswith(b"1") else number + 1
        assert rules.last_match(lines[number], False) == expected
    assert rules.last_match(b"y", False) == 0


def test_a_rule_file_is_read_up_to_its_largest_size_and_not_a_byte_more(tmp_path: Path) -> None:
    largest = b"*.log\n" + b"#\n" * ((MOST_RULE_BYTES - 6) // 2)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        (tmp_path / ".gitignore").write_bytes(largest)
        assert len(largest) == MOST_RULE_BYTES
        assert [pattern.line for pattern in read_rule_file(handle, b".gitignore", "f")] == [b"*.log"]
        (tmp_path / ".gitignore").write_bytes(largest + b"#")
        with pytest.raises(WorkspaceError):
            read_rule_file(handle, b".gitignore", "f")
    finally:
        os.close(handle)
