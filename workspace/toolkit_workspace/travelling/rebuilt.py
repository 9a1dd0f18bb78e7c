"""Make a workspace of what came back: only what the agent changed, and a record of just that.

What was packed here decides everything but the agent's own bytes: which mounts there are, what each file was and where
it belongs on the host. So the workspace can be compared, applied and delivered as one that was worked in here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit._base.handles import READ_DIR, make_folders, open_beneath
from toolkit_workspace.git import by_itself, point_inside
from toolkit_workspace.record import Record, Row, Stamp, join
from toolkit_workspace.record.record import NO_MOUNT, NO_STAMP
from toolkit_workspace.shown import NOTHING, Shown
from toolkit_workspace.travelling.selected import mount_name
from toolkit_workspace.workspace import Workspace

Bases = Callable[[Iterable[bytes]], Iterator[tuple[bytes, Iterable[bytes]]]]
"""Gives the packed bytes of some files, by the paths they were packed under."""


@dataclass(frozen=True)
class Returned:
    """What came back, and what it is compared with."""

    tree: Path
    """A folder with the changed files, which becomes the workspace."""
    paths: Collection[bytes]
    """All that is in it, folders before what is in them."""
    gone: Collection[bytes]
    """What the agent removed."""
    as_given: Collection[bytes]
    """Those of the paths whose modes are those they were packed with."""
    record: Record
    """What was packed."""
    facts: dict[str, Any]
    """What was written down when it was packed."""
    bases: Bases


def rebuild(parent: Path, returned: Returned) -> Path:
    """A kept workspace below `parent`; its folder.

    Raises:
        WorkspaceError: it cannot be made.
        OSError: something cannot be written.
    """
    workspace = Workspace.create(parent, returned.record.mounts)
    try:
        returned.tree.rename(workspace.folder)
        workspace.folder.chmod(0o700)
        root = os.open(workspace.folder, READ_DIR)
        try:
            for mount in returned.record.mounts:
                _make_way(root, mount.at if mount.name is None else mount.at.rpartition(b"/")[0])
            _fill_record(workspace, root, returned)
            shown = _shown(workspace, root, Shown.from_json(returned.facts["shown"]))
            workspace.record.seal(root)
            workspace.record.root_stamp = (0, workspace.record.root_stamp[1])  # so that it is listed
        finally:
            os.close(root)
        workspace.save()
        workspace.write_facts(**{**returned.facts, "shown": shown.to_json()}, kept=True)
    except BaseException as error:
        workspace.remove_after(error)
        raise
    workspace.release()
    return workspace.folder


def _make_way(root: int, folder: bytes) -> None:
    """Make the folder of a mount, unless the agent has put something else in its place."""
    try:
        os.close(make_folders(root, folder))
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise


def _fill_record(workspace: Workspace, root: int, returned: Returned) -> None:
    """A row for everything that was packed and is there, or is gone; with the bytes it had."""
    packed, record = returned.record, workspace.record
    record.created_ns = packed.created_ns
    aside = tuple(map(os.fsencode, Shown.from_json(returned.facts["shown"]).aside))
    below = tuple(place + b"/" for place in aside)
    here = [path for path in returned.paths if path not in aside and not path.startswith(below)]
    rows = [row for path in dict.fromkeys([*here, *returned.gone]) if (row := packed.get(path)) is not None]
    places = {_packed_as(packed, row): row for row in rows if row.kind == "f"}
    starts = {path: workspace.store.append(pieces) for path, pieces in returned.bases(places)}
    known = {row.path for row in rows}
    for path in _on_the_way(packed) - known:  # without a stamp, so that what else is in them is seen
        record.add(Row(path, b"", None, "d", NO_MOUNT, stat.S_IFDIR | 0o700, NO_STAMP, NO_STAMP))
    for row in rows:
        base = starts.get(_packed_as(packed, row), -1) if row.kind == "f" else -1
        record.add(row._replace(base=base, copy=Stamp(row.copy.size, row.copy.mtime_ns, 0, 0)))
        if row.path in returned.as_given:
            _give_mode(root, row)


def _on_the_way(packed: Record) -> set[bytes]:
    """The folders that only lead to mounts."""
    above = [mount.at.split(b"/")[:-1] for mount in packed.mounts if mount.at]
    return {b"/".join(parts[:depth]) for parts in above for depth in range(1, len(parts) + 1)}


def _packed_as(packed: Record, row: Row) -> bytes:
    name = packed.mounts[row.mount].name
    return join(mount_name(row.mount), row.host_path if name is None else name)


def _give_mode(root: int, row: Row) -> None:
    handle = open_beneath(root, row.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_IFMT(os.fstat(handle).st_mode) == stat.S_IFMT(row.mode):
            os.fchmod(handle, stat.S_IMODE(row.mode) & 0o777)
    finally:
        os.close(handle)


def _shown(workspace: Workspace, root: int, shown: Shown) -> Shown:
    """The git folders borrow from this machine's objects again."""
    nothing = workspace.state_dir / NOTHING
    nothing.touch(mode=0o644)
    gits = tuple(by_itself(one, nothing) for one in shown.git)
    for one in gits:
        point_inside(root, one)
    return replace(shown, git=gits)
