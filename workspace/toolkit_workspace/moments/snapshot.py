"""Remember how a workspace looks, compare two such moments, and go back to one.

A snapshot stores only what differs from the prepared state, by digest, so equal
contents are stored once; all else is known from the manifest. No git repository
is needed, and one in the tree is treated like any other files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.changes import Changes, build_changes
from toolkit_workspace.changes.compare import Pair, compare, is_equal, recorded
from toolkit_workspace.moments.objects import Objects
from toolkit_workspace.moments.rewrite import rewrite
from toolkit_workspace.record.bases import Bases
from toolkit_workspace.record.content import ContentGone, Node
from toolkit_workspace.record.hosts import Hosts
from toolkit_workspace.record.manifest import Entry, Manifest
from toolkit_workspace.record.prepared import Prepared


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One remembered moment of a workspace."""

    number: int
    label: str
    taken: float
    """Seconds since the epoch."""
    changed: int
    """How many paths differed from the prepared state."""


@dataclass(slots=True)
class _View:
    """A workspace at one moment: a manifest, and what differed from it."""

    manifest: Manifest
    bases: Bases
    changed: dict[bytes, Node | None]

    def get(self, path: bytes) -> Node | None:
        if path in self.changed:
            return self.changed[path]
        entry = self.manifest.get(path)
        return None if entry is None else recorded(entry, self.bases)

    def link(self, path: bytes) -> bytes | None:
        node = self.get(path)
        return None if node is None else node.target


class Snapshots:
    """The snapshots of one prepared workspace, kept in its state folder."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._folder = prepared.state / "snapshots"
        self._objects = Objects(prepared.state / "objects")
        self._pinned: tuple[int, str] | None = None

    def __iter__(self) -> Iterator[Snapshot]:
        numbers = sorted(int(file.stem) for file in self._folder.glob("*.json"))
        return iter([self._facts(number)[0] for number in numbers])

    def take(self, label: str) -> Snapshot:
        """Remember how the workspace looks now."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        pairs = self._now()
        numbers = [snapshot.number for snapshot in self]
        snapshot = Snapshot(max(numbers, default=0) + 1, label, time.time(), len(pairs))
        nodes = {os.fsdecode(pair.path): self._stored(pair.new) for pair in pairs}
        facts = {"label": label, "taken": snapshot.taken, "manifest": self._pin(), "nodes": nodes}
        file = self._folder / f"{snapshot.number}.json"
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(facts), encoding="utf-8")
        temporary.replace(file)
        return snapshot

    def find(self, snapshot: Snapshot | str) -> Snapshot:
        """The snapshot itself, or the latest with this label.

        Raises:
            WorkspaceError: there is none.
        """
        known = list(self)
        for one in reversed(known):
            if snapshot in (one, one.label):
                return one
        raise WorkspaceError(
            f"this workspace has no snapshot {snapshot if isinstance(snapshot, str) else snapshot.label!r}",
            fix=f"It has: {', '.join(repr(one.label) for one in known) or 'none'}",
        )

    def diff(self, a: Snapshot | str | None = None, b: Snapshot | str | None = None) -> Changes:
        """What changed from `a` (the prepared state if None) to `b` (now if None)."""
        with Hosts(self._prepared.manifest.mounts) as hosts:
            before = self._view_of(a, hosts) if a is not None else self._view(self._prepared.manifest, hosts, {})
            after = self._view_of(b, hosts) if b is not None else self._view_now(hosts)
            return build_changes(_differing(before, after), after.manifest, after.link)

    def rewind(self, snapshot: Snapshot | str) -> Snapshot:
        """Make the workspace look as it did; what it looked like until now is the returned snapshot.

        Raises:
            WorkspaceError: bytes it had then can no longer be found; the workspace was not touched.
        """
        goal = self.find(snapshot)
        until_now = self.take(f"before rewinding to {goal.label}")
        with Hosts(self._prepared.manifest.mounts) as hosts, self._prepared.opened() as root:
            rewrite(root, _differing(self._view_now(hosts), self._view_of(goal, hosts)))
        return until_now

    def keep_before_apply(self, entries: list[Entry]) -> None:
        """Keep the bytes of files whose host version is about to go and which a snapshot may still need."""
        pinned = sorted(self._folder.glob("manifest-*"))
        if not pinned:
            return
        kept: list[Entry] = []
        with Hosts(self._prepared.manifest.mounts) as hosts:
            bases = Bases(self._prepared.manifest, self._prepared.store, hosts)
            for entry in entries:
                content = bases.content(entry)
                if entry.base < 0 and content is not None:
                    with suppress(ContentGone):
                        kept.append(replace(entry, base=self._prepared.store.append([content.read()])[0]))
                elif entry.base >= 0:
                    kept.append(entry)
        for file in pinned:
            manifest = Manifest.load(file)
            for entry in kept:
                pinned_entry = manifest.get(entry.path)
                if pinned_entry is not None and replace(pinned_entry, base=entry.base) == entry:
                    manifest.put(entry)
            manifest.save(file)

    def _now(self) -> list[Pair]:
        with Hosts(self._prepared.manifest.mounts) as hosts:
            return compare(self._prepared, Bases(self._prepared.manifest, self._prepared.store, hosts))

    def _view_now(self, hosts: Hosts) -> _View:
        return self._view(self._prepared.manifest, hosts, {pair.path: pair.new for pair in self._now()})

    def _view_of(self, snapshot: Snapshot | str, hosts: Hosts) -> _View:
        _, facts = self._facts(self.find(snapshot).number)
        manifest = Manifest.load(self._folder / facts["manifest"])
        return self._view(manifest, hosts, {os.fsencode(p): self._node(n) for p, n in facts["nodes"].items()})

    def _view(self, manifest: Manifest, hosts: Hosts, changed: dict[bytes, Node | None]) -> _View:
        return _View(manifest, Bases(manifest, self._prepared.store, hosts), changed)

    def _facts(self, number: int) -> tuple[Snapshot, dict[str, Any]]:
        file = self._folder / f"{number}.json"
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            return Snapshot(number, facts["label"], facts["taken"], len(facts["nodes"])), facts
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkspaceError("a snapshot cannot be read", where=[f"{file}: {error}"]) from error

    def _pin(self) -> str:
        """Keep the manifest as it is now, once for all snapshots in a row that build on it."""
        numbers = [int(one.name.partition("-")[2]) for one in self._folder.glob("manifest-*")]
        edits = self._prepared.manifest.edits
        if self._pinned is None or self._pinned[0] != edits:
            name = f"manifest-{max(numbers, default=0) + 1}"
            self._prepared.manifest.save(self._folder / name)
            self._pinned = (edits, name)
        return self._pinned[1]

    def _stored(self, node: Node | None) -> dict[str, Any] | None:
        if node is None or node.kind == "s":
            return None
        facts: dict[str, Any] = {"kind": node.kind, "mode": node.mode, "size": node.size}
        facts["target"] = None if node.target is None else os.fsdecode(node.target)
        facts["sha256"] = self._objects.keep(node.content) if node.content is not None else None
        return facts

    def _node(self, facts: dict[str, Any] | None) -> Node | None:
        if facts is None:
            return None
        digest, target = facts["sha256"], facts["target"]
        content = None if digest is None else self._objects.content(digest, facts["size"])
        return Node(facts["kind"], facts["mode"], facts["size"], target and os.fsencode(target), content)


def _differing(before: _View, after: _View) -> list[Pair]:
    paths = {*before.changed, *after.changed}
    if before.manifest is not after.manifest:
        paths |= _differing_paths(before.manifest, after.manifest)
    pairs = [Pair(path, before.get(path), after.get(path)) for path in sorted(paths)]
    return [pair for pair in pairs if not is_equal(pair.old, pair.new)]


def _differing_paths(a: Manifest, b: Manifest) -> set[bytes]:
    """The paths whose entries differ between two records; where bytes are kept is no difference."""
    different: set[bytes] = set()
    for path in {*a.folders, *b.folders}:
        one, other = a.entries_in(path), b.entries_in(path)
        different |= {each for each in {*one, *other} if not _same_version(one.get(each), other.get(each))}
    return different


def _same_version(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.ctime_ns, one.inode, one.target) == (
        other.kind, other.mode, other.ctime_ns, other.inode, other.target,
    )  # fmt: skip
