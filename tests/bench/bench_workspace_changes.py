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

from tests.bench._common import Row, interleave, killed_after
from toolkit.workspace import HostMount, WorkspaceSection

FILES = 25_000
PER_FOLDER = 20
EDITS = 40
ROUNDS = 15


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        make_small_files(top / "host")
        shutil.copytree(top / "host", top / "repository")
        make_repository(top / "repository")
        with WorkspaceSection([HostMount(top / "host", "src")], [top], parent=top) as ws:
            ws.snapshot("start")  # also waits until the bytes are kept, so that nothing runs beside the clock
            edited = edit(ws.temp_dir / "src")
            assert edit(top / "repository") == edited
            assert len(ws.changes()) == len(status(top / "repository").splitlines()) == EDITS
            pair = interleave(ws.changes, lambda: status(top / "repository"), rounds=ROUNDS)
            yield pair.row(f"changes() after {EDITS} edits in {FILES:,} files / git status", 1.5)
            pair = interleave(lambda: ws.snapshot("s"), lambda: _write_tree(top / "repository"), rounds=5)
            yield pair.row(f"snapshot() after {EDITS} edits in {FILES:,} files / git add + write-tree", 1.5)


def make_repository(folder: Path) -> None:
    """Everything in a folder as one commit."""
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "base")


def make_small_files(root: Path) -> None:
    rng = random.Random(4)
    for number in range(FILES // PER_FOLDER):
        folder = root / f"package{number % 40}" / f"module{number % 200}" / f"part{number}"
        folder.mkdir(parents=True)
        for file in range(PER_FOLDER):
            (folder / f"file_{file}.py").write_bytes(rng.randbytes(rng.randrange(100, 4000)).hex().encode())


def edit(root: Path) -> list[str]:
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
    words, env = ["git", *arguments], {**os.environ, **environment}
    with subprocess.Popen(words, cwd=folder, env=env, text=True, stdout=subprocess.PIPE) as git:
        assert git.stdout is not None
        with killed_after(git, 120):
            said, code = git.stdout.read(), git.wait()
    assert code == 0, words
    return said


def status(folder: Path) -> str:
    return _git(folder, "status", "--porcelain", "--untracked-files=all")


def _write_tree(folder: Path) -> str:
    """All of the tree as one git object, with an index of its own so that the next round finds the same work."""
    index = folder / ".git" / "index"
    other = shutil.copy2(index, index.with_name("other-index"))
    _git(folder, "add", "-A", GIT_INDEX_FILE=str(other))
    return _git(folder, "write-tree", GIT_INDEX_FILE=str(other))
