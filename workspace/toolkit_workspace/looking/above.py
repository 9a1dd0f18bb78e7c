"""Find what was touched in a workspace that lies over a kept copy, by looking at what was written only.

All that an agent writes, renames, or changes the permissions of is in the upper folder, in full; what it removes has a
mark there, if the kept copy has it: what came later is looked for. So the work is that of the changes and not that of
the tree.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit._base.layered import is_opaque, is_whiteout
from toolkit_workspace.looking.touched import GONE, Touched, seen
from toolkit_workspace.looking.walking import Looking
from toolkit_workspace.record.record import Record, Rows

_NOTHING = Rows()


def touched_above(record: Record, root: int, below: Path) -> dict[bytes, Touched]:
    """Everything that is new, gone or touched, by path; `root` is the open upper folder, `below` the kept copy."""
    later: dict[bytes, list[str]] = defaultdict(list)
    for path in record.above or ():
        parent, _, name = path.rpartition(b"/")
        later[parent].append(os.fsdecode(name))
    kept = os.open(below, READ_DIR)
    try:
        return _Above(record, kept=kept, later=later).all_below(root, False)
    finally:
        os.close(kept)


@dataclass(slots=True)
class _Above(Looking):
    """What is known of a folder is whether nothing of the copy below shows in it."""

    kept: int = field(kw_only=True)
    """The open kept copy."""
    later: Mapping[bytes, Collection[str]] = field(kw_only=True)
    """What was recorded after it, by folder."""

    def entries(self, fd: int, path: bytes, prefix: bytes, known: bool) -> list[tuple[str, bool]]:
        """Look at all that was written."""
        is_apart = known or (bool(path) and is_opaque(fd))
        rows = self.record.folders.get(path, _NOTHING)
        names = os.listdir(fd)
        positions = _positions(rows, names)
        folders: list[tuple[str, bool]] = []
        for name in names:
            try:
                st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            self._entry(fd, prefix + os.fsencode(name), name, st, rows, positions.get(name))
            if stat.S_ISDIR(st.st_mode):
                folders.append((name, is_apart))
        for name in set(rows.names if is_apart else self.later.get(path, ())).difference(names):
            if is_apart or not self._shows(path, name):
                self.gone(prefix + os.fsencode(name))
        return folders

    def _shows(self, path: bytes, name: str) -> bool:
        """Whether the kept copy has this name in a folder."""
        try:
            folder = open_beneath(self.kept, path or b".", READ_DIR)
        except OSError as error:
            if error.errno in GONE:
                return False
            raise
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        finally:
            os.close(folder)
        return True

    def _entry(self, fd: int, path: bytes, name: str, st: os.stat_result, rows: Rows, position: int | None) -> None:
        if is_whiteout(st):
            if position is not None:
                self.gone(path)
            return
        if position is None:
            self.touched[path] = seen(False, name, fd, st)
            return
        row = rows.row(position)
        if row.is_untouched(st):
            return
        if row.kind == "d" and not stat.S_ISDIR(st.st_mode):
            self.gone(path)
        self.touched[path] = seen(True, name, fd, st)


def _positions(rows: Rows, names: Sequence[str]) -> dict[str, int]:
    """Where the rows of these names are, as far as there are such."""
    if len(names) > 8:
        all_of_them = {name: position for position, name in enumerate(rows.names)}
        return {name: all_of_them[name] for name in names if name in all_of_them}
    found = {name: rows.find(os.fsencode(name)) for name in names}
    return {name: position for name, position in found.items() if position is not None}
