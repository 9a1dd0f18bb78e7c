"""A stored run that was copied to another machine: its folder and its project lie at the same paths, on other disks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import WorkspaceConflictError, WorkspaceError
from toolkit.runs import StoredRun, load_run, run
from toolkit.testing import FakeCLI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("one\ntwo\nthree\nfour\n")
    (folder / "src" / "same.py").write_text("same\n")
    (folder / "gone.txt").write_text("gone\n")
    (folder / "large.bin").write_bytes(os.urandom(2 << 20))
    (folder / "touched.bin").write_bytes(b"\0" * (2 << 20))
    (folder / "link").symlink_to("src")
    os.utime(folder / "large.bin", (1_000_000, 1_000_000))
    os.utime(folder / "touched.bin", (1_000_000, 1_000_000))
    return folder


async def _done(project: Path, home: Path) -> StoredRun:
    section = WorkspaceSection([HostMount(project)], [project.parent])

    def work(arguments: dict[str, Any]) -> str:
        copy = section.temp_dir / "project"
        (copy / "src" / "app.py").write_text("one\nTWO\nthree\nfour\n")
        (copy / "gone.txt").unlink()
        (copy / "new.txt").write_text("new\n")
        times = (copy / "touched.bin").stat()
        with (copy / "touched.bin").open("r+b") as file:
            file.write(b"hidden")  # and nobody is to see it by size or time
        os.utime(copy / "touched.bin", ns=(times.st_atime_ns, times.st_mtime_ns))
        return "done"

    cli = FakeCLI([tool_use("Bash", command="x")], [text("done")], tools={"Bash": work})
    await run("go", workspace=section, transport=cli, run_id="one", home=home)
    return load_run("one", home)


def _move(folder: Path, to: Path) -> None:
    """Carry a folder to another machine, as tar does: every file is a new one."""
    to.mkdir()
    packed = subprocess.run(["tar", "-C", folder, "-cf", "-", "."], capture_output=True, check=True, timeout=60)
    subprocess.run(["tar", "-C", to, "-xpf", "-"], input=packed.stdout, check=True, timeout=60)
    shutil.rmtree(folder)


CHANGED = ["project/gone.txt", "project/new.txt", "project/src/app.py", "project/touched.bin"]


async def test_a_run_that_was_copied_to_another_machine_is_told_as_it_was(project: Path, tmp_path: Path) -> None:
    stored = await _done(project, tmp_path / "home")
    assert [one.path for one in stored.changes()] == CHANGED
    patch = stored.diff()
    _move(tmp_path / "home", tmp_path / "other")
    _move(project, tmp_path / "elsewhere")
    copied = load_run("one", tmp_path / "other")
    assert Path(copied.facts["workspace"]).parent == copied.folder
    assert [one.path for one in copied.changes()] == CHANGED
    assert b"+TWO" in patch
    assert b"+TWO" in copied.changes().of_kind("modified").patch()
    assert copied.result().text == "done"


async def test_it_is_applied_to_the_project_that_lies_there(project: Path, tmp_path: Path) -> None:
    await _done(project, tmp_path / "home")
    _move(tmp_path / "home", tmp_path / "other")
    _move(project, tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(project)
    app = project / "src" / "app.py"
    app.write_text(app.read_text() + "five\n")
    copied = load_run("one", tmp_path / "other")
    copied.apply(paths=["project/src/app.py", "project/gone.txt", "project/new.txt"])
    assert app.read_text() == "one\nTWO\nthree\nfour\nfive\n"
    assert (project / "new.txt").exists()
    assert not (project / "gone.txt").exists()
    assert [one.path for one in copied.changes()] == ["project/touched.bin"]
    assert copied.undo_apply()
    assert app.read_text() == "one\ntwo\nthree\nfour\nfive\n"


async def test_what_differs_from_what_the_agent_was_given_is_a_conflict(project: Path, tmp_path: Path) -> None:
    await _done(project, tmp_path / "home")
    _move(tmp_path / "home", tmp_path / "other")
    (project / "gone.txt").write_text("of another branch\n")
    with pytest.raises(WorkspaceConflictError):
        load_run("one", tmp_path / "other").apply(paths=["project/gone.txt"])
    assert (project / "gone.txt").exists()


async def test_a_folder_that_replaced_the_workspace_alone_is_still_refused(project: Path, tmp_path: Path) -> None:
    stored = await _done(project, tmp_path / "home")
    place = Path(stored.facts["workspace"])
    shutil.copytree(place, tmp_path / "swapped", symlinks=True)
    shutil.rmtree(place)
    (tmp_path / "swapped").rename(place)
    with pytest.raises(WorkspaceError, match="replaced by another one"):
        stored.changes()


async def test_an_overlay_that_was_copied_without_what_it_lies_over_says_so(project: Path, tmp_path: Path) -> None:
    stored = await _done(project, tmp_path / "home")
    facts = next(stored.folder.glob(".toolkit-workspace-*.state")) / "owner.json"
    said = json.loads(facts.read_text())
    facts.write_text(json.dumps({**said, "below": str(tmp_path / "nowhere"), "lay_over": str(tmp_path / "nowhere")}))
    _move(tmp_path / "home", tmp_path / "other")
    with pytest.raises(WorkspaceError, match="lies over a copy"):
        load_run("one", tmp_path / "other").changes()
