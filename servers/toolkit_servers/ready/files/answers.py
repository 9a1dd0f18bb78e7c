"""How the files tools word what they found."""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit._base.words import count_text, size_text
from toolkit.errors import ToolkitError
from toolkit.tools import Audio, Image
from toolkit_servers.ready.answers import fitting, with_remarks
from toolkit_servers.ready.files.root import Place, as_path, kind_of
from toolkit_servers.ready.files.walk import Walk


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


def listing_text(entries: Sequence[ListedEntry], room: int, *, details: bool) -> str:
    """What is in a folder: one line for each entry, then how many there are."""
    lines = fitting((entry.render(details=details) for entry in entries), room)
    folders = sum(stat.S_ISDIR(entry.stat.st_mode) for entry in entries)
    summary = f"{count_text(folders, 'folder')}, {count_text(len(entries) - folders, 'file')}"
    if details:
        summary += f", {size_text(sum(max(entry.size, 0) for entry in entries))}"
    if len(entries) > len(lines):
        summary += f"; the first {len(lines):,} are shown, glob finds others"
    return with_remarks(lines, [summary])


def paths_text(paths: Sequence[str], room: int, remarks: list[str]) -> str:
    """Paths that match a pattern, one a line."""
    lines = fitting(paths, room)
    if len(paths) > len(lines):
        remarks = [*remarks, f"{len(lines):,} of {len(paths):,} are shown; narrow the pattern"]
    return with_remarks(lines or ["Nothing matches."], remarks)


def tree_text(walk: Walk, room: int) -> str:
    """A folder and everything a walk meets below it: one name a line, indented by depth."""
    names = ["  " * entry.depth + as_path(entry.name) + ("/" if entry.is_folder else "") for entry in walk]
    lines = fitting(names, room)
    remarks = walk.remarks()
    if len(names) > len(lines):
        remarks.append(f"{len(names) - len(lines):,} more entries are not shown")
    if walk.not_entered:
        remarks.append(f"{count_text(walk.not_entered, 'folder')} not opened: too deep, or .git")
    return with_remarks([f"{walk.start}/", *lines], remarks)


def info_text(place: Place, st: os.stat_result, *, target: str | None, rights: str | None) -> str:
    """What is known about one path without reading it, one fact a line; `rights` is what these tools may do."""
    is_file = stat.S_ISREG(st.st_mode)
    facts = {
        "path": str(place),
        "kind": kind_of(st.st_mode),
        "link to": None if target is None else as_path(target),
        "size": f"{st.st_size:,} bytes" if is_file else None,
        "type by name": mimetypes.guess_type(place.name)[0] if is_file else None,
        "permissions": f"{stat.filemode(st.st_mode)[1:]} ({stat.S_IMODE(st.st_mode):04o})",
        "modified": f"{_moment(st.st_mtime):%Y-%m-%d %H:%M:%S} UTC",
        "status changed": f"{_moment(st.st_ctime):%Y-%m-%d %H:%M:%S} UTC",
        "accessed": f"{_moment(st.st_atime):%Y-%m-%d %H:%M:%S} UTC",
        "these tools": rights,
    }
    return "\n".join(f"{name}: {value}" for name, value in facts.items() if value is not None)


def picture_or_sound(data: bytes, place: Place) -> Image | Audio | None:
    """The content for these bytes, by what they are, then by the name; None for everything else."""
    by_name = mimetypes.guess_type(place.name)[0] or ""
    for mime in (None, by_name):
        for family, kind in (("image/", Image), ("audio/", Audio)):
            # A drawing in SVG is text, and no model takes it as a picture.
            if mime is not None and (not mime.startswith(family) or mime == "image/svg+xml"):
                continue
            try:
                kind(data[:64], mime).block()
            except ToolkitError:
                continue
            return kind(data, mime)
    return None


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a time stamp no calendar has
        return datetime.fromtimestamp(0, UTC)
