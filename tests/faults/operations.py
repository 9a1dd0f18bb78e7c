"""What is done to a plain copy or a run, each through public doors only.

`arrange` sets the scene in a process of its own, `act` is what goes wrong: it is
all that is counted, from opening the workspace to letting go of it.

    TOP/host    the user's files
    TOP/made    where workspaces are made
    TOP/home    where runs are stored, and copies that are kept
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workspace.overlays import as_agent
from toolkit import start
from toolkit.testing import FakeCLI, Turn, text
from toolkit.workspace import HostMount, WorkspaceSection

LINES = b"".join(b"line %d\n" % number for number in range(20))
DEPTH = 50

Node = tuple[str, int, bytes, tuple[tuple[str, bytes], ...]]
"""Kind, permissions, bytes or target, attributes."""
Tree = dict[str, Node]
Facts = dict[str, Any]
Say = Callable[[str], None]
"""Tells the outside something at once, so that it is known even if the process is killed next."""


def tree_of(root: Path) -> Tree:
    """Everything below a folder as a value, links not followed."""
    tree: Tree = {}
    for where, folders, names in os.walk(root):
        for name in [*folders, *names]:
            place = Path(where, name)
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                found: Node = ("l", 0, os.fsencode(place.readlink()), ())
            elif stat.S_ISDIR(mode):
                found = ("d", 0, b"", ())
            else:
                attributes = tuple((one, os.getxattr(place, one)) for one in sorted(os.listxattr(place)))
                found = ("f", mode & 0o777, place.read_bytes(), attributes)
            tree[place.relative_to(root).as_posix()] = found
    return tree


def write_tree(root: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files below a folder; a str is a link's target."""
    for path, data in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, str):
            place.symlink_to(data)
        else:
            place.write_bytes(data)


def seen(section: WorkspaceSection) -> Tree:
    """What an agent sees of a prepared workspace."""
    with as_agent(section) as whole:
        return tree_of(whole)


def workspace_of(top: Path) -> Path:
    """The one workspace there is."""
    (found,) = (top / "made").glob("toolkit-workspace-*")
    return found


def _section(top: Path) -> WorkspaceSection:
    return WorkspaceSection([HostMount(top / "host", "src")], [top], parent=top / "made", keep=True).prepare()


@dataclass(frozen=True)
class Kind:
    """Of what kind the workspaces of an operation are."""

    make: Callable[[Path], WorkspaceSection]
    """Prepare one of the host, to be kept."""
    look: Callable[[Path], Tree]
    """What an agent sees of one that nobody has open."""


COPIES = Kind(_section, tree_of)


@dataclass(frozen=True)
class Operation:
    """Something to do, and what is arranged before it."""

    arrange: Callable[[Path], Facts]
    """Set the scene; the facts go to `act` and to the judge."""
    act: Callable[[Path, Facts, Say], Any]
    """Do it, and return what was told."""
    kind: Kind = COPIES


def write_host(top: Path) -> Facts:
    """A host with one of everything that can change."""
    (top / "made").mkdir()
    files: dict[str, bytes | str] = {
        "app.py": LINES,
        "gone.txt": b"gone\n",
        "moved.txt": b"moved\n" * 5,
        "run.sh": b"#!/bin/sh\n",
        "old/inner": b"inner\n",
        "same/deep/as it was": b"same\n",
        "file": b"becomes a folder\n",
        "folder/x": b"becomes a file\n",
        "link": "app.py",
    }
    write_tree(top / "host", files)
    os.setxattr(top / "host/app.py", "user.origin", b"kept")
    return {"host": tree_of(top / "host")}


def grow_older() -> None:
    """A file that was changed just now is read once more than others."""
    time.sleep(0.03)


def older_host(top: Path) -> Facts:
    """A host a moment after it was written."""
    facts = write_host(top)
    grow_older()
    return facts


def edited(top: Path, kind: Kind = COPIES) -> Facts:
    """A workspace in which the agent made every kind of change, one of them to be merged."""
    write_host(top)
    with kind.make(top) as section, as_agent(section) as whole:
        _edit(whole / "src")
    (top / "host/app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    return _as_they_are(top, kind)


def _edit(src: Path) -> None:
    (src / "app.py").write_bytes(LINES.replace(b"line 15\n", b"agent\n"))
    (src / "gone.txt").unlink()
    (src / "moved.txt").rename(src / "here.txt")
    (src / "run.sh").chmod(0o755)
    shutil.rmtree(src / "old")
    (src / "file").unlink()
    shutil.rmtree(src / "folder")
    (src / "link").unlink()
    write_tree(
        src, {"file/inside": b"in\n", "new/deep/a": b"a\n", "folder": b"a file now\n", "link": "here.txt", "late": b""}
    )


def _as_they_are(top: Path, kind: Kind = COPIES) -> Facts:
    workspace = workspace_of(top)
    return {"host": tree_of(top / "host"), "workspace": kind.look(workspace), "path": str(workspace)}


def applied(top: Path, kind: Kind = COPIES) -> Facts:
    """The same, applied."""
    before = edited(top, kind)
    with WorkspaceSection.open(before["path"]) as section:
        section.apply()
    return {**_as_they_are(top, kind), "earlier": before["host"]}


def remembered(top: Path, kind: Kind = COPIES) -> Facts:
    """The same with a snapshot 'one' of it, and changed again since."""
    before = edited(top, kind)
    with WorkspaceSection.open(before["path"]) as section:
        section.snapshot("one")
        with as_agent(section) as whole:
            _edit_again(whole / "src")
    return {**_as_they_are(top, kind), "one": before["workspace"]}


def _edit_again(src: Path) -> None:
    (src / "new/deep/a").write_bytes(b"later\n")
    (src / "gone.txt").write_bytes(b"back again\n")
    (src / "same/deep/as it was").unlink()
    shutil.rmtree(src / "file")


def _deep(top: Path) -> Facts:
    """A workspace with one changed file, many folders down."""
    (top / "made").mkdir()
    place = top / "host" / "/".join(["d"] * DEPTH)
    write_tree(place, {"deepest": b"host\n"})
    with _section(top) as section:
        changed = section.temp_dir / "src" / place.relative_to(top / "host") / "deepest"
    changed.write_bytes(b"agent\n")
    return _as_they_are(top)


def prepare(top: Path, facts: Facts, say: Say, kind: Kind = COPIES) -> Any:
    """Where a workspace is then, what it lies over, and what was left out."""
    with kind.make(top) as section:
        left_out = [one.path for _, one in section.left_out]
        return {"path": str(section.temp_dir), "over": section.filled_by[1], "left_out": left_out}


def changes_of(section: WorkspaceSection) -> list[str]:
    """What a workspace tells as changed, one line for each."""
    return sorted(f"{change.kind} {change.path}" for change in section.changes())


def _changes(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        return changes_of(section)


def apply(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        return sorted(f"{one.action} {one.path}" for one in section.apply().changes)


def undo(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        return section.undo_apply()


def _snapshot(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        return section.snapshot("two").changed


def rewind(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        section.rewind("one")
        return "rewound"


def play_run(top: Path, name: str, say: Say) -> str:
    """A run of two turns whose every event is said as it is shown; the text it ends with."""

    async def played() -> str:
        cli = FakeCLI(Turn([text("one two")]), Turn([text("three")]))
        async with start("go", transport=cli, home=top / "home", run_id=name) as live:

            async def listen() -> None:
                async for event in live:
                    say(event.to_json())

            listening = asyncio.create_task(listen())
            await live.result()
            await live.send("on")
            result = await live.result()
        await listening
        return result.text

    return asyncio.run(played())


def _log(top: Path, facts: Facts, say: Say) -> Any:
    return play_run(top, "run-1", say)


def _nothing(top: Path) -> Facts:
    (top / "home").mkdir()
    return {}


OPERATIONS = {
    "prepare": Operation(older_host, prepare),
    "changes": Operation(edited, _changes),
    "apply": Operation(edited, apply),
    "undo": Operation(applied, undo),
    "snapshot": Operation(remembered, _snapshot),
    "rewind": Operation(remembered, rewind),
    "log": Operation(_nothing, _log),
}
DEEP_OPERATIONS = {
    "changes": Operation(_deep, _changes),
    "apply": Operation(_deep, apply),
    "snapshot": Operation(_deep, _snapshot),
}
"""The same many folders down, where a handle for each folder may be too many."""
