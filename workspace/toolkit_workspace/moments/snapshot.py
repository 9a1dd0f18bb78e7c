"""Remember how a workspace looks, compare two such moments, and go back to one.

A snapshot stores only what differs from the prepared state, by digest, so equal
contents are stored once; all else is known from the record. No git repository
is needed, and one in the tree is treated like any other files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.changes import Changes, build_changes
from toolkit_workspace.changes.compare import Pair, compare, is_equal, recorded
from toolkit_workspace.moments.objects import Objects
from toolkit_workspace.moments.rewrite import rewrite
from toolkit_workspace.record.bases import Bases
from toolkit_workspace.record.content import ContentGone, Node
from toolkit_workspace.record.hosts import Hosts
from toolkit_workspace.record.record import Record, Row
from toolkit_workspace.workspace import Workspace


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
    """A workspace at one moment: a record, and what differed from it."""

    record: Record
    bases: Bases
    changed: dict[bytes, Node | None]

    def get(self, path: bytes) -> Node | None:
        if path in self.changed:
            return self.changed[path]
        entry = self.record.get(path)
        return None if entry is None else recorded(entry, self.bases)

    def link(self, path: bytes) -> bytes | None:
        node = self.get(path)
        return None if node is None else node.target


class Snapshots:
    """The snapshots of one prepared workspace, kept in its state folder."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._folder = workspace.state_dir / "snapshots"
        self._objects = Objects(workspace.state_dir / "objects")
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
        facts = {"label": label, "taken": snapshot.taken, "record": self._pin(), "nodes": nodes}
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
        with Hosts(self._workspace.record.mounts) as hosts:
            before = self._view_of(a, hosts) if a is not None else self._view(self._workspace.record, hosts, {})
            after = self._view_of(b, hosts) if b is not None else self._view_now(hosts)
            return build_changes(_differing(before, after), after.record, after.link)

    def rewind(self, snapshot: Snapshot | str) -> Snapshot:
        """Make the workspace look as it did; what it looked like until now is the returned snapshot.

        Raises:
            WorkspaceError: bytes it had then can no longer be found; the workspace was not touched.
        """
        goal = self.find(snapshot)
        until_now = self.take(f"before rewinding to {goal.label}")
        with Hosts(self._workspace.record.mounts) as hosts, self._workspace.opened() as root:
            rewrite(root, _differing(self._view_now(hosts), self._view_of(goal, hosts)))
        return until_now

    def keep_before_apply(self, entries: list[Row]) -> None:
        """Keep the bytes of files whose host version is about to go and which a snapshot may still need."""
        pinned = sorted(self._folder.glob("record-*"))
        if not pinned:
            return
        kept: list[Row] = []
        with Hosts(self._workspace.record.mounts) as hosts:
            bases = Bases(self._workspace.record, self._workspace.store, hosts)
            for entry in entries:
                content = bases.content(entry)
                if entry.base < 0 and content is not None:
                    with suppress(ContentGone):
                        kept.append(entry._replace(base=self._workspace.store.append([content.read()])[0]))
                elif entry.base >= 0:
                    kept.append(entry)
        for file in pinned:
            record = Record.load(file)
            for entry in kept:
                pinned_entry = record.get(entry.path)
                if pinned_entry is not None and pinned_entry._replace(base=entry.base) == entry:
                    record.put(entry)
            record.save(file)

    def _now(self) -> list[Pair]:
        with Hosts(self._workspace.record.mounts) as hosts:
            return compare(self._workspace, Bases(self._workspace.record, self._workspace.store, hosts))

    def _view_now(self, hosts: Hosts) -> _View:
        return self._view(self._workspace.record, hosts, {pair.path: pair.new for pair in self._now()})

    def _view_of(self, snapshot: Snapshot | str, hosts: Hosts) -> _View:
        _, facts = self._facts(self.find(snapshot).number)
        record = Record.load(self._folder / facts["record"])
        return self._view(record, hosts, {os.fsencode(p): self._node(n) for p, n in facts["nodes"].items()})

    def _view(self, record: Record, hosts: Hosts, changed: dict[bytes, Node | None]) -> _View:
        return _View(record, Bases(record, self._workspace.store, hosts), changed)

    def _facts(self, number: int) -> tuple[Snapshot, dict[str, Any]]:
        file = self._folder / f"{number}.json"
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            return Snapshot(number, facts["label"], facts["taken"], len(facts["nodes"])), facts
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkspaceError("a snapshot cannot be read", where=[f"{file}: {error}"]) from error

    def _pin(self) -> str:
        """Keep the record as it is now, once for all snapshots in a row that build on it."""
        numbers = [int(one.name.partition("-")[2]) for one in self._folder.glob("record-*")]
        edits = self._workspace.record.edits
        if self._pinned is None or self._pinned[0] != edits:
            name = f"record-{max(numbers, default=0) + 1}"
            self._workspace.record.save(self._folder / name)
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
    if before.record is not after.record:
        paths |= _differing_paths(before.record, after.record)
    pairs = [Pair(path, before.get(path), after.get(path)) for path in sorted(paths)]
    return [pair for pair in pairs if not is_equal(pair.old, pair.new)]


def _differing_paths(a: Record, b: Record) -> set[bytes]:
    """The paths whose entries differ between two records; where bytes are kept is no difference."""
    different: set[bytes] = set()
    for path in {*a.folders, *b.folders}:
        one, other = a.rows_in(path), b.rows_in(path)
        different |= {each for each in {*one, *other} if not _same_version(one.get(each), other.get(each))}
    return different


def _same_version(one: Row | None, other: Row | None) -> bool:
    if one is None or other is None:
        return one is other
    a, b = one.copy, other.copy
    same_copy = (a.ctime_ns, a.inode) == (b.ctime_ns, b.inode)
    return same_copy and (one.kind, one.mode, one.target) == (other.kind, other.mode, other.target)
