"""What the files tools answer with, and how a model reads it."""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from toolkit._base.words import count_text, size_text
from toolkit_servers.ready.files._root import Place, as_path, kind_of
from toolkit_servers.ready.files._walk import Walk

SortBy = Literal["name", "size", "modified"]
MOST_ENTRIES = 1_000


def fitting(lines: Iterable[str], room: int) -> tuple[str, ...]:
    """The first lines, as many as a result has room for."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0 or len(kept) == MOST_ENTRIES:
            break
        kept.append(line)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder."""

    name: str
    stat: os.stat_result
    target: str | None = None
    """Where a link leads."""

    @property
    def size(self) -> int:
        """Bytes of a file; -1 for everything else."""
        return self.stat.st_size if stat.S_ISREG(self.stat.st_mode) else -1

    def render(self, *, details: bool) -> str:
        """One line of a listing."""
        name = as_path(self.name)
        if stat.S_ISDIR(self.stat.st_mode):
            name += "/"
        elif self.target is not None:
            name += f" -> {as_path(self.target)}"
        elif not stat.S_ISREG(self.stat.st_mode):
            name += f" ({kind_of(self.stat.st_mode)})"
        if not details:
            return name
        size = "-" if self.size < 0 else size_text(self.size)
        return f"{size:>8}  {_moment(self.stat.st_mtime):%Y-%m-%d %H:%M}  {name}"


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder."""

    entries: tuple[Entry, ...]
    details: bool
    room: int

    def render(self) -> str:
        """One line for each entry, then how many there are."""
        lines = fitting((entry.render(details=self.details) for entry in self.entries), self.room)
        folders = sum(stat.S_ISDIR(entry.stat.st_mode) for entry in self.entries)
        total = sum(max(entry.size, 0) for entry in self.entries)
        summary = f"{count_text(folders, 'folder')}, {count_text(len(self.entries) - folders, 'file')}"
        if self.details:
            summary += f", {size_text(total)}"
        if len(self.entries) > len(lines):
            summary += f"; the first {len(lines):,} are shown, glob finds others"
        return "\n".join([*lines, f"[{summary}]"])


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths that match a pattern."""

    paths: tuple[str, ...]
    total: int
    notes: tuple[str, ...]

    def render(self) -> str:
        """One path a line."""
        notes = [*self.notes]
        if self.total > len(self.paths):
            notes.append(f"{len(self.paths):,} of {self.total:,} are shown; narrow the pattern")
        return "\n".join([*(self.paths or ["Nothing matches."]), *([f"[{'; '.join(notes)}]"] if notes else [])])


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder and what lies below it."""

    top: Place
    lines: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, walk: Walk, room: int) -> Tree:
        """Everything a walk meets, as far as there is room."""
        names = ["  " * found.depth + as_path(found.name) + ("/" if found.is_folder else "") for found in walk]
        lines = fitting(names, room)
        notes = walk.notes()
        if len(names) > len(lines):
            notes.append(f"{len(names) - len(lines):,} more entries are not shown")
        if walk.not_entered:
            notes.append(f"{count_text(walk.not_entered, 'folder')} not opened: too deep, or .git")
        return cls(walk.start, lines, tuple(notes))

    def render(self) -> str:
        """One name a line, indented by depth."""
        return "\n".join([f"{self.top}/", *self.lines, *([f"[{'; '.join(self.notes)}]"] if self.notes else [])])


@dataclass(frozen=True, slots=True)
class Info:
    """What is known about one path without reading it."""

    place: Place
    stat: os.stat_result
    rights: str | None
    """What these tools may do, where the root is meant."""
    target: str | None = None

    def render(self) -> str:
        """One fact a line."""
        st = self.stat
        facts = {
            "path": str(self.place),
            "kind": kind_of(st.st_mode),
            "link to": None if self.target is None else as_path(self.target),
            "size": f"{st.st_size:,} bytes" if stat.S_ISREG(st.st_mode) else None,
            "type by name": mimetypes.guess_type(self.place.name)[0] if stat.S_ISREG(st.st_mode) else None,
            "permissions": f"{stat.filemode(st.st_mode)[1:]} ({stat.S_IMODE(st.st_mode):04o})",
            "modified": f"{_moment(st.st_mtime):%Y-%m-%d %H:%M:%S} UTC",
            "status changed": f"{_moment(st.st_ctime):%Y-%m-%d %H:%M:%S} UTC",
            "accessed": f"{_moment(st.st_atime):%Y-%m-%d %H:%M:%S} UTC",
            "these tools": self.rights,
        }
        return "\n".join(f"{name}: {value}" for name, value in facts.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Written:
    """A change that was made, or would be."""

    said: str
    diff: str = ""

    def render(self) -> str:
        """One sentence, and the diff."""
        return f"{self.said}\n{self.diff}" if self.diff else self.said


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a time stamp no calendar has
        return datetime.fromtimestamp(0, UTC)
