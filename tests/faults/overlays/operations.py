"""What is done to a workspace over a kept copy, through public doors only: what plain copies have, and some more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.operations import (
    Facts,
    Kind,
    Operation,
    Say,
    Tree,
    applied,
    apply,
    changes_of,
    edited,
    grow_older,
    older_host,
    prepare,
    remembered,
    rewind,
    seen,
    tree_of,
    undo,
    write_tree,
)
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.pristine import KeptCopies

AGAIN = "over a kept copy of "
"""What a workspace says that lies over the copy of an earlier one."""


def _section(top: Path) -> WorkspaceSection:
    mount = HostMount(top / "host", "src")
    section = WorkspaceSection([mount], [top], parent=top / "made", keep=True, backend="overlay")
    return section.prepare(home=top / "home")


def _section_brought_up_to_date(top: Path) -> WorkspaceSection:
    """One over a kept copy that is older than the host."""
    _section(top).cleanup()
    (top / "host/later").write_bytes(b"later\n")
    section = _section(top)
    assert section.filled_by[1].startswith(AGAIN), section.filled_by
    return section


def _look(workspace: Path) -> Tree:
    with WorkspaceSection.open(workspace) as section:
        return seen(section)


OVERLAYS = Kind(_section, _look)
OLDER = Kind(_section_brought_up_to_date, _look)


def copies_of(top: Path) -> dict[str, Tree]:
    """Every kept copy, by its name."""
    return {kept.folder.name: tree_of(kept.tree) for kept in KeptCopies(top / "home").all()}


def _with_copies(arrange: Callable[[Path], Facts]) -> Callable[[Path], Facts]:
    """The same scene, and which copies are kept then."""

    def arranged(top: Path) -> Facts:
        return {**arrange(top), "copies": copies_of(top)}

    return arranged


def _outdated(top: Path) -> Facts:
    """A kept copy, and a host with every kind of change since."""
    older_host(top)
    _section(top).cleanup()
    host = top / "host"
    (host / "app.py").write_bytes(b"other\n")
    (host / "gone.txt").unlink()
    (host / "run.sh").chmod(0o755)
    shutil.rmtree(host / "old")
    (host / "file").unlink()
    write_tree(host, {"old": b"a file now\n", "file/inside": b"in\n", "brand/new": b"new\n", "second link": "run.sh"})
    grow_older()
    return {"host": tree_of(host)}


def _told(top: Path) -> Facts:
    """A workspace whose agent made every kind of change, and what is told of them."""
    facts = edited(top, OLDER)
    with WorkspaceSection.open(facts["path"]) as section:
        return {**facts, "changes": changes_of(section)}


def _overtaken(top: Path) -> Facts:
    """A workspace whose agent made every kind of change, and a host that changed meanwhile."""
    facts = edited(top, OLDER)
    host = top / "host"
    (host / "same/deep/as it was").write_bytes(b"host edits\n")
    (host / "later").unlink()
    write_tree(host, {"fresh": b"fresh\n"})
    grow_older()
    return {**facts, "host": tree_of(host)}


def _make_whole(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        return section.make_whole()


def _update(top: Path, facts: Facts, say: Say) -> Any:
    with WorkspaceSection.open(facts["path"]) as section:
        return {event.path: event.kind for event in section.update_from_host()}


def _over(arrange: Callable[[Path], Facts], act: Callable[[Path, Facts, Say], Any]) -> Operation:
    return Operation(_with_copies(arrange), act, OVERLAYS)


OPERATIONS = {
    "overlay-first": _over(older_host, partial(prepare, kind=OVERLAYS)),
    "overlay-again": _over(_outdated, partial(prepare, kind=OVERLAYS)),
    "overlay-whole": _over(_told, _make_whole),
    "overlay-apply": _over(partial(edited, kind=OLDER), apply),
    "overlay-undo": _over(partial(applied, kind=OLDER), undo),
    "overlay-rewind": _over(partial(remembered, kind=OLDER), rewind),
    "overlay-update": _over(_overtaken, _update),
}
