"""Find what differs between a workspace and its record, by looking at every row once.

A folder whose own stamp is as recorded has had nothing added or removed, so its
names come from the record and each costs one stat; only a touched folder is
listed. What was touched is then decided by its contents: a file whose bytes are as
before is not a change, whatever its stamps; one whose size and mtime were set back
is one. Where the recorded bytes are lost, a touched file counts as changed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolkit._base.handles import PATH_HANDLE, READ_DIR, open_beneath
from toolkit_workspace.record.content import Hosts, Node, node_of
from toolkit_workspace.record.record import Kind, Record, Rows, Stamp
from toolkit_workspace.record.trouble import unreadable
from toolkit_workspace.workspace import Workspace

_MOST_LEVELS = 12  # folders held open at once; what is deeper is reached from the top again
_NOTHING = Rows()
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Removed since it was seen, or replaced by a file or a link: the next scan says so. Any other failure is an error."""


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


def _looked_at(workspace: Workspace, root: int) -> dict[bytes, _Touched]:
    try:
        with workspace.record.lock:
            return _touched(workspace.record, root)
    except OSError as error:
        raise unreadable(error.filename or str(workspace.folder), error) from error


def _pairs(workspace: Workspace, touched: Mapping[bytes, _Touched], hosts: Hosts) -> list[Pair]:
    """Both versions of every path that was touched."""
    record = hosts.record
    rows = [record.get(path) for path, one in touched.items() if one.is_known]
    old = {row.path: hosts.recorded(row) for row in rows if row is not None}
    new = {path: node_of(one.now, one.target, workspace.open, path) for path, one in touched.items() if one.now}
    return [Pair(path, old.get(path), new.get(path)) for path in sorted(touched)]


@dataclass(frozen=True, slots=True)
class _Touched:
    """What is new, gone or no longer as recorded at a path."""

    is_known: bool
    """Whether the record has a row for it."""
    now: os.stat_result | None
    """None when it is gone."""
    target: bytes | None = None
    """Where a link points now."""


def _touched(record: Record, root: int) -> dict[bytes, _Touched]:
    """Everything that is new, gone or touched, by path."""
    walk = _Walk(record, {}, deque())
    st = os.fstat(root)
    walk.later.append((b"", (st.st_ctime_ns, st.st_ino) == record.root_stamp))
    while walk.later:
        path, is_same = walk.later.popleft()
        try:
            fd = open_beneath(root, path, READ_DIR)
        except OSError as error:
            if error.errno in _GONE:
                continue
            raise
        walk.folder(fd, path, is_same, 0)
    return walk.touched


@dataclass(slots=True)
class _Walk:
    record: Record
    touched: dict[bytes, _Touched]
    later: deque[tuple[bytes, bool]]

    def folder(self, fd: int, path: bytes, is_same: bool, level: int) -> None:
        """Look at one open folder and all below it; closes it."""
        rows = self.record.folders.get(path, _NOTHING)
        known = list(zip(rows.names, rows.kinds, rows.column("ctime_ns"), rows.column("inode"), strict=True))
        prefix = path + b"/" if path else b""
        try:
            try:
                inner = self._known(fd, prefix, known)
            except PermissionError:  # readable but not searchable: the first stat already failed
                os.fchmod(fd, 0o700)
                inner = self._known(fd, prefix, known)
            if not is_same:
                inner += self._new(fd, prefix, {name for name, *_ in known})
            for name, unchanged in inner:
                self._descend(fd, prefix + os.fsencode(name), name, unchanged, level)
        except OSError as error:  # what could not be looked at is not unchanged
            below = os.fsencode(error.filename) if isinstance(error.filename, str) else b""
            raise unreadable(prefix + below or b".", error) from error
        finally:
            os.close(fd)

    def _known(self, fd: int, prefix: bytes, known: Sequence[tuple[str, Kind, int, int]]) -> list[tuple[str, bool]]:
        folders: list[tuple[str, bool]] = []
        look = os.stat
        for name, kind, ctime_ns, inode in known:
            try:
                st = look(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                self._gone(prefix + os.fsencode(name))
                continue
            if st.st_ctime_ns == ctime_ns and st.st_ino == inode:
                if kind == "d":
                    folders.append((name, True))
                continue
            path = prefix + os.fsencode(name)
            if stat.S_ISDIR(st.st_mode):
                folders.append((name, False))
            elif kind == "d":
                self._gone(path)
            self.touched[path] = _seen(True, name, fd, st)
        return folders

    def _new(self, fd: int, prefix: bytes, known: Collection[str]) -> list[tuple[str, bool]]:
        folders = []
        for name in set(os.listdir(fd)).difference(known):
            try:
                st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            self.touched[prefix + os.fsencode(name)] = _seen(False, name, fd, st)
            if stat.S_ISDIR(st.st_mode):
                folders.append((name, False))
        return folders

    def _descend(self, fd: int, path: bytes, name: str, unchanged: bool, level: int) -> None:
        if unchanged and path not in self.record.folders:
            return
        if level >= _MOST_LEVELS:
            self.later.append((path, unchanged))
            return
        try:
            inner = _open_readable(fd, name)
        except OSError as error:
            if error.errno == errno.EMFILE and level:
                self.later.append((path, unchanged))  # no handle is free down here: looked at from the top later
            elif error.errno not in _GONE:
                raise
            return
        self.folder(inner, path, unchanged, level + 1)

    def _gone(self, path: bytes) -> None:
        """Note a path, and what was recorded below it, as no longer there."""
        todo = [path]
        while todo:
            here = todo.pop()
            self.touched[here] = _Touched(True, None)
            if here in self.record.folders:
                todo += [here + b"/" + os.fsencode(name) for name in self.record.folders[here].names]


def _seen(is_known: bool, name: str, fd: int, st: os.stat_result) -> _Touched:
    target = None
    if stat.S_ISLNK(st.st_mode):
        try:
            target = os.fsencode(os.readlink(name, dir_fd=fd))
        except OSError as error:
            if error.errno not in (*_GONE, errno.EINVAL):  # EINVAL: it is no link any more
                raise
            target = b""  # swapped this instant: an empty target is nobody's
    elif stat.S_ISREG(st.st_mode) and not st.st_mode & stat.S_IRUSR and st.st_uid == os.geteuid() != 0:
        st = _make_readable(name, fd, st)
    return _Touched(is_known, st, target)


def _make_readable(name: str, fd: int, st: os.stat_result) -> os.stat_result:
    """Give ourselves back the right to read a file that the agent took away; the stat after it."""
    try:
        handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW, dir_fd=fd)
    except FileNotFoundError:
        return st
    try:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(st.st_mode) | stat.S_IRUSR)
        return os.fstat(handle)
    finally:
        os.close(handle)


def _open_readable(fd: int, name: str) -> int:
    """Open a folder, giving ourselves back the right to read it where the agent took it away."""
    try:
        return os.open(name, READ_DIR, dir_fd=fd)
    except PermissionError:
        handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=fd)
    try:
        # Through the handle: by name it could meanwhile be a link.
        Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(b".", READ_DIR, dir_fd=handle)
    finally:
        os.close(handle)
