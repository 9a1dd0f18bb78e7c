"""Pair what was recorded with what is there now, for every path that really differs.

The scan says what was touched; here contents decide. A file whose bytes are as
before is not a change, whatever its stamps; one whose size and mtime were set
back is one. Where the recorded bytes are lost, a touched file counts as changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.scan import Found, scan
from toolkit_workspace.record.bases import Bases
from toolkit_workspace.record.content import ContentGone, Node, NodeKind
from toolkit_workspace.record.record import Row
from toolkit_workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Pair:
    """Two versions of one path, at least one of which exists."""

    path: bytes
    old: Node | None
    new: Node | None


def compare(workspace: Workspace, bases: Bases) -> list[Pair]:
    """Every path that differs from the record, sorted by path; one pair a path."""
    try:
        with workspace.opened() as root_fd, workspace.record.lock:
            found = scan(workspace.record, root_fd)
    except OSError as error:
        raise WorkspaceError(
            f"the workspace cannot be read: {error.strerror}",
            where=[str(error.filename)] if error.filename else [],
            fix="What cannot be read cannot be compared: give yourself access and try again.",
        ) from error
    pairs = [_pair(workspace, bases, one) for one in found]
    return [pair for pair in pairs if not is_equal(pair.old, pair.new)]


def split_by_kind(pairs: Iterable[Pair]) -> list[Pair]:
    """A path that became something else (a file where a folder was) as what went and what came."""
    split: list[Pair] = []
    for pair in pairs:
        if pair.old and pair.new and pair.old.kind != pair.new.kind:
            split += [Pair(pair.path, pair.old, None), Pair(pair.path, None, pair.new)]
        else:
            split.append(pair)
    return split


def recorded(entry: Row, bases: Bases) -> Node:
    """The version of a path that the record remembers."""
    return Node(entry.kind, entry.mode, entry.copy.size, entry.target, bases.content(entry), entry.copy.inode)


def is_equal(old: Node | None, new: Node | None) -> bool:
    """Whether two versions are the same: kind, permissions, target and bytes."""
    if old is None or new is None:
        return old is new
    if old.kind != new.kind:
        return False
    if old.kind == "l":
        return old.target == new.target
    return old.permissions == new.permissions and has_equal_content(old, new)


def has_equal_content(old: Node, new: Node) -> bool:
    """Whether two files hold the same bytes; bytes that are lost, or change while they are read, equal nothing."""
    if old.kind != "f" or new.kind != "f":
        return old.kind == new.kind
    if old.size != new.size or old.content is None or new.content is None:
        return False
    try:
        return old.content.equals(new.content)
    except ContentGone:
        return False


def _pair(workspace: Workspace, bases: Bases, found: Found) -> Pair:
    entry = workspace.record.get(found.path) if found.is_known else None
    old = None if entry is None else recorded(entry, bases)
    new = None if found.now is None else _present(workspace, found, found.now)
    return Pair(found.path, old, new)


def _present(workspace: Workspace, found: Found, now: os.stat_result) -> Node:
    kind = _kind(now.st_mode)
    content = workspace.content(found.path, now) if kind == "f" else None
    return Node(kind, now.st_mode, now.st_size if kind == "f" else 0, found.target, content, now.st_ino, now)


def _kind(mode: int) -> NodeKind:
    if stat.S_ISREG(mode):
        return "f"
    if stat.S_ISDIR(mode):
        return "d"
    return "l" if stat.S_ISLNK(mode) else "s"
