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


class PlantedRepositories:
    """Folders that are repositories without being called `.git`; every folder is looked at once."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._known: dict[str, str] = {}
        """For each folder the outermost repository around it; "" where there is none, ".git" in a folder called so."""

    def around(self, path: str) -> str | None:
        """The outermost folder around a path, not called `.git`, that git takes for a repository; None if none does."""
        folder, unknown = path.rpartition("/")[0], []
        while folder not in self._known:
            unknown.append(folder)
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        for folder in reversed(unknown):
            self._known[folder] = self._judged(folder)
        found = self._known[folder]
        return found if found not in ("", ".git") else None

    def _judged(self, folder: str) -> str:
        above, _, last = folder.rpartition("/")
        if folder and self._known[above]:
            return self._known[above]
        if last.lower() == ".git":
            return ".git"
        names = {name.lower() for name in self._entries(folder)}
        is_one = "head" in names and ({"objects", "refs"} <= names or "commondir" in names)
        return (folder or ".") if is_one else ""
