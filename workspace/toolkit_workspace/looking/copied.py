"""Find what was touched in a workspace that is a copy, by looking at every row once.

A folder whose own stamp is as recorded has had nothing added or removed, so its
names come from the record and each costs one stat; only a touched folder is listed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.looking.touched import GONE, Touched, open_readable, seen
from toolkit_workspace.record.record import Kind, Record, Rows
from toolkit_workspace.record.trouble import unreadable

_MOST_LEVELS = 12  # folders held open at once; what is deeper is reached from the top again
_NOTHING = Rows()


def touched_in(record: Record, root: int) -> dict[bytes, Touched]:
    """Everything that is new, gone or touched, by path."""
    walk = _Walk(record, {}, deque())
    st = os.fstat(root)
    walk.later.append((b"", (st.st_ctime_ns, st.st_ino) == record.root_stamp))
    while walk.later:
        path, is_same = walk.later.popleft()
        try:
            fd = open_beneath(root, path, READ_DIR)
        except OSError as error:
            if error.errno in GONE:
                continue
            raise
        walk.folder(fd, path, is_same, 0)
    return walk.touched


@dataclass(slots=True)
class _Walk:
    record: Record
    touched: dict[bytes, Touched]
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
            self.touched[path] = seen(True, name, fd, st)
        return folders

    def _new(self, fd: int, prefix: bytes, known: Collection[str]) -> list[tuple[str, bool]]:
        folders = []
        for name in set(os.listdir(fd)).difference(known):
            try:
                st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            self.touched[prefix + os.fsencode(name)] = seen(False, name, fd, st)
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
            inner = open_readable(fd, name)
        except OSError as error:
            if error.errno == errno.EMFILE and level:
                self.later.append((path, unchanged))  # no handle is free down here: looked at from the top later
            elif error.errno not in GONE:
                raise
            return
        self.folder(inner, path, unchanged, level + 1)

    def _gone(self, path: bytes) -> None:
        """Note a path, and what was recorded below it, as no longer there."""
        todo = [path]
        while todo:
            here = todo.pop()
            self.touched[here] = Touched(True, None)
            if here in self.record.folders:
                todo += [here + b"/" + os.fsencode(name) for name in self.record.folders[here].names]
