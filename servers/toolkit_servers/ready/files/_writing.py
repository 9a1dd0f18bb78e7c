"""The tools that change something: one at a time, each whole or not at all.

An edit replaces exact pieces of a text, and says so precisely when a piece is not
there. Bytes that are not UTF-8 survive it, and so do CRLF line ends where the pieces
are written with plain ones.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolkit._base.words import count_text, size_text
from toolkit.errors import ToolError
from toolkit.tools import ToolContext, tool
from toolkit_servers.ready.files import save
from toolkit_servers.ready.files.root import FindRoot, Place, Root, RootTools
from toolkit_servers.ready.files.stretch import require_text
from toolkit_workspace.changes import Version, file_patch

_LARGEST_EDITED = 4 << 20
_MOST_LINES_REPEATED = 12


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement."""

    old: Annotated[str, Field(min_length=1), "The exact text to replace, spaces included; it must occur once."]
    new: Annotated[str, "What stands there afterwards."]
    every: Annotated[bool, "Replace every occurrence instead."] = False


class WriteTools(RootTools):
    """Writing tools over one root."""

    def __init__(self, find_root: FindRoot, max_chars: int) -> None:
        super().__init__(find_root, max_chars)
        self._lock = threading.Lock()

    @tool(destructive=True, idempotent=True, open_world=False)
    def write_file(self, context: ToolContext, path: str, content: str) -> str:
        """Write a text file: a new one, with the folders above it, or in place of the one that is there.

        Args:
            path: The file.
            content: All of its text.
        """
        root, place = self._at(context, path)
        data = content.encode()
        with self._lock:
            is_new = save.save_file(root, place, data)
        lines = count_text(len(content.splitlines()), "line")
        return f"{'Wrote' if is_new else 'Replaced'} {place}: {lines}, {size_text(len(data))}."

    @tool(destructive=True, idempotent=False, open_world=False)
    def edit_file(
        self,
        context: ToolContext,
        path: str,
        edits: Annotated[list[Edit], Field(min_length=1, max_length=100)],
        dry_run: bool = False,
    ) -> str:
        """Replace exact pieces of a text file and show the difference. Either all edits are made or none.

        Args:
            path: The file.
            edits: The replacements, made one after the other.
            dry_run: Only show what would change.
        """
        root, place = self._at(context, path)
        with self._lock:
            seen, old = _read(root, place)
            new = _apply_edits(old, edits, place)
            if new == old:
                return f"{place} stays as it is: the edits change nothing."
            if not dry_run:
                save.save_file(root, place, new, seen=seen)
        return f"{'Would edit' if dry_run else 'Edited'} {place}.\n{self._cut(_diff(old, new, place))}".rstrip("\n")

    @tool(destructive=False, idempotent=True, open_world=False)
    def make_directory(self, context: ToolContext, path: str) -> str:
        """Make a folder, and those above it, where they are missing.

        Args:
            path: The folder.
        """
        root, place = self._at(context, path)
        with self._lock:
            return f"Made {place}/." if save.make_folder(root, place) else f"{place}/ is there already."

    @tool(destructive=True, idempotent=False, open_world=False)
    def move(self, context: ToolContext, source: str, destination: str) -> str:
        """Move or rename a file or folder. Nothing is overwritten.

        Args:
            source: What to move.
            destination: Its new path, the new name included.
        """
        root = self._find_root(context)
        old, new = root.place(source), root.place(destination)
        with self._lock:
            save.move(root, old, new)
        return f"Moved {old} to {new}."

    @tool(destructive=True, idempotent=True, open_world=False)
    def remove(self, context: ToolContext, path: str, recursive: bool = False) -> str:
        """Remove a file, or a folder. What is removed is gone.

        Args:
            path: The file or folder.
            recursive: Also remove a folder that is not empty, with all in it.
        """
        root, place = self._at(context, path)
        with self._lock:
            save.remove(root, place, recursive=recursive)
        return f"Removed {place}."

    def _cut(self, text: str) -> str:
        if len(text) <= self._room:
            return text
        return text[: self._room] + f"\n[{len(text) - self._room:,} more characters of the difference are not shown]"


def _read(root: Root, place: Place) -> tuple[os.stat_result, bytes]:
    with os.fdopen(root.open_file(place), "rb") as file:
        st = os.fstat(file.fileno())
        data = file.read(_LARGEST_EDITED + 1)
    require_text(data[:8_000], st.st_size, place)
    if len(data) > _LARGEST_EDITED:
        raise ToolError(f"{place} has {size_text(st.st_size)}; at most {size_text(_LARGEST_EDITED)} can be edited")
    return st, data


def _apply_edits(data: bytes, edits: Sequence[Edit], place: Place) -> bytes:
    """The contents with all edits made, one after the other.

    Raises:
        ToolError: an edit fits nowhere, or in more than one place. No edit counts then.
    """
    text = data.decode("utf-8", "surrogateescape")
    for number, edit in enumerate(edits, 1):
        label = f"edit {number}: " if len(edits) > 1 else ""
        old, new = edit.old, edit.new
        found = text.count(old)
        if not found and "\r\n" in text and "\r" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
            found = text.count(old)
        if not found:
            raise ToolError(f"{label}the old text is not in {place}; nothing was changed{_nearest(text, edit.old)}")
        if found > 1 and not edit.every:
            lines = ", ".join(str(line) for line in _line_numbers(text, old)[:10])
            raise ToolError(
                f"{label}the old text is in {place} {found} times (lines {lines}); nothing was changed. "
                "Add the lines around it until it is unique, or set every=true"
            )
        text = text.replace(old, new)
    return text.encode("utf-8", "surrogateescape")


def _diff(old: bytes, new: bytes, place: Place) -> str:
    """What changes, as a unified diff without git's header lines."""
    before, after = Version(place.raw, 0o100644, old), Version(place.raw, 0o100644, new)
    patch = file_patch(before, after).decode("utf-8", "replace")
    start = patch.find("--- ")
    return patch[start:].rstrip("\n") if start >= 0 else ""


def _line_numbers(text: str, piece: str) -> list[int]:
    numbers, at = list[int](), text.find(piece)
    while at >= 0 and len(numbers) < 100:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(piece, at + len(piece))
    return numbers


def _nearest(text: str, old: str) -> str:
    """The place that differs from what was looked for in its spaces only, as it really is."""
    lines = text.split("\n")
    wanted = [" ".join(line.split()) for line in old.strip("\n").split("\n")]
    squeezed = [" ".join(line.split()) for line in lines]
    if not any(wanted):
        return "; read the file again"
    for at in range(len(lines) - len(wanted) + 1):
        if squeezed[at] == wanted[0] and squeezed[at : at + len(wanted)] == wanted:
            there = lines[at : at + min(len(wanted), _MOST_LINES_REPEATED)]
            really = "\n".join(line.removesuffix("\r").encode("utf-8", "replace").decode() for line in there)
            return f". Lines {at + 1} to {at + len(wanted)} differ from it in spaces only; they are:\n{really}"
    if wanted[0] in squeezed:
        at = squeezed.index(wanted[0])
        return f". Its first line is line {at + 1}, but then they differ; read the file from there"
    return "; read the file again"
