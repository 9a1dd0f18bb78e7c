"""Several folders as one world: an absolute path lies in one of them, a relative one begins at the first."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from toolkit.errors import ToolError
from toolkit.tools import ToolContext
from toolkit_servers.ready.files.root import Place, Root, as_path

_OF_WINDOWS = re.compile(r"[A-Za-z]:([\\/]|$)")

AnyPath = Annotated[str, "Absolute, below an allowed directory, or relative to the first of them."]


@dataclass(frozen=True, slots=True)
class Folders:
    """The allowed directories; at least one."""

    roots: tuple[Root, ...]

    @property
    def names(self) -> list[str]:
        """Every path by which an allowed directory is known."""
        return [name for root in self.roots for name in root.names]

    def find(self, path: str) -> tuple[Root, Place]:
        """The directory a path lies in, the innermost where one holds another, and its place there."""
        if _OF_WINDOWS.match(path):
            raise ToolError(f"{as_path(path)} is a path of Windows, and this is another system")
        wanted = path
        if path == "~" or path.startswith("~/"):
            wanted = str(Path(path).expanduser())
        wanted = posixpath.normpath(posixpath.join(self.roots[0].names[0], wanted))
        wanted = "/" + wanted.lstrip("/")
        holding = [(len(name), root) for root in self.roots for name in root.names if _is_below(wanted, name)]
        if not holding:
            allowed = ", ".join(as_path(name) for name in self.names)
            raise ToolError(f"{as_path(path)} is outside the allowed directories: {allowed}")
        root = max(holding, key=lambda one: one[0])[1]
        return root, root.place(wanted)


FindFolders = Callable[[ToolContext], Folders]
"""The folders that a call works on."""


class FoldersTools:
    """Tools over some folders, whose results have at most about `max_chars` characters."""

    def __init__(self, find_folders: FindFolders, max_chars: int) -> None:
        self._folders = find_folders
        self._room = max_chars


@dataclass(frozen=True, slots=True)
class Said:
    """A text, as every one of these tools answers."""

    content: str

    def render(self) -> str:
        """The text as it is."""
        return self.content


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
