"""The tools that change something: one at a time, each whole or not at all."""

from __future__ import annotations

import os
import threading
from typing import Annotated

from pydantic import Field

from toolkit._base.words import count_text, size_text
from toolkit.errors import ToolError
from toolkit.tools import ToolContext, tool
from toolkit_servers.ready.files import _save
from toolkit_servers.ready.files._edits import Edit, apply_edits, diff
from toolkit_servers.ready.files._lines import require_text
from toolkit_servers.ready.files._root import FindRoot, Place, Root
from toolkit_servers.ready.files._shown import Written

_LARGEST_EDITED = 4 << 20


class Writing:
    """Writing tools over one root."""

    def __init__(self, find_root: FindRoot, max_chars: int) -> None:
        self._find_root = find_root
        self._room = max_chars
        self._lock = threading.Lock()

    @tool(destructive=True, idempotent=True)
    def write_file(self, context: ToolContext, path: str, content: str) -> Written:
        """Write a text file: a new one, with the folders above it, or in place of the one that is there.

        Args:
            path: The file.
            content: All of its text.
        """
        root = self._find_root(context)
        place = root.place(path)
        data = content.encode()
        with self._lock:
            is_new = _save.save_file(root, place, data)
        lines = count_text(len(content.splitlines()), "line")
        return Written(f"{'Wrote' if is_new else 'Replaced'} {place}: {lines}, {size_text(len(data))}.")

    @tool(destructive=True)
    def edit_file(
        self,
        context: ToolContext,
        path: str,
        edits: Annotated[list[Edit], Field(min_length=1, max_length=100)],
        dry_run: bool = False,
    ) -> Written:
        """Replace exact pieces of a text file and show the difference. Either all edits are made or none.

        Args:
            path: The file.
            edits: The replacements, made one after the other.
            dry_run: Only show what would change.
        """
        root = self._find_root(context)
        place = root.place(path)
        with self._lock:
            seen, old = _read(root, place)
            new = apply_edits(old, edits, place)
            if new == old:
                return Written(f"{place} stays as it is: the edits change nothing.")
            if not dry_run:
                _save.save_file(root, place, new, seen=seen)
        return Written(f"{'Would edit' if dry_run else 'Edited'} {place}.", self._cut(diff(old, new, place)))

    @tool(idempotent=True)
    def make_directory(self, context: ToolContext, path: str) -> str:
        """Make a folder, and those above it, where they are missing.

        Args:
            path: The folder.
        """
        root = self._find_root(context)
        place = root.place(path)
        with self._lock:
            return f"Made {place}/." if _save.make_folder(root, place) else f"{place}/ is there already."

    @tool(destructive=True)
    def move(self, context: ToolContext, source: str, destination: str) -> str:
        """Move or rename a file or folder. Nothing is overwritten.

        Args:
            source: What to move.
            destination: Its new path, the new name included.
        """
        root = self._find_root(context)
        old, new = root.place(source), root.place(destination)
        with self._lock:
            _save.move(root, old, new)
        return f"Moved {old} to {new}."

    @tool(destructive=True)
    def remove(self, context: ToolContext, path: str, recursive: bool = False) -> str:
        """Remove a file, or a folder. What is removed is gone.

        Args:
            path: The file or folder.
            recursive: Also remove a folder that is not empty, with all in it.
        """
        root = self._find_root(context)
        place = root.place(path)
        with self._lock:
            _save.remove(root, place, recursive=recursive)
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
