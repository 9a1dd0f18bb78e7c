"""Find what was touched in a workspace that lies over a kept copy, by looking at what was written only.

All that an agent writes, renames, or changes the permissions of is in the upper folder, in full; what it removes has a
mark there. So the work is that of the changes and not that of the tree.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit._base.layered import is_opaque, is_whiteout
from toolkit_workspace.looking.touched import GONE, Touched, open_readable, seen
from toolkit_workspace.record.record import Record, Rows
from toolkit_workspace.record.trouble import unreadable

_MOST_LEVELS = 12  # folders held open at once; what is deeper is reached from the top again
_NOTHING = Rows()


def touched_above(record: Record, root: int) -> dict[bytes, Touched]:
    """Everything that is new, gone or touched, by path; `root` is the open upper folder."""
    look = _Look(record)
    look.later.append((b"", False))
    while look.later:
        path, is_apart = look.later.popleft()
        try:
            fd = open_beneath(root, path, READ_DIR)
        except OSError as error:
            if error.errno in GONE:
                continue
            raise
        look.folder(fd, path, is_apart, 0)
    return look.touched


@dataclass(slots=True)
class _Look:
    record: Record
    touched: dict[bytes, Touched] = field(default_factory=dict)
    later: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Folders still to look at: the path, and whether nothing of the copy below shows in it."""

    def folder(self, fd: int, path: bytes, is_apart: bool, level: int) -> None:
        """Look at one open folder and all below it; closes it."""
        prefix = path + b"/" if path else b""
        try:
            is_apart = is_apart or (bool(path) and is_opaque(fd))
            try:
                inner = self._entries(fd, path, prefix, is_apart)
            except PermissionError:  # readable but not searchable
                os.fchmod(fd, 0o700)
                inner = self._entries(fd, path, prefix, is_apart)
            for name in inner:
                self._descend(fd, prefix + os.fsencode(name), name, is_apart, level)
        except OSError as error:  # what could not be looked at is not unchanged
            below = os.fsencode(error.filename) if isinstance(error.filename, str) else b""
            raise unreadable(prefix + below or b".", error) from error
        finally:
            os.close(fd)

    def _entries(self, fd: int, path: bytes, prefix: bytes, is_apart: bool) -> list[str]:
        """Look at what is directly in a folder; the folders among it."""
        rows = self.record.folders.get(path, _NOTHING)
        names = os.listdir(fd)
        known = _positions(rows, names)
        folders: list[str] = []
        for name in names:
            try:
                st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            self._entry(fd, prefix + os.fsencode(name), name, st, rows, known.get(name))
            if stat.S_ISDIR(st.st_mode):
                folders.append(name)
        if is_apart:
            for name in set(rows.names).difference(names):
                self._gone(prefix + os.fsencode(name))
        return folders

    def _entry(self, fd: int, path: bytes, name: str, st: os.stat_result, rows: Rows, position: int | None) -> None:
        if is_whiteout(st):
            if position is not None:
                self._gone(path)
            return
        if position is None:
            self.touched[path] = seen(False, name, fd, st)
            return
        row = rows.row(position)
        if row.is_untouched(st):
            return
        if row.kind == "d" and not stat.S_ISDIR(st.st_mode):
            self._gone(path)
        self.touched[path] = seen(True, name, fd, st)

    def _descend(self, fd: int, path: bytes, name: str, is_apart: bool, level: int) -> None:
        if level >= _MOST_LEVELS:
            self.later.append((path, is_apart))
            return
        try:
            inner = open_readable(fd, name)
        except OSError as error:
            if error.errno in GONE:
                return
            raise
        self.folder(inner, path, is_apart, level + 1)

    def _gone(self, path: bytes) -> None:
        """Note a path, and what was recorded below it, as no longer there."""
        todo = [path]
        while todo:
            here = todo.pop()
            self.touched[here] = Touched(True, None)
            if here in self.record.folders:
                todo += [here + b"/" + os.fsencode(name) for name in self.record.folders[here].names]


def _positions(rows: Rows, names: Sequence[str]) -> dict[str, int]:
    """Where the rows of these names are, as far as there are such."""
    if len(names) > 8:
        all_of_them = {name: position for position, name in enumerate(rows.names)}
        return {name: all_of_them[name] for name in names if name in all_of_them}
    found = {name: rows.find(os.fsencode(name)) for name in names}
    return {name: position for name, position in found.items() if position is not None}
