"""How deep a tree is costs neither handles nor a limit of Python's: nothing of it is missed, and all of it goes."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspace.copies import prepare
from tests.workspace.overlays import needs_overlay, section_of
from tests.workspace.repositories import delivery, git, prepared, repository
from toolkit._base.handles import READ_DIR, open_beneath, remove_tree
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace import clean_workspaces
from toolkit_workspace.marking import PlantedRepositories

ROOT = Path(__file__).parents[2]
DEPTH = 50
MUCH_DEEPER = 3_000
DEEPER_THAN_PYTHON = 1_200
DEEPER_THAN_PATHS = 2_100


def _work(top: Path) -> None:
    """Every operation on a file far down, each as a user would ask for it."""
    place = Path("/".join(["d"] * DEPTH), "file")
    (top / "host" / place).parent.mkdir(parents=True)
    (top / "host" / place).write_text("host\n")
    section = WorkspaceSection([HostMount(top / "host", "src")], [top], parent=top).prepare()
    copy = section.temp_dir / "src" / place
    copy.write_text("agent\n")
    (changed,) = section.changes()
    assert changed.path == f"src/{place}"
    section.snapshot("edited")
    copy.write_text("later\n")
    section.rewind("edited")
    assert copy.read_text() == "agent\n"
    assert [one.action for one in section.apply().changes] == ["replaced"]
    assert (top / "host" / place).read_text() == "agent\n"
    assert section.undo_apply()
    assert (top / "host" / place).read_text() == "host\n"
    section.cleanup()


def main(top: str, handles: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(handles), int(handles)))
    _work(Path(top))


@pytest.mark.parametrize("handles", [48, 40, 32])
def test_every_operation_sees_what_is_far_down_with_few_handles(tmp_path: Path, handles: int) -> None:
    program = "import sys; from tests.workspace.test_deep_trees import main; main(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), str(handles)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _dig(folder: Path, depth: int, name: str = "deepest") -> None:
    here = os.open(folder, READ_DIR)
    for _ in range(depth):
        with contextlib.suppress(FileExistsError):
            os.mkdir("d", dir_fd=here)
        below = os.open("d", READ_DIR, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def _is_there(folder: Path, path: str) -> bool:
    here = os.open(folder, READ_DIR)
    try:
        os.close(open_beneath(here, os.fsencode(path), os.O_RDONLY))
    except FileNotFoundError:
        return False
    finally:
        os.close(here)
    return True


def test_folders_deeper_than_python_can_recurse_are_seen_remembered_and_removed(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    section = prepare(tmp_path / "host").prepare()
    src = section.temp_dir / "src"
    deepest = "/".join(["d"] * DEEPER_THAN_PYTHON) + "/deepest"
    section.snapshot("flat")
    _dig(src, DEEPER_THAN_PYTHON)
    assert len(section.changes()) == DEEPER_THAN_PYTHON + 1
    until_now = section.rewind("flat")
    assert list(src.iterdir()) == []
    section.rewind(until_now)
    assert _is_there(src, deepest)

    section.cleanup()

    assert [one.name for one in tmp_path.iterdir()] == ["host"]


def test_thousands_of_nested_folders_of_a_killed_process_are_cleaned_away(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    section = prepare(tmp_path / "host")
    _dig(section.temp_dir, MUCH_DEEPER)
    assert [one.temp_dir for one in clean_workspaces(tmp_path, kept=True)] == [section.temp_dir]
    assert [one.name for one in tmp_path.iterdir()] == ["host"]


def test_thousands_of_nested_host_folders_are_copied(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    _dig(tmp_path / "host", MUCH_DEEPER)
    try:
        with WorkspaceSection([HostMount(tmp_path / "host", "src")], [tmp_path], parent=tmp_path) as section:
            assert _is_there(section.temp_dir / "src", "/".join(["d"] * MUCH_DEEPER) + "/deepest")
            assert len(section.changes()) == 0
    finally:
        top = os.open(tmp_path, READ_DIR)
        remove_tree(top, "host")
        os.close(top)


def test_thousands_of_nested_folders_of_the_agent_are_applied_and_taken_back(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    top = os.open(tmp_path, READ_DIR)
    try:
        with WorkspaceSection([HostMount(host, "src")], [tmp_path], parent=tmp_path) as section:
            _dig(section.temp_dir / "src", MUCH_DEEPER)
            assert len(section.changes()) == MUCH_DEEPER + 1
            section.apply()
            assert _is_there(host, "/".join(["d"] * MUCH_DEEPER) + "/deepest")
            assert section.undo_apply()
            assert list(host.iterdir()) == []
    finally:
        remove_tree(top, "host")
        os.close(top)


def test_a_new_file_in_thousands_of_nested_host_folders_is_applied_and_taken_back(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    _dig(host, MUCH_DEEPER)
    top = os.open(tmp_path, READ_DIR)
    try:
        with WorkspaceSection([HostMount(host, "src")], [tmp_path], parent=tmp_path) as section:
            _dig(section.temp_dir / "src", MUCH_DEEPER, "new")
            (change,) = section.changes()
            assert not change.ignored
            assert section.changes().not_in_patch() == [(change.path, "its path is too long for git")]
            section.apply()
            new = "/".join(["d"] * MUCH_DEEPER) + "/new"
            assert _is_there(host, new)
            assert section.undo_apply()
            assert not _is_there(host, new)
    finally:
        remove_tree(top, "host")
        os.close(top)


def test_thousands_of_nested_folders_that_the_host_lost_are_made_again(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    _dig(host, MUCH_DEEPER)
    top = os.open(tmp_path, READ_DIR)
    try:
        with WorkspaceSection([HostMount(host, "src")], [tmp_path], parent=tmp_path) as section:
            _dig(section.temp_dir / "src", MUCH_DEEPER, "new")
            remove_tree(top, "host/d")
            section.apply()
            assert _is_there(host, "/".join(["d"] * MUCH_DEEPER) + "/new")
    finally:
        remove_tree(top, "host")
        os.close(top)


def test_what_is_too_deep_for_git_is_named_and_the_rest_is_delivered(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={"app.py": b"one\n"})
    with prepared(repo) as ws:
        (ws.temp_dir / "repo/app.py").write_bytes(b"two\n")
        _dig(ws.temp_dir / "repo", DEEPER_THAN_PATHS)
        deepest = "repo/" + "/".join(["d"] * DEEPER_THAN_PATHS) + "/deepest"
        assert ws.changes().not_in_patch() == [(deepest, "its path is too long for git")]
        assert b"+two" in ws.changes().patch()
        assert dict(ws.deliver(delivery()).left) == {deepest: "its path is too long for git"}
        assert git(repo, "show", "agent/x:app.py") == "two"


@needs_overlay
def test_thousands_of_nested_folders_below_an_overlay_become_a_plain_copy(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    _dig(host, DEEPER_THAN_PATHS)
    (host / "modes").mkdir(mode=0o750)
    (host / "modes/link").symlink_to("../d")
    top = os.open(tmp_path, READ_DIR)
    try:
        with section_of(host, tmp_path / "home") as section:
            (section.temp_dir / "src").mkdir(exist_ok=True)
            _dig(section.temp_dir / "src", DEEPER_THAN_PATHS, "new")
            changed = [change.path for change in section.changes()]
            assert section.make_whole()
            assert [change.path for change in section.changes()] == changed == [f"src/{'d/' * DEEPER_THAN_PATHS}new"]
            assert _is_there(section.temp_dir / "src", "/".join(["d"] * DEEPER_THAN_PATHS) + "/deepest")
            assert stat.S_IMODE((section.temp_dir / "src/modes").stat().st_mode) == 0o750
            assert (section.temp_dir / "src/modes/link").readlink() == Path("../d")
    finally:
        for name in ("host", "home"):
            remove_tree(top, name)
        os.close(top)


def test_every_folder_is_looked_at_once_for_what_git_takes_for_a_repository() -> None:
    asked: list[str] = []
    names = {"a/b": {"HEAD", "objects", "refs"}, "a/.git/x": {"head", "commondir"}}

    def entries(folder: str) -> set[str]:
        asked.append(folder)
        return names.get(folder, set())

    repositories = PlantedRepositories(entries)
    deep = "/".join(["d"] * MUCH_DEEPER)
    assert {repositories.around(f"{deep}/{name}") for name in ("one", "two")} == {None}
    assert repositories.around("a/b/config") == "a/b"
    assert repositories.around("a/b/c/d") == "a/b"
    assert repositories.around("a/b") is None
    assert repositories.around("a/.git/x/config") is None
    assert len(asked) == len(set(asked)) == MUCH_DEEPER + 3
