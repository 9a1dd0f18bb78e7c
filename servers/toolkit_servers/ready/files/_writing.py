"""The tools that change something: one at a time, each whole or not at all."""

from __future__ import annotations

import threading
from typing import Annotated

from pydantic import Field

from toolkit._base.words import count_text, size_text
from toolkit.tools import ToolContext, tool
from toolkit_servers.ready.files import save
from toolkit_servers.ready.files.editing import Edit, apply_edits, diff_text, read_for_edit
from toolkit_servers.ready.files.root import FindRoot, RootTools


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
            is_new = save.save_file(root, place, data, context.check_change)
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
            seen, old = read_for_edit(root, place)
            new = apply_edits(old, edits, place)
            if new == old:
                return f"{place} stays as it is: the edits change nothing."
            if not dry_run:
                save.save_file(root, place, new, context.check_change, seen=seen)
        return f"{'Would edit' if dry_run else 'Edited'} {place}.\n{self._cut(diff_text(old, new, place))}".rstrip("\n")

    @tool(destructive=False, idempotent=True, open_world=False)
    def make_directory(self, context: ToolContext, path: str) -> str:
        """Make a folder, and those above it, where they are missing.

        Args:
            path: The folder.
        """
        root, place = self._at(context, path)
        with self._lock:
            is_new = save.make_folder(root, place, context.check_change)
        return f"Made {place}/." if is_new else f"{place}/ is there already."

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
            save.move(root, old, new, context.check_change)
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
            save.remove(root, place, context.check_change, recursive=recursive)
        return f"Removed {place}."

    def _cut(self, text: str) -> str:
        if len(text) <= self._room:
            return text
        return text[: self._room] + f"\n[{len(text) - self._room:,} more characters of the difference are not shown]"
