"""What the files tools answer with, and how a model reads it."""

from __future__ import annotations

import mimetypes
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from toolkit._base.words import count_text, size_text
from toolkit_servers.ready.answers import fitting, with_remarks
from toolkit_servers.ready.files._root import Place, as_path, kind_of
from toolkit_servers.ready.files._walk import Walk

SortBy = Literal["name", "size", "modified"]


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One entry of a folder, as a listing has it."""

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

    entries: tuple[ListedEntry, ...]
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
        return with_remarks(lines, [summary])


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths that match a pattern."""

    paths: tuple[str, ...]
    total: int
    remarks: tuple[str, ...]

    def render(self) -> str:
        """One path a line."""
        remarks = [*self.remarks]
        if self.total > len(self.paths):
            remarks.append(f"{len(self.paths):,} of {self.total:,} are shown; narrow the pattern")
        return with_remarks(self.paths or ["Nothing matches."], remarks)


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder and what lies below it."""

    top: Place
    lines: tuple[str, ...]
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, walk: Walk, room: int) -> Tree:
        """Everything a walk meets, as far as there is room."""
        names = ["  " * entry.depth + as_path(entry.name) + ("/" if entry.is_folder else "") for entry in walk]
        lines = fitting(names, room)
        remarks = walk.remarks()
        if len(names) > len(lines):
            remarks.append(f"{len(names) - len(lines):,} more entries are not shown")
        if walk.not_entered:
            remarks.append(f"{count_text(walk.not_entered, 'folder')} not opened: too deep, or .git")
        return cls(walk.start, lines, tuple(remarks))

    def render(self) -> str:
        """One name a line, indented by depth."""
        return with_remarks([f"{self.top}/", *self.lines], self.remarks)


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
