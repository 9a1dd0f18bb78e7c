"""What it costs to see an agent's work: `changes()` and `snapshot()` after 40 edits in 25,000 files, against git.

Git gets the same tree as a fresh repository with everything committed and its index warm.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench._common import Row, interleave
from toolkit.workspace import HostMount, WorkspaceSection

FILES = 25_000
PER_FOLDER = 20
EDITS = 40
ROUNDS = 15


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        _make_tree(top / "host")
        shutil.copytree(top / "host", top / "repository")
        _git(top / "repository", "init", "-q")
        _git(top / "repository", "add", "-A")
        _git(top / "repository", "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "base")
        with WorkspaceSection([HostMount(top / "host", "src")], [top], parent=top) as ws:
            ws.snapshot("start")  # also waits until the bytes are kept, so that nothing runs beside the clock
            edited = _edit(ws.temp_dir / "src")
            assert _edit(top / "repository") == edited
            assert len(ws.changes()) == len(_status(top / "repository").splitlines()) == EDITS
            pair = interleave(ws.changes, lambda: _status(top / "repository"), rounds=ROUNDS)
            yield pair.row(f"changes() after {EDITS} edits in {FILES:,} files / git status", 1.5)
            pair = interleave(lambda: ws.snapshot("s"), lambda: _write_tree(top / "repository"), rounds=5)
            yield pair.row(f"snapshot() after {EDITS} edits in {FILES:,} files / git add + write-tree", 1.5)


def _make_tree(root: Path) -> None:
    rng = random.Random(4)
    for number in range(FILES // PER_FOLDER):
        folder = root / f"package{number % 40}" / f"module{number % 200}" / f"part{number}"
        folder.mkdir(parents=True)
        for file in range(PER_FOLDER):
            (folder / f"file_{file}.py").write_bytes(rng.randbytes(rng.randrange(100, 4000)).hex().encode())


def _edit(root: Path) -> list[str]:
    """Change half of the chosen files, remove a quarter and add a quarter, the same in every copy."""
    rng = random.Random(5)
    files = sorted(root.rglob("*.py"))
    chosen = rng.sample(files, EDITS)
    for number, file in enumerate(chosen):
        if number % 4 == 0:
            file.unlink()
        elif number % 4 == 1:
            file.with_name(f"added_{number}.py").write_text(f"added {number}\n", encoding="utf-8")
        else:
            file.write_bytes(file.read_bytes() + b"\nedited = True\n")
    return [file.relative_to(root).as_posix() for file in chosen]


def _git(folder: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def _status(folder: Path) -> str:
    return _git(folder, "status", "--porcelain", "--untracked-files=all")


def _write_tree(folder: Path) -> str:
    """All of the tree as one git object, with an index of its own so that the next round finds the same work."""
    index = folder / ".git" / "index"
    other = shutil.copy2(index, index.with_name("other-index"))
    _git(folder, "add", "-A", GIT_INDEX_FILE=str(other))
    return _git(folder, "write-tree", GIT_INDEX_FILE=str(other))
