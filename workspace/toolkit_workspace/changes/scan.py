"""Find what differs between a workspace and its record.

What was touched is decided by its contents: a file whose bytes are as before is not
a change, whatever its stamps; one whose size and mtime were set back is one. Where
the recorded bytes are lost, a touched file counts as changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from toolkit_workspace.looking import Touched, touched_above, touched_in
from toolkit_workspace.overlay import moved_from
from toolkit_workspace.record.content import Hosts, Node, node_of
from toolkit_workspace.record.record import Stamp
from toolkit_workspace.record.trouble import unreadable
from toolkit_workspace.workspace import Workspace


@dataclass(frozen=True)
class Pair:
    """Two versions of one path."""

    path: bytes
    old: Node | None
    new: Node | None
    old_path: bytes | None = None
    """Where it was before, if it was moved."""

    @cached_property
    def has_same_bytes(self) -> bool:
        return self.old is not None and self.new is not None and self.old.has_bytes_of(self.new)

    @property
    def differs(self) -> bool:
        """Whether the versions differ in kind, permissions, target or bytes."""
        if self.old is None or self.new is None:
            return self.old is not self.new
        if self.old.kind != self.new.kind:
            return True
        if self.old.kind == "l":
            return self.old.target != self.new.target
        return bool((self.old.mode ^ self.new.mode) & 0o7777) or not self.has_same_bytes


def scan(workspace: Workspace, root: int, hosts: Hosts) -> list[Pair]:
    """Every path that differs from what was recorded, sorted by path; one pair a path.

    Raises:
        WorkspaceError: something cannot be read, so nobody can say whether it differs.
    """
    touched = _looked_at(workspace, root)
    return [pair for pair in _pairs(workspace, touched, hosts) if pair.differs]


def settle(workspace: Workspace) -> None:
    """Take what was touched, and is still what was recorded, for untouched: files that got another owner, say.

    Only while nobody works in it. Raises as `scan` does.
    """
    record = workspace.record
    with Hosts(record, workspace.store) as hosts, workspace.opened() as root:
        touched = _looked_at(workspace, root)
        known = {path: one for path, one in touched.items() if one.is_known and one.now is not None}
        for pair in _pairs(workspace, known, hosts):
            row, now = record.get(pair.path), known[pair.path].now
            if row is not None and now is not None and row.kind != "d" and not pair.differs:
                record.put(row._replace(copy=Stamp.of(now)))


def _looked_at(workspace: Workspace, root: int) -> dict[bytes, Touched]:
    try:
        with workspace.record.lock:
            if workspace.below is None:
                return touched_in(workspace.record, root)
            return touched_above(workspace.record, root, workspace.below)
    except OSError as error:
        raise unreadable(error.filename or str(workspace.folder), error) from error


def _pairs(workspace: Workspace, touched: Mapping[bytes, Touched], hosts: Hosts) -> list[Pair]:
    """Both versions of every path that was touched."""
    record = hosts.record
    rows = [record.get(path) for path, one in touched.items() if one.is_known]
    old = {row.path: hosts.recorded(row) for row in rows if row is not None}
    new = {path: node_of(one.now, one.target, workspace.open, path) for path, one in touched.items() if one.now}
    if workspace.below is not None:
        new |= _moved(workspace.below, old, new)
    return [Pair(path, old.get(path), new.get(path)) for path in sorted(touched)]


def _moved(below: Path, old: Mapping[bytes, Node], new: Mapping[bytes, Node]) -> dict[bytes, Node]:
    """What was moved out of the kept copy, with the inodes that it had there: in a plain copy it keeps them."""
    gone = [path for path, node in old.items() if node.kind == "f" and not _is_file(new.get(path))]
    come = {path: node.content.open for path, node in new.items() if node.content and not _is_file(old.get(path))}
    if not gone or not come:
        return {}
    origins = moved_from(below, gone, come)
    return {path: replace(new[path], inode=old[origin].inode) for path, origin in origins.items()}


def _is_file(node: Node | None) -> bool:
    return node is not None and node.kind == "f"
