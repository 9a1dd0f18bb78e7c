"""Bring what an agent made of files onto a commit: three versions of each path, and one that comes of them.

The agent worked on files as they lay in the owner's work tree, which may have had
changes that were not committed. Those are not the agent's. So its version is compared
with the file it was given, and the difference is put on what the commit has. Everything
here is blobs, as git keeps them, so line ends do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit_workspace.applying.merge import merge
from toolkit_workspace.quarantine import Entry, Quarantine, Tree
from toolkit_workspace.record.content import is_binary

_LARGEST_MERGED = 8 << 20


class Clash(Exception):
    """Why a path cannot be brought onto a commit, for people."""


@dataclass(slots=True)
class Ground:
    """What an agent was given, and the commit that its work is put on."""

    quarantine: Quarantine
    base: Tree
    """The commit that was checked out when the run began."""
    onto: Tree
    given: dict[str, Entry | None] = field(default_factory=dict)
    """The files as the agent was given them, where that is known to differ from `base` or was looked at."""
    onto_is_base: bool = True

    def was_given(self, path: str) -> Entry | None:
        return self.given[path] if path in self.given else self.base.get(path)

    def is_uncommitted(self, path: str) -> bool:
        """Whether the owner had changed a file and not committed it."""
        return self.was_given(path) != self.base.get(path)

    def bring(self, path: str, new: Entry | None, *, from_path: str | None = None) -> Entry | None:
        """What the commit gets at a path where the agent has `new`; `from_path` is where it was before.

        Raises:
            Clash: nobody can say.
        """
        old_path = from_path or path
        was, has = self.was_given(old_path), self.onto.get(old_path)
        if from_path is not None and self.onto.get(path) not in (None, new):
            raise Clash(f"{self._where()} has another file of this name")
        return self._merged(old_path, was, has, new)

    def _merged(self, path: str, was: Entry | None, has: Entry | None, new: Entry | None) -> Entry | None:
        if new == was:
            return has
        if new == has or has == was:
            return new
        if was is None:
            raise Clash(f"{self._where()} has another file of this name")
        if has is None and new is None:
            return None
        if has is None:
            uncommitted = self.onto_is_base or path not in self.base
            raise Clash("it was not committed when the run began" if uncommitted else f"{self._where()} has it no more")
        if new is None or not (was.is_file and has.is_file and new.is_file):
            raise Clash(self._changed_twice(path))
        mode = has.mode if new.mode == was.mode else new.mode
        if new.oid == was.oid or new.oid == has.oid:
            return Entry(mode, has.oid)
        return Entry(mode, self._text(path, was, has, new))

    def _text(self, path: str, was: Entry, has: Entry, new: Entry) -> str:
        if has.oid == was.oid:
            return new.oid
        texts = [self.quarantine.read(one.oid) for one in (was, has, new)]
        if any(is_binary(text) or len(text) > _LARGEST_MERGED for text in texts):
            raise Clash(f"{self._changed_twice(path)}, and it is no text that merges")
        merged = merge(*texts)
        if merged.conflicts:
            raise Clash(self._changed_twice(path))
        return self.quarantine.write(merged.data)

    def _changed_twice(self, path: str) -> str:
        if self.is_uncommitted(path) and self.onto_is_base:
            return "it had changes that were not committed when the run began, in the same place"
        return f"{self._where()} changed it as well"

    def _where(self) -> str:
        return "the commit" if self.onto_is_base else "the commit it goes onto"


def overlaid(tree: Tree, changed: Mapping[str, Entry | None]) -> Tree:
    """A tree with some paths changed; None takes one away."""
    new = {path: entry for path, entry in tree.items() if changed.get(path, entry) is not None}
    return new | {path: entry for path, entry in changed.items() if entry is not None}
