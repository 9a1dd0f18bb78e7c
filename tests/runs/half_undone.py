"""A run whose changes were applied, and whose undo was killed half way: the host is mixed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from toolkit.runs import StoredRun, load_run, run
from toolkit.testing import FakeCLI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

ROOT = Path(__file__).parents[2]
OLD, NEW = {f"{name}.txt": f"old {name}\n" for name in "abc"}, {f"{name}.txt": f"new {name}\n" for name in "abc"}
_UNDO = """
import os, signal, sys
from pathlib import Path
from toolkit.runs import load_run

def dying(real):
    def call(*given, **options):
        if len({file.read_text()[:3] for file in Path(sys.argv[2]).glob("*.txt")}) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **options)
    return call

for name in ("rename", "replace", "link", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
load_run(sys.argv[1]).undo_apply()
"""
"""Killed at the first change to a name once the host is mixed."""


def project_in(folder: Path) -> Path:
    """A project on the host with all files as they were."""
    project = folder / "shop"
    project.mkdir()
    for name, data in OLD.items():
        (project / name).write_text(data, encoding="utf-8")
    return project


async def applied_run(project: Path, *, home: Path | None = None) -> StoredRun:
    """A run that changed every file, and was applied."""
    section = WorkspaceSection([HostMount(project)], [project.parent])

    def work(arguments: dict[str, Any]) -> str:
        for name, data in NEW.items():
            (section.temp_dir / project.name / name).write_text(data, encoding="utf-8")
        return "done"

    cli = FakeCLI([tool_use("Bash", command="edit")], [text("done")], tools={"Bash": work})
    stored = load_run((await run("Edit.", workspace=section, transport=cli, home=home)).run, home)
    stored.apply()
    assert files_of(project) == NEW
    return stored


async def half_undone_run(project: Path, *, home: Path | None = None) -> StoredRun:
    """The same, with an undo that was killed after it had put the first file back."""
    stored = await applied_run(project, home=home)
    kill_undo(stored, project)
    return stored


def kill_undo(stored: StoredRun, project: Path) -> None:
    """Begin to take back what was applied, and die half way."""
    home = {"TOOLKIT_HOME": str(stored.folder.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", _UNDO, stored.id, str(project)],
        cwd=ROOT, env={**os.environ, **home}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert files_of(project) not in (OLD, NEW)


def files_of(project: Path) -> dict[str, str]:
    """What the files of a project hold, without our own that are half written."""
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(project.glob("*.txt"))}
