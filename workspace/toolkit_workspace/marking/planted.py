"""Folders that git takes for a repository by what is in them, whatever they are called.

Git looks for a repository from the folder it is started in upwards. A folder with a
`HEAD`, `objects` and `refs` is one, and git then obeys its `config`, which can name
programs to run (`core.fsmonitor`, for `git status` alone). So does one whose
`commondir` says that the rest lies elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

IN_A_REPOSITORY = "in a folder that git takes for a repository, whose settings can run programs"

Entries = Callable[[str], Collection[str]]
"""The names in a folder of the workspace; that itself is the empty path."""


def planted_repository(path: str, entries: Entries) -> str | None:
    """The outermost folder around a path, not called `.git`, that git takes for a repository; None if none does."""
    parts = path.split("/")
    for depth in range(len(parts)):
        if depth and parts[depth - 1].lower() == ".git":
            return None
        folder = "/".join(parts[:depth])
        names = {name.lower() for name in entries(folder)}
        if "head" in names and ({"objects", "refs"} <= names or "commondir" in names):
            return folder or "."
    return None
