"""What of an agent's commits comes along: the same rules as for its files, judged in the tree of each commit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from toolkit._base.words import hidden_in, safe_name
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.changes.marks import leads_out
from toolkit_workspace.changes.patch import TOO_LONG, is_too_long
from toolkit_workspace.delivering.commits import AgentCommit
from toolkit_workspace.git import Origin
from toolkit_workspace.marking import Entries, PlantedRepositories, marks_for_spelling, marks_for_use
from toolkit_workspace.quarantine import Entry, Quarantine, Tree

_LARGEST_LINK = 4096
_LARGEST_SEARCHED = 1 << 20
_SUBMODULE = "a submodule: its own commit is never changed by a branch"
LINK, SUBMODULE = "120000", "160000"


class Vetting:
    """Judges the commits of one origin."""

    def __init__(
        self, quarantine: Quarantine, origin: Origin, base: Tree, aside: Iterable[str], protected: Iterable[str] = ()
    ) -> None:
        self._quarantine, self._origin, self._base = quarantine, origin, base
        self._aside = tuple(aside)
        self._protected = tuple(os.path.normpath(path) for path in protected)
        self.left: dict[str, str] = {}
        """Paths of the repository that do not come along, with the reason."""
        self.marks: dict[str, tuple[str, ...]] = {}
        """Reasons to look twice, by path."""

    def wanted(self, commit: AgentCommit) -> dict[str, Entry | None]:
        """What of a commit comes along.

        Raises:
            WorkspaceSecurityError: a link in it leads out of the repository.
        """
        repositories = PlantedRepositories(_names_in(self._base, commit.changed))
        new = [path for path, entry in commit.changed.items() if entry is not None and path not in self._base]
        new = [path for path in new if not is_too_long(path)]
        ignored = self._quarantine.ignored(new)
        wanted: dict[str, Entry | None] = {}
        for path, entry in commit.changed.items():
            reason = self._why_left(path, entry, path in ignored, repositories.around(path))
            if reason:
                self.left.setdefault(path, reason)
                continue
            if entry is not None:
                self._refuse_link_out(commit, path, entry)
            wanted[path] = entry
        self._mark(wanted)
        return wanted

    def _why_left(self, path: str, entry: Entry | None, is_ignored: bool, planted: str | None) -> str:
        there = entry or self._base.get(path)
        if there is not None and there.mode == SUBMODULE:
            return _SUBMODULE
        place = self._origin.in_workspace(path) or ""
        if any(place == one or place.startswith(f"{one}/") for one in self._aside):
            return "it is shown from the host"
        spellings = (path, place, f"{self._origin.top}/{path}")
        if any(one == name or one.startswith(f"{name}/") for one in spellings for name in self._protected):
            return "it is protected: a commit does not change it either"
        if is_too_long(path):
            return TOO_LONG
        if is_ignored:
            return "the project ignores it, or it is a cache"
        return f"git takes {safe_name(planted)} for a repository" if planted and entry is not None else ""

    def _refuse_link_out(self, commit: AgentCommit, path: str, entry: Entry) -> None:
        if entry.mode != LINK:
            return

        def read_link(below: bytes) -> bytes | None:
            name = os.fsdecode(below)
            there = commit.changed[name] if name in commit.changed else self._base.get(name)
            return None if there is None or there.mode != LINK else self._quarantine.read(there.oid)

        target = self._quarantine.read(entry.oid)
        if len(target) > _LARGEST_LINK or leads_out(read_link, os.fsencode(path), target):
            raise WorkspaceSecurityError(
                "refusing a commit of the agent with a link that leads out of the repository",
                where=[f"{commit.oid[:12]} {safe_name(path)} → {safe_name(target)}"],
                rule="link",
                fix="Nothing was written. To take the files as they are in the end, as one commit: --squash",
            )

    def _mark(self, wanted: Mapping[str, Entry | None]) -> None:
        """Note the reasons to look twice at what a commit has; the first commit with a path speaks for it."""
        new = {path: entry for path, entry in wanted.items() if entry is not None and path not in self.marks}
        files = {path: entry.oid for path, entry in new.items() if entry.is_file}
        texts = self._quarantine.read_all(files.values(), _LARGEST_SEARCHED)
        for path in new:
            marks = marks_for_use(path) + marks_for_spelling(path.rpartition("/")[2])
            data = texts.get(files.get(path, ""), b"")
            text = "" if data.isascii() or b"\0" in data else data.decode("utf-8", "replace")
            found = {f"U+{ord(char):04X}" for _, char in hidden_in(text.removeprefix("\ufeff"))}
            marks += [f"invisible or misleading characters: {', '.join(sorted(found)[:4])}"] if found else []
            self.marks[path] = tuple(dict.fromkeys(marks))


def _names_in(base: Tree, changed: Mapping[str, Entry | None]) -> Entries:
    """The names in a folder of a tree with some paths changed."""
    folders: dict[str, set[str]] = {}
    gone = {path for path, entry in changed.items() if entry is None}
    for path in (*(one for one in base if one not in gone), *(one for one in changed if one not in gone)):
        at = path
        while at:
            folder, _, name = at.rpartition("/")
            known = folders.setdefault(folder, set())
            if name in known:
                break
            known.add(name)
            at = folder
    return lambda folder: folders.get(folder, ())
