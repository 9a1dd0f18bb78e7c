"""What the next workspace of the same mounts costs, against `cp -a`; and what it costs to see what was written in one.

In memory where there is room for it, as for the first workspace.
"""

from __future__ import annotations

import gc
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench._common import Pair, Row, child_env, interleave, left_open
from tests.bench.bench_workspace_changes import EDITS, FILES, edit, make_repository, make_small_files, status
from tests.bench.bench_workspace_prepare import make_tree, roomy_memory
from toolkit._base.layered import why_no_layers
from toolkit.workspace import HostMount, WorkspaceSection

LARGE = 30_000
CHANGED = 10
ROUNDS = 15


def main() -> Iterator[Row]:
    again = f"prepare {LARGE:,} files again, {CHANGED} changed / cp -a"
    seen = f"changes() of an overlay, {EDITS} edits in {FILES:,} files / git status"
    top = Path(tempfile.mkdtemp(prefix="bench-again-", dir=roomy_memory()))
    try:
        if (why := why_no_layers(top)) is not None:
            yield left_open(again, 0.1, f"an overlay ({why})")
            yield left_open(seen, 0.3, f"an overlay ({why})")
            return
        make_tree(top / "tree", LARGE, average=8_000)
        yield _again(top).row(again, 0.1, unit="s")
        yield _changes(top).row(seen, 0.3)
    finally:
        subprocess.run(["rm", "-rf", top], check=True)


def _again(top: Path) -> Pair:
    files = sorted((top / "tree").rglob("*.py"))
    pair = Pair([], [])
    _prepared(top, "tree").cleanup()
    for turn in range(-1, ROUNDS):
        for file in files[:CHANGED]:  # what counts is how many differ from the copy that is kept
            file.write_bytes(file.read_bytes() + b"# changed\n")
        sides = [True, False] if turn % 2 == 0 else [False, True]
        for is_ours in sides:
            gc.collect()
            start = time.perf_counter()
            if is_ours:
                section = _prepared(top, "tree")
            else:
                subprocess.run(["cp", "-a", top / "tree", top / "copy"], check=True, env=child_env())
            taken = time.perf_counter() - start
            if is_ours:
                assert section.filled_by[1].startswith("over a kept copy"), section.filled_by
                section.cleanup()
            else:
                subprocess.run(["rm", "-rf", top / "copy"], check=True)
            if turn >= 0:
                (pair.ours if is_ours else pair.theirs).append(taken)
    return pair


def _prepared(top: Path, name: str) -> WorkspaceSection:
    section = WorkspaceSection([HostMount(top / name, "src")], [top], parent=top, backend="overlay")
    return section.prepare(home=top / "home")


def _changes(top: Path) -> Pair:
    make_small_files(top / "host")
    shutil.copytree(top / "host", top / "repository")
    make_repository(top / "repository")
    section = _prepared(top, "host")
    try:
        with section._prepared().whole() as whole:
            edit(Path(f"/proc/self/fd/{whole}") / "src")
        edit(top / "repository")
        assert len(section.changes()) == len(status(top / "repository").splitlines()) == EDITS
        return interleave(section.changes, lambda: status(top / "repository"), rounds=ROUNDS)
    finally:
        section.cleanup()
