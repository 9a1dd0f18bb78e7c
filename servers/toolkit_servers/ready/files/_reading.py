"""The tools that look: none of them changes anything."""

from __future__ import annotations

import mimetypes
import os
import stat
from typing import Annotated, Literal

from pydantic import Field

from toolkit._base.words import size_text
from toolkit.errors import ToolError
from toolkit.tools import Audio, Image, Resource, ToolContext, tool
from toolkit_servers.ready.files import _grep
from toolkit_servers.ready.files.answers import (
    ListedEntry,
    info_text,
    listing_text,
    paths_text,
    picture_or_sound,
    tree_text,
)
from toolkit_servers.ready.files.root import FindRoot, Place, RootTools
from toolkit_servers.ready.files.stretch import Stretch, read_stretch
from toolkit_servers.ready.files.walk import Globs, Walk
from toolkit_workspace.changes import is_binary

_LARGEST_MEDIA = 10_000_000
_LARGEST_OTHER = 1_000_000
_MOST_FILES = 50
_SECONDS = 60.0

Exclude = Annotated[list[str] | None, Field(max_length=50), "Patterns of paths to leave out, as in a .gitignore file."]


class ReadTools(RootTools):
    """Reading tools over one root."""

    def __init__(self, find_root: FindRoot, max_chars: int, rights: str) -> None:
        super().__init__(find_root, max_chars)
        self._rights = rights

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def list_directory(
        self,
        context: ToolContext,
        path: str = ".",
        sort: Literal["name", "size", "modified"] = "name",
        details: bool = False,
    ) -> str:
        """List what is in a folder.

        Args:
            path: The folder.
            sort: By name, or the largest or the newest first.
            details: Also show sizes and times.
        """
        root, place = self._at(context, path)
        with root.folder(place) as folder:
            listed = (_listed(folder, name) for name in os.listdir(folder))  # noqa: PTH208  by handle
            entries = [entry for entry in listed if entry is not None]
        entries.sort(key=lambda entry: entry.name)
        if sort != "name":
            entries.sort(key=lambda e: e.size if sort == "size" else e.stat.st_mtime_ns, reverse=True)
        return listing_text(entries, self._room, details=details or sort != "name")

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def tree(
        self,
        context: ToolContext,
        path: str = ".",
        depth: Annotated[int, Field(ge=1, le=50)] = 3,
        exclude: Exclude = None,
    ) -> str:
        """Show a folder and what lies below it, indented by depth.

        Args:
            path: The folder.
            depth: How many levels to open.
        """
        root, place = self._at(context, path)
        return tree_text(Walk(root, place, context, Globs(exclude or ()), depth), self._room)

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def glob(self, pattern: str, context: ToolContext, path: str = ".", exclude: Exclude = None) -> str:
        """Find files and folders by name.

        Args:
            pattern: As in a .gitignore file: *.py anywhere, /*.py in this folder only, src/**/*.{ts,tsx}, build/.
            path: The folder to search; the pattern is relative to it.
        """
        root, place = self._at(context, path)
        wanted = Globs([pattern])
        walk = Walk(root, place, context, Globs(exclude or ()))
        paths = [
            str(place.child(entry.path)) + ("/" if entry.is_folder else "")
            for entry in walk
            if wanted.match(entry.path, entry.is_folder)
        ]
        return paths_text(paths, self._room, walk.remarks())

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def grep(
        self,
        pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
        context: ToolContext,
        path: str = ".",
        include: str | None = None,
        exclude: Exclude = None,
        ignore_case: bool = False,
        literal: bool = False,
        around: Annotated[int, Field(ge=0, le=20)] = 0,
        show: _grep.Show = "lines",
        limit: Annotated[int, Field(ge=1, le=5_000)] = 250,
    ) -> _grep.Matches:
        """Find lines in text files by regular expression (RE2 syntax: no look-around, no back references).

        Args:
            pattern: The expression, matched within a line.
            path: The file or folder to search.
            include: Only files that match this pattern, such as *.py or src/**/*.{ts,tsx}.
            ignore_case: Take capital and small letters for the same.
            literal: Take the pattern as plain text.
            around: Lines to show before and after each match.
            show: The matching lines, only the files that have some, or how many each has.
            limit: Most matching lines (or files) to give back.
        """
        root, place = self._at(context, path)
        expression = _grep.compile_expression(pattern, ignore_case=ignore_case, literal=literal)
        matches = _grep.Matches(show, self._room, limit)
        single = _grep.root_file(root, place)
        if single is not None:
            _grep.search_file(str(place), single, expression, matches, around)
            return matches
        walk = Walk(root, place, context, Globs(exclude or ()))
        return _grep.search(walk, Globs([include]) if include else None, expression, matches, around)

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def read_file(
        self,
        context: ToolContext,
        path: str,
        start: int = 1,
        lines: Annotated[int | None, Field(ge=1)] = None,
        numbers: bool = False,
    ) -> Stretch:
        """Read a text file, whole or in part.

        Args:
            path: The file.
            start: First line to read; -20 stands for the last twenty lines.
            lines: How many lines to read; all that fit if not given.
            numbers: Put line numbers before the lines.
        """
        root, place = self._at(context, path)
        handle = root.open_file(place)
        return read_stretch(handle, place, start=start, count=lines, room=self._room, numbered=numbers)

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def read_files(
        self, context: ToolContext, paths: Annotated[list[str], Field(min_length=1, max_length=_MOST_FILES)]
    ) -> str:
        """Read several text files at once. One that cannot be read does not stop the others.

        Args:
            paths: The files.
        """
        root = self._find_root(context)
        parts = []
        share = max(self._room // len(paths), 200)
        for path in paths:
            try:
                place = root.place(path)
                said = read_stretch(root.open_file(place), place, room=share).render()
                parts.append(f"==> {place} <==\n{said}")
            except ToolError as error:
                parts.append(f"==> not read <==\n{error}")
        return "\n\n".join(parts)

    @tool(read_only=True, timeout=_SECONDS, open_world=False)
    def read_media(self, context: ToolContext, path: str) -> Image | Audio | Resource:
        """Look at a picture, listen to a sound, or get another binary file as it is.

        Args:
            path: The file: a picture or sound of at most 10 MB, anything else of at most 1 MB.
        """
        root, place = self._at(context, path)
        with os.fdopen(root.open_file(place), "rb") as file:
            data = file.read(_LARGEST_MEDIA + 1)
            size = os.fstat(file.fileno()).st_size
        media = picture_or_sound(data, place) or _resource(data, place)
        most = _LARGEST_OTHER if isinstance(media, Resource) else _LARGEST_MEDIA
        if len(data) > most:
            raise ToolError(f"{place} has {size_text(size)}; at most {size_text(most)} of its kind can be sent")
        return media

    @tool(read_only=True, open_world=False)
    def info(self, context: ToolContext, path: str = ".") -> str:
        """Tell kind, size, times and permissions of a path; of the root, also what these tools may do.

        Args:
            path: A file or folder.
        """
        root, place = self._at(context, path)
        st = root.stat(place)
        target = None
        if stat.S_ISLNK(st.st_mode):
            with root.parent(place) as parent, root.in_words(place):
                target = os.readlink(place.name, dir_fd=parent)
        return info_text(place, st, target=target, rights=None if place.path else self._rights)


def _listed(folder: int, name: str) -> ListedEntry | None:
    """One name in a folder; None if it has gone meanwhile."""
    try:
        st = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return ListedEntry(name, st, os.readlink(name, dir_fd=folder) if stat.S_ISLNK(st.st_mode) else None)
    except OSError:
        return None


def _resource(data: bytes, place: Place) -> Resource:
    if not is_binary(data):
        raise ToolError(f"{place} is text: use read_file")
    return Resource(f"files:///{place.path}", data, mimetypes.guess_type(place.name)[0])
