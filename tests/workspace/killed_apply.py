"""Kill an apply at every step it takes, then resume or undo it; run as a program of its own.

Each round copies a small tree, lets a child process apply its changes and ends the
child with SIGKILL right before its n-th change to any file system entry, for n = 1,
2, 3 … until a child gets through. What is left is then resumed or undone by the
parent. Prints one JSON line: the number of kill points and every wrong result.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.workspace.copies import Tree, make_tree, prepare, tree_of
from toolkit.workspace import WorkspaceSection

LINES = b"".join(b"line %d\n" % n for n in range(20))
COUNTED = ("rename", "replace", "link", "unlink", "symlink", "mkdir", "rmdir", "fsync", "fchmod", "write", "utime")
MOST_POINTS = 1000


def scene(top: Path) -> WorkspaceSection:
    """A workspace with every kind of change, one of them to be merged."""
    shutil.rmtree(top, ignore_errors=True)
    files: dict[str | bytes, bytes | str] = {
        "app.py": LINES,
        "gone.txt": b"gone\n",
        "moved.txt": b"moved\n" * 5,
        "run.sh": b"#!/bin/sh\n",
        "old/inner": b"inner\n",
        "file": b"becomes a folder\n",
        "folder/x": b"becomes a file\n",
        "link": "app.py",
    }
    ws = prepare(make_tree(top / "host", files))
    (top / "host/app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    src = ws.temp_dir / "src"
    (src / "app.py").write_bytes(LINES.replace(b"line 15\n", b"agent\n"))
    (src / "gone.txt").unlink()
    (src / "moved.txt").rename(src / "here.txt")
    (src / "run.sh").chmod(0o755)
    shutil.rmtree(src / "old")
    (src / "file").unlink()
    make_tree(src, {"file/inside": b"in\n", "new/deep/a": b"a\n"})
    shutil.rmtree(src / "folder")
    (src / "folder").write_bytes(b"a file now\n")
    (src / "link").unlink()
    (src / "link").symlink_to("here.txt")
    return ws


def die_before(point: int) -> None:
    """Make the n-th call that changes anything the last moment of this process."""
    left = [point]

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in COUNTED:
        setattr(os, name, counting(getattr(os, name)))


def killed_at(ws: WorkspaceSection, point: int, work: Callable[[WorkspaceSection], object]) -> bool:
    """Whether a child doing `work` was killed before its n-th call."""
    child = os.fork()
    if child == 0:
        try:
            die_before(point)
            work(ws)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"the child failed at point {point}")
    return os.WIFSIGNALED(status)


def after(ws: WorkspaceSection) -> tuple[Tree, int]:
    return tree_of(ws.temp_dir.parent / "host"), len(ws.changes())


Finish = Callable[[WorkspaceSection], bool]
Work = Callable[[WorkspaceSection], object]


def rounds(top: Path, finish: Finish, work: Work, wanted: str, *, begun: bool) -> dict[str, Any]:
    """Kill `work` at every point and `finish` it; with `begun`, the changes are applied before."""
    ws = scene(top)
    nothing = (tree_of(top / "host"), len(ws.changes()))
    ws.apply()
    everything = (tree_of(top / "host"), 0)
    wrong: list[tuple[int, str, bool]] = []
    found: set[str] = set()
    for point in range(1, MOST_POINTS):
        ws = scene(top)
        if begun:
            ws.apply()
        if not killed_at(ws, point, work):
            return {"points": point - 1, "wrong": wrong, "found": sorted(found)}
        finished = finish(ws)
        result = after(ws)
        outcome = "all" if result == everything else "nothing" if result == nothing else "half"
        found.add(outcome)
        if outcome == "half" or (finished and outcome != wanted):
            wrong.append((point, outcome, finished))
    raise SystemExit("the child never got through")


def main(folder: str, what: str) -> None:
    choices: dict[str, tuple[Finish, Work, str]] = {
        "resume": (WorkspaceSection.resume_apply, WorkspaceSection.apply, "all"),
        "undo": (WorkspaceSection.undo_apply, WorkspaceSection.apply, "nothing"),
        "undo again": (WorkspaceSection.undo_apply, WorkspaceSection.undo_apply, "nothing"),
        "apply again": (WorkspaceSection.resume_apply, WorkspaceSection.undo_apply, "all"),
    }
    print(json.dumps(rounds(Path(folder) / "scene", *choices[what], begun=what.endswith("again"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
