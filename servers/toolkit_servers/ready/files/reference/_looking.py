"""The reference server's tools that look."""

# ruff: noqa: N803  its argument names

from __future__ import annotations

import mimetypes
import os
import stat
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from toolkit._base.handles import PATH_HANDLE, open_beneath
from toolkit._base.words import size_text
from toolkit.errors import ToolError
from toolkit.tools import Audio, Image, Resource, ToolContext, tool
from toolkit_servers.ready.answers import fitting, with_remarks
from toolkit_servers.ready.files.answers import picture_or_sound
from toolkit_servers.ready.files.reference import _wording
from toolkit_servers.ready.files.reference._folders import AnyPath, Folders, FoldersTools, Said
from toolkit_servers.ready.files.reference._patterns import FolderPatterns
from toolkit_servers.ready.files.root import Place, Root
from toolkit_servers.ready.files.stretch import require_text, seek_tail
from toolkit_servers.ready.files.walk import Walk

_LARGEST_MEDIA = 10_000_000
_MOST_FILES = 250
_LEAST_SHARE = 200
_SECONDS = 60.0

Count = Annotated[int | None, Field(ge=0)]
SortBy = Literal["name", "size"]
Exclude = Annotated[list[str] | None, Field(max_length=50)]


class LookingTools(FoldersTools):
    """Reading tools over some folders."""

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def read_file(self, context: ToolContext, path: AnyPath, tail: Count = None, head: Count = None) -> Said:
        """Read a text file. The same as read_text_file, by its older name.

        Args:
            tail: Only so many lines from the end.
            head: Only so many lines from the beginning.
        """
        return Said(self._text(self._folders(context), path, self._room, head, tail))

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def read_text_file(self, context: ToolContext, path: AnyPath, tail: Count = None, head: Count = None) -> Said:
        """Read a text file: all of it, its first lines or its last ones.

        Args:
            tail: Only so many lines from the end.
            head: Only so many lines from the beginning.
        """
        return Said(self._text(self._folders(context), path, self._room, head, tail))

    @tool(read_only=True, open_world=False, timeout=_SECONDS)
    def read_media_file(self, context: ToolContext, path: AnyPath) -> Image | Audio | Resource:
        """Look at a picture, listen to a sound, or get any other file as it is; at most 10 MB."""
        root, place = self._folders(context).find(path)
        with os.fdopen(root.open_file(place), "rb") as file:
            data = file.read(_LARGEST_MEDIA + 1)
            size = os.fstat(file.fileno()).st_size
        if len(data) > _LARGEST_MEDIA:
            raise ToolError(f"{place} has {size_text(size)}; at most {size_text(_LARGEST_MEDIA)} can be sent")
        mime = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
        uri = Path(_wording.full_path(root, place)).as_uri()
        return picture_or_sound(data, place) or Resource(uri, data, mime)

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def read_multiple_files(
        self, context: ToolContext, paths: Annotated[list[str], Field(min_length=1, max_length=_MOST_FILES)]
    ) -> Said:
        """Read several text files at once. One that cannot be read does not stop the others.

        Args:
            paths: The files: absolute, below an allowed directory, or relative to the first of them.
        """
        share = max(self._room // len(paths), _LEAST_SHARE)
        folders = self._folders(context)
        parts = []
        for path in paths:
            try:
                parts.append(f"{_wording.plain(path)}:\n{self._text(folders, path, share)}\n")
            except ToolError as error:
                parts.append(f"{_wording.plain(path)}: Error - {error}")
        return Said("\n---\n".join(parts))

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def list_directory(self, context: ToolContext, path: AnyPath) -> Said:
        """List what is in a folder, each entry with [FILE] or [DIR] before it."""
        root, place = self._folders(context).find(path)
        with root.folder(place) as folder, os.scandir(folder) as found:
            entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
        return Said(self._lines([_wording.listed(name, is_folder) for name, is_folder in entries], "search_files"))

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def list_directory_with_sizes(self, context: ToolContext, path: AnyPath, sortBy: SortBy = "name") -> Said:
        """List what is in a folder with the sizes of the files, and how much it is in all.

        Args:
            sortBy: By name, or the largest first.
        """
        root, place = self._folders(context).find(path)
        with root.folder(place) as folder, os.scandir(folder) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        sized = [_wording.SizedEntry(name, is_dir, _size(root, place.child(name))) for name, is_dir in sorted(entries)]
        if sortBy == "size":
            sized.sort(key=lambda entry: -entry.size)
        listing = self._lines(_wording.sized_listing(sized), "search_files")
        return Said("\n".join([*([listing] if sized else []), *_wording.sized_summary(sized)]))

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def directory_tree(self, context: ToolContext, path: AnyPath, excludePatterns: Exclude = None) -> Said:
        """Show a folder and all below it as JSON: name, type (file or directory) and, of a directory, children.

        Args:
            excludePatterns: Patterns to leave out, relative to the folder; a name without a * counts at any depth.
        """
        root, place = self._folders(context).find(path)
        exclude = FolderPatterns(excludePatterns or (), names_anywhere=True)
        return Said(_wording.tree_json(Walk(root, place, context, exclude, not_entered_names=()), self._room))

    @tool(read_only=True, structured=True, open_world=False, timeout=_SECONDS)
    def search_files(self, context: ToolContext, path: AnyPath, pattern: str, excludePatterns: Exclude = None) -> Said:
        """Find files and folders by name, below a folder; the answer has their absolute paths.

        Args:
            pattern: Relative to the folder: *.py in it, **/*.py at any depth, src/**/*.{ts,tsx}.
            excludePatterns: Patterns of what to leave out, relative to the folder.
        """
        root, place = self._folders(context).find(path)
        wanted = FolderPatterns([pattern])
        walk = Walk(root, place, context, FolderPatterns(excludePatterns or ()), not_entered_names=())
        found = [
            _wording.plain(_wording.full_path(root, place.child(entry.path)))
            for entry in walk
            if wanted.match(entry.path, entry.is_folder)
        ]
        return Said(self._lines(found or ["No matches found"], "a narrower pattern", walk.remarks()))

    @tool(read_only=True, structured=True, open_world=False)
    def get_file_info(self, context: ToolContext, path: AnyPath) -> Said:
        """Tell size, times, kind and permissions of a file or folder; a link is followed."""
        root, place = self._folders(context).find(path)
        with root.in_words(place):
            handle = open_beneath(root.handle, place.raw, PATH_HANDLE, follow_links=True)
        try:
            return Said(_wording.info_lines(os.fstat(handle), _wording.birth_time(handle)))
        finally:
            os.close(handle)

    @tool(read_only=True, structured=True, open_world=False)
    def list_allowed_directories(self, context: ToolContext) -> Said:
        """Tell which directories these tools can reach; all that is below them is meant too."""
        names = [_wording.plain(name) for name in self._folders(context).names]
        return Said("\n".join(["Allowed directories:", *names]))

    def _text(self, folders: Folders, path: str, room: int, head: int | None = None, tail: int | None = None) -> str:
        if head and tail:
            raise ToolError("head and tail cannot be given together; ask for one of them")
        root, place = folders.find(path)
        with os.fdopen(root.open_file(place), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            require_text(file.read(8_000), size, place, media_tool="read_media_file")
            file.seek(0)
            if tail:
                seek_tail(file, tail, size)
            text = file.read(4 * room + 4).decode("utf-8", "replace")
        if tail:
            text = text.replace("\r\n", "\n").removesuffix("\n")
        if head:
            text = "\n".join(text.removesuffix("\n").split("\n")[:head])
        if len(text) <= room:
            return text
        return f"{text[:room]}\n[cut here: the file has {size_text(size)}; head and tail give parts of it]"

    def _lines(self, lines: list[str], otherwise: str, remarks: list[str] | None = None) -> str:
        kept = fitting(lines, self._room)
        cut = [f"{len(kept):,} of {len(lines):,} are shown; {otherwise} gives others"] if len(kept) < len(lines) else []
        return with_remarks(kept, [*(remarks or []), *cut])


def _size(root: Root, place: Place) -> int:
    """Bytes, of what a link leads to; 0 where that cannot be known."""
    try:
        handle = open_beneath(root.handle, place.raw, PATH_HANDLE, follow_links=True)
    except OSError:
        return 0
    try:
        st = os.fstat(handle)
        return 0 if stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode) else st.st_size
    finally:
        os.close(handle)
