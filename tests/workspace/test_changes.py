"""What changed in a workspace, and the patch that says so."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.workspace.copies import (
    Edit,
    Tree,
    build,
    edit,
    edits,
    git,
    make_tree,
    memory_folder,
    prepare,
    tree_of,
    trees,
)
from tests.workspace.hostile import a_place, run_as
from toolkit.errors import WorkspaceError
from toolkit.workspace import Changes, WorkspaceSection


@pytest.fixture
def ws(tmp_path: Path) -> WorkspaceSection:
    files: dict[str | bytes, bytes | str] = {
        "app.py": b"".join(b"line %d\n" % n for n in range(30)),
        "run.sh": b"#!/bin/sh\n",
        "data.bin": bytes(range(256)),
        "docs/guide.md": b"# Guide\n\nRead this.\n",
        "docs/link": "guide.md",
        "empty/": b"",
    }
    return prepare(make_tree(tmp_path / "host", files))


def kinds(changes: Changes) -> dict[str, str]:
    return {change.path: change.kind for change in changes}


def test_an_untouched_workspace_has_no_changes(ws: WorkspaceSection) -> None:
    changes = ws.changes()
    assert len(changes) == 0
    assert changes.patch() == b""
    assert changes.summary() == "No changes."


def test_every_kind_of_change_is_told(ws: WorkspaceSection) -> None:
    src = ws.temp_dir / "src"
    (src / "new.txt").write_text("new\n")
    (src / "app.py").write_text("other\n")
    (src / "data.bin").unlink()
    (src / "docs/guide.md").rename(src / "manual.md")
    (src / "run.sh").chmod(0o755)
    (src / "docs/link").unlink()
    (src / "docs/link").symlink_to("../app.py")
    (src / "empty").rmdir()

    assert kinds(ws.changes()) == {
        "src/app.py": "modified",
        "src/data.bin": "deleted",
        "src/docs/link": "link",
        "src/empty": "deleted",
        "src/manual.md": "renamed",
        "src/new.txt": "added",
        "src/run.sh": "mode",
    }


def test_a_same_size_edit_with_its_mtime_set_back_is_found(ws: WorkspaceSection) -> None:
    file = ws.temp_dir / "src/app.py"
    was = file.stat()
    data = file.read_bytes()
    file.write_bytes(data[:-2] + b"X\n")
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)

    assert kinds(ws.changes()) == {"src/app.py": "modified"}


def test_a_file_written_again_with_the_same_bytes_is_no_change(ws: WorkspaceSection) -> None:
    file = ws.temp_dir / "src/app.py"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)
    os.utime(ws.temp_dir / "src/docs", ns=(1, 1))

    assert kinds(ws.changes()) == {}


def test_a_changed_name_with_changed_contents_is_one_rename(ws: WorkspaceSection) -> None:
    src = ws.temp_dir / "src"
    (src / "app.py").write_bytes((src / "app.py").read_bytes() + b"more\n")
    (src / "app.py").rename(src / "docs/app.py")

    (change,) = ws.changes()
    assert (change.kind, change.old_path, change.content_changed) == ("renamed", "src/app.py", True)


def test_a_file_that_became_a_folder_is_told_as_what_went_and_what_came(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "src/run.sh").unlink()
    (ws.temp_dir / "src/run.sh").mkdir()
    (ws.temp_dir / "src/run.sh/inner").write_text("x")

    found = [(change.path, change.kind, change.type) for change in ws.changes()]
    assert found == [
        ("src/run.sh", "deleted", "file"),
        ("src/run.sh", "added", "folder"),
        ("src/run.sh/inner", "added", "file"),
    ]


def test_another_process_reads_the_same_changes_from_disk(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "src/app.py").write_text("other\n")
    again = WorkspaceSection.open(ws.temp_dir)
    assert again.changes().to_json() == ws.changes().to_json()


def test_changes_outside_every_mount_are_told_and_belong_to_none(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "scratch.txt").write_text("x")
    (change,) = ws.changes()
    assert (change.path, change.mount) == ("scratch.txt", None)


def test_a_patch_leaves_out_git_folders_and_says_so(ws: WorkspaceSection) -> None:
    make_tree(ws.temp_dir / "src", {".git/hooks/post-commit": b"#!/bin/sh\n", "fine.txt": b"fine\n"})
    changes = ws.changes()
    assert [path for path, _ in changes.not_in_patch()] == ["src/.git/hooks/post-commit"]
    assert changes.patch().startswith(b"# not in this patch: src/.git/hooks/post-commit")
    assert b"+fine" in changes.patch()


def test_a_deep_tree_is_compared_to_its_end(ws: WorkspaceSection) -> None:
    fd = os.open(ws.temp_dir / "src", os.O_RDONLY)
    for _ in range(700):
        os.mkdir("deeper", dir_fd=fd)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)

    changes = ws.changes()
    assert changes[-1].path == "src/" + "deeper/" * 700 + "bottom"
    assert len(changes) == 701


@pytest.mark.parametrize("plain", [False, True], ids=["root", "plain user"])
def test_what_the_agent_closed_is_compared_all_the_same(plain: bool) -> None:
    with a_place(plain=plain) as where:

        def look() -> None:
            ws = prepare(make_tree(where.top / "host", {"shut/in/x": b"x", "half/y": b"y", "file": b"f", "same": b"s"}))
            src = ws.temp_dir / "src"
            (src / "shut/in/x").write_bytes(b"changed")
            (src / "half/y").write_bytes(b"changed")
            (src / "file").write_bytes(b"changed")
            for name, mode in (("file", 0), ("same", 0), ("half", 0o600), ("shut", 0)):
                (src / name).chmod(mode)
            changes = ws.changes()
            assert {change.path for change in changes if change.kind == "modified"} == {
                "src/file", "src/half/y", "src/shut/in/x",
            }  # fmt: skip
            assert {change.path for change in changes if change.kind == "mode"} == {"src/half", "src/same", "src/shut"}
            assert changes.patch().count(b"+changed") == 3

        run_as(plain, look)


def applied_by_git(folder: Path, patch: bytes, *options: str) -> Tree:
    """The tree `git apply` makes of a folder."""
    git(folder, "init", "-q")
    done = git(folder, "apply", "--whitespace=nowarn", *options, "-", data=patch)
    shutil.rmtree(folder / ".git")
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return tree_of(folder, folders=False)


def _folder_became_something_else(before: Tree, after: Tree) -> bool:
    return any(inside.startswith(path + b"/") for path in after for inside in before)


@given(tree=trees, steps=edits)
@settings(max_examples=100, deadline=None)
def test_git_applies_the_patch_to_the_same_tree_and_back(tree: Tree, steps: list[Edit]) -> None:
    with memory_folder() as folder:
        top = Path(folder)
        build(top / "host", tree)
        ws = prepare(top / "host")
        shutil.copytree(ws.temp_dir, top / "copy", symlinks=True)
        before = tree_of(ws.temp_dir, folders=False)
        for step in steps:
            edit(ws.temp_dir / "src", step)
        patch = ws.changes().patch()
        if patch:
            after = tree_of(ws.temp_dir, folders=False)
            assert applied_by_git(top / "copy", patch) == after
            if not _folder_became_something_else(before, after):  # there git itself cannot always find the way back
                assert applied_by_git(top / "copy", patch, "-R") == before
        else:
            assert tree_of(ws.temp_dir, folders=False) == before


def test_a_deep_edit_is_found_however_few_files_may_be_open(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 50)
    ws = prepare(make_tree(tmp_path / "host", {f"{deep}/file.txt": b"one\n"}))
    (ws.temp_dir / "src" / deep / "file.txt").write_text("two\n")
    used = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    free = [number for number in range(1000) if number not in used]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[12], before[1]))  # twelve more files may be opened
    try:
        changes = ws.changes()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert kinds(changes) == {f"src/{deep}/file.txt": "modified"}


def test_what_cannot_be_looked_at_is_an_error_that_names_it(
    ws: WorkspaceSection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ws.temp_dir / "src/docs/guide.md").write_text("# Other\n")
    real = os.open

    def fails(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "docs":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(WorkspaceError) as caught:
        ws.changes()
    assert caught.value.where == ("src/docs",)
