"""The reference server's tools that change something: each whole or not at all."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolkit.tools import ToolContext, tool
from toolkit_servers.ready.files import save
from toolkit_servers.ready.files.editing import Edit, apply_edits, read_for_edit
from toolkit_servers.ready.files.reference import _wording
from toolkit_servers.ready.files.reference._folders import AnyPath, FindFolders, FoldersTools, Said


@dataclass(frozen=True, slots=True)
class Replacement:
    """One replacement."""

    old_text: Annotated[
        str, Field(min_length=1, alias="oldText", description="The text to replace; it must occur once.")
    ]
    new_text: Annotated[str, Field(alias="newText", description="What stands there afterwards.")]


class ChangingTools(FoldersTools):
    """Writing tools over some folders."""

    def __init__(self, find_folders: FindFolders, max_chars: int) -> None:
        super().__init__(find_folders, max_chars)
        self._lock = threading.Lock()

    @tool(destructive=True, idempotent=True, structured=True, open_world=False)
    def write_file(self, context: ToolContext, path: AnyPath, content: str) -> Said:
        """Write a text file: a new one, or in place of the one that is there.

        Args:
            content: All of its text.
        """
        root, place = self._folders(context).find(path)
        with self._lock:
            if place.path:
                with root.folder(place.parent, for_place=place):
                    pass  # the folders above it have to be there
            save.save_file(root, place, content.encode(), context.check_change)
        return Said(f"Successfully wrote to {_wording.plain(path)}")

    @tool(destructive=True, idempotent=False, structured=True, open_world=False)
    def edit_file(
        self,
        context: ToolContext,
        path: AnyPath,
        edits: Annotated[list[Replacement], Field(max_length=100)],
        dryRun: bool = False,  # noqa: N803  its argument name
    ) -> Said:
        """Replace pieces of a text file and show the difference. Either all edits are made or none.

        Args:
            edits: The replacements, made one after the other.
            dryRun: Only show what would change.
        """
        root, place = self._folders(context).find(path)
        pieces = [Edit(edit.old_text, edit.new_text) for edit in edits]
        with self._lock:
            seen, old = read_for_edit(root, place, media_tool="read_media_file")
            new = apply_edits(old, pieces, place, any_indent=True)
            if not dryRun and new != old:
                save.save_file(root, place, new, context.check_change, seen=seen)
        return Said(_wording.fenced_diff(root, place, old, new, self._room))

    @tool(destructive=False, idempotent=True, structured=True, open_world=False)
    def create_directory(self, context: ToolContext, path: AnyPath) -> Said:
        """Make a folder, and those above it, where they are missing."""
        root, place = self._folders(context).find(path)
        with self._lock:
            save.make_folder(root, place, context.check_change)
        return Said(f"Successfully created directory {_wording.plain(path)}")

    @tool(destructive=True, idempotent=False, structured=True, open_world=False)
    def move_file(self, context: ToolContext, source: AnyPath, destination: AnyPath) -> Said:
        """Move or rename a file or folder. Nothing is overwritten."""
        folders = self._folders(context)
        old_root, old = folders.find(source)
        new_root, new = folders.find(destination)
        with self._lock:
            save.move(old_root, old, new, context.check_change, new_root)
        return Said(f"Successfully moved {_wording.plain(source)} to {_wording.plain(destination)}")
