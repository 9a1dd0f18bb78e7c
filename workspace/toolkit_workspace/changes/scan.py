"""Find what differs between a workspace and its record, by looking at every entry once.

A folder whose own stamp is as recorded has had nothing added or removed, so its
names come from the record and each costs one stat; only a touched folder is
listed. Nothing is opened but folders, through no link, and no content is read.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import PATH_HANDLE, READ_DIR, open_beneath
from toolkit_workspace.record import Record, Rows, join

_MOST_LEVELS = 60  # folders held open at once; what is deeper is reached from the top again
_NOTHING = Rows()


@dataclass(frozen=True, slots=True)
class Found:
    """A path that is new, gone or no longer as recorded."""

    path: bytes
    is_known: bool
    """Whether the record has a row for it."""
    now: os.stat_result | None
    """None when it is gone."""
    target: bytes | None = None
    """Where a link points now."""


def scan(record: Record, root_fd: int) -> list[Found]:
    """Everything that is new, gone or touched, sorted by path."""
    found: list[Found] = []
    st = os.fstat(root_fd)
    is_same = (st.st_ctime_ns, st.st_ino) == record.root_stamp
    later: deque[tuple[bytes, bool]] = deque([(b"", is_same)])
    while later:
        path, is_same = later.popleft()
        try:
            fd = open_beneath(root_fd, path, READ_DIR)
        except OSError:
            continue  # removed since it was seen: the next scan says so
        _Walk(record, found, later).folder(fd, path, is_same, 0)
    found.sort(key=lambda one: one.path)
    return found


@dataclass(slots=True)
class _Walk:
    record: Record
    found: list[Found]
    later: deque[tuple[bytes, bool]]

    def folder(self, fd: int, path: bytes, is_same: bool, level: int) -> None:
        """Look at one open folder and all below it; closes it."""
        try:
            known = self.record.folders.get(path, _NOTHING)
            try:
                inner = self._known(fd, path, known)
            except PermissionError:  # readable but not searchable: the first stat already failed
                os.fchmod(fd, 0o700)
                inner = self._known(fd, path, known)
            if not is_same:
                inner += self._new(fd, path, known)
            for name, unchanged in inner:
                self._descend(fd, path, name, unchanged, level)
        finally:
            os.close(fd)

    def _known(self, fd: int, path: bytes, known: Rows) -> list[tuple[str, bool]]:
        folders: list[tuple[str, bool]] = []
        look, ctimes, inodes = os.stat, known.column("ctime_ns"), known.column("inode")
        for name, ctime_ns, inode, kind in zip(known.names, ctimes, inodes, known.kinds, strict=True):
            try:
                st = look(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                full = join(path, os.fsencode(name))
                self.found.append(Found(full, True, None))
                self.found += self._gone_below(full)
                continue
            if st.st_ctime_ns == ctime_ns and st.st_ino == inode:
                if kind == "d":
                    folders.append((name, True))
                continue
            full = join(path, os.fsencode(name))
            self.found.append(_seen(full, True, name, fd, st))
            if stat.S_ISDIR(st.st_mode):
                folders.append((name, False))
            else:
                self.found += self._gone_below(full)
        return folders

    def _new(self, fd: int, path: bytes, known: Rows) -> list[tuple[str, bool]]:
        folders = []
        for name in set(os.listdir(fd)).difference(known.names):
            try:
                st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            self.found.append(_seen(join(path, os.fsencode(name)), False, name, fd, st))
            if stat.S_ISDIR(st.st_mode):
                folders.append((name, False))
        return folders

    def _descend(self, fd: int, path: bytes, name: str, unchanged: bool, level: int) -> None:
        full = join(path, os.fsencode(name))
        if unchanged and full not in self.record.folders:
            return
        if level >= _MOST_LEVELS:
            self.later.append((full, unchanged))
            return
        try:
            inner = _open_readable(fd, name)
        except PermissionError:
            raise  # not ours to read: a diff that leaves it out would be wrong
        except OSError:
            return  # removed or swapped since it was seen: the next scan says so
        self.folder(inner, full, unchanged, level + 1)

    def _gone_below(self, path: bytes) -> Iterator[Found]:
        """What was recorded below a folder that is no longer there."""
        todo = [path]
        while todo:
            here = todo.pop()
            folder = self.record.folders.get(here)
            if folder is None:
                continue
            for name in folder.names:
                inner = join(here, os.fsencode(name))
                yield Found(inner, True, None)
                todo.append(inner)


def _seen(path: bytes, is_known: bool, name: str, fd: int, st: os.stat_result) -> Found:
    target = None
    if stat.S_ISLNK(st.st_mode):
        try:
            target = os.fsencode(os.readlink(name, dir_fd=fd))
        except OSError:  # swapped this instant: an empty target is nobody's
            target = b""
    elif stat.S_ISREG(st.st_mode) and not st.st_mode & stat.S_IRUSR and st.st_uid == os.geteuid() != 0:
        st = _make_readable(name, fd, st)
    return Found(path, is_known, st, target)


def _make_readable(name: str, fd: int, st: os.stat_result) -> os.stat_result:
    """Give ourselves back the right to read a file that the agent took away; the stat after it."""
    try:
        handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW, dir_fd=fd)
    except OSError:
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
