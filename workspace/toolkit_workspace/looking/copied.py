"""Find what was touched in a workspace that is a copy, by looking at every row once.

A folder whose own stamp is as recorded has had nothing added or removed, so its
names come from the record and each costs one stat; only a touched folder is listed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence

from toolkit_workspace.looking.touched import Touched, seen
from toolkit_workspace.looking.walking import Looking
from toolkit_workspace.record.record import Kind, Record, Rows

_NOTHING = Rows()


def touched_in(record: Record, root: int) -> dict[bytes, Touched]:
    """Everything that is new, gone or touched, by path."""
    st = os.fstat(root)
    return _Copied(record).all_below(root, (st.st_ctime_ns, st.st_ino) == record.root_stamp)


class _Copied(Looking):
    """What is known of a folder is whether its own stamp is as recorded."""

    __slots__ = ()

    def entries(self, fd: int, path: bytes, prefix: bytes, known: bool) -> list[tuple[str, bool]]:
        """Look at all that was recorded; at what is new only where the folder was touched."""
        rows = self.record.folders.get(path, _NOTHING)
        recorded = list(zip(rows.names, rows.kinds, rows.column("ctime_ns"), rows.column("inode"), strict=True))
        inner = self._known(fd, prefix, recorded)
        return inner if known else inner + self._new(fd, prefix, {name for name, *_ in recorded})

    def _known(self, fd: int, prefix: bytes, known: Sequence[tuple[str, Kind, int, int]]) -> list[tuple[str, bool]]:
        folders: list[tuple[str, bool]] = []
        look = os.stat
        for name, kind, ctime_ns, inode in known:
            try:
                st = look(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                self.gone(prefix + os.fsencode(name))
                continue
            if st.st_ctime_ns == ctime_ns and st.st_ino == inode:
                if kind == "d" and prefix + os.fsencode(name) in self.record.folders:
                    folders.append((name, True))
                continue
            path = prefix + os.fsencode(name)
            if stat.S_ISDIR(st.st_mode):
                folders.append((name, False))
            elif kind == "d":
                self.gone(path)
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
