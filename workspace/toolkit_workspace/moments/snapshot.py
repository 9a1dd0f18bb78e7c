"""Remember how a workspace looks, compare two such moments, and go back to one.

A snapshot stores only what differs from what was prepared, by digest, so equal
contents are stored once; all else is known from the record. No git repository
is needed, and one in the tree is treated like any other files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolkit._base.files import is_there, replacing, write_json
from toolkit._base.words import size_text
from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.changes import Changes, changes_from, without_aside
from toolkit_workspace.changes.scan import Pair, scan
from toolkit_workspace.moments.from_host import came_from_host, set_rows_back
from toolkit_workspace.moments.rewrite import refuse_lost, rewrite
from toolkit_workspace.record.content import Content, ContentGone, Hosts, Node, open_file, open_stored
from toolkit_workspace.record.record import Record, Row
from toolkit_workspace.record.trouble import in_words
from toolkit_workspace.workspace import Workspace

_RECORD = "record-"


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
class _Moment:
    """A workspace as it looked: a record, and what differed from it."""

    hosts: Hosts
    changed: dict[bytes, Node | None]
    files: Callable[[], int] | None = None
    """Opens the folder in which all else is still as the record says; None for a moment that is over."""

    @property
    def record(self) -> Record:
        return self.hosts.record

    def get(self, path: bytes) -> Node | None:
        if path in self.changed:
            return self.changed[path]
        row = self.record.get(path)
        if row is None:
            return None
        node = self.hosts.recorded(row)
        if node.kind == "f" and node.content is None and self.files is not None:
            own = Content(partial(open_file, self.files, path), node.size, stamp=row.copy)
            node = replace(node, content=own)
        return node

    def link(self, path: bytes) -> bytes | None:
        node = self.get(path)
        return None if node is None else node.target


class Snapshots:
    """The snapshots of one prepared workspace, kept beside it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._folder = workspace.state_dir / "snapshots"
        self._contents = workspace.state_dir / "objects"
        """Contents by their digest: the same bytes are stored once, however often they are kept."""
        self._pinned: tuple[int, str] | None = None
        self._under_way = self._folder / "rewinding"
        """There while a rewind is under way, and after one that was interrupted."""

    def __iter__(self) -> Iterator[Snapshot]:
        return iter([self._facts(number)[0] for number in self._numbers("", ".json")])

    def take(self, label: str, *, most_bytes: int | None = None) -> Snapshot:
        """Remember how the workspace looks now.

        Raises:
            WorkspaceError: what changed is more than `most_bytes`. Holes count: they become bytes.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as opened:
            changed = self._now(opened).changed
        size = sum(node.size for node in changed.values() if node is not None)
        if most_bytes is not None and size > most_bytes:
            what = f"what changed is too large for a snapshot: {size_text(size)} of at most {size_text(most_bytes)}"
            raise WorkspaceError(what, fix="Remove large files, or allow more: limits=Limits(workspace_bytes=…)")
        number = max((one.number for one in self), default=0) + 1
        nodes = {os.fsdecode(path): self._stored(node) for path, node in changed.items()}
        snapshot = Snapshot(number, label, time.time(), self._counted(nodes))
        facts = {"label": label, "taken": snapshot.taken, "record": self._pin(), "nodes": nodes}
        write_json(self._folder / f"{number}.json", facts)
        return snapshot

    def numbered(self, number: int) -> Snapshot:
        """The snapshot of this number.

        Raises:
            WorkspaceError: there is none, or it cannot be read.
        """
        return self._facts(number)[0]

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
        with ExitStack() as opened:
            before = self._prepared_then(opened) if a is None else self._moment(a, opened)
            after = self._now(opened) if b is None else self._moment(b, opened)
            differing = without_aside(_differing(before, after), self._workspace.aside)
            return changes_from(differing, after.record, after.link)

    def rewind(
        self,
        snapshot: Snapshot | str,
        *,
        until_now: Snapshot | None = None,
        and_then: Callable[[], None] = lambda: None,
    ) -> Snapshot:
        """Make the workspace look as it did; what it looked like until now is the returned snapshot.

        It counts as finished only once `and_then` has returned. `until_now` is given where it was taken already.

        Raises:
            WorkspaceError: bytes it had then can no longer be found, and the workspace was not touched; or it
                cannot be written, and what it looked like is kept as the last snapshot.
        """
        goal = self.find(snapshot)
        until_now = until_now or self.take(f"before rewinding to {goal.label}")
        with ExitStack() as opened, self._workspace.opened() as root:
            then = self._moment(goal, opened)
            differing = _differing(self._now(opened), then)
            refuse_lost(differing)
            fix = f"Rewind again, or go back with the snapshot {until_now.label!r}."
            with in_words("the workspace cannot be rewound in full", at=self._workspace.folder, fix=fix):
                write_json(self._under_way, {"goal": goal.number, "back": until_now.number})
                rewrite(root, differing)
                set_rows_back(self._workspace, root, then.record, came_from_host(self._folder), {*then.changed})
                and_then()
                self._under_way.unlink()
        return until_now

    @property
    def unfinished(self) -> Snapshot | None:
        """Where a rewind was to go that was interrupted; the workspace is neither there nor where it was."""
        if not is_there(self._under_way):
            return None
        return self._facts(int(json.loads(self._under_way.read_bytes())["goal"]))[0]

    def keep_before_apply(self, rows: list[Row]) -> None:
        """Keep the bytes of files whose host version is about to go and which a snapshot may still need."""
        pinned = [self._folder / f"{_RECORD}{number}" for number in self._numbers(_RECORD, "")]
        if not pinned:
            return
        kept: list[Row] = []
        with Hosts(self._workspace.record, self._workspace.store) as hosts:
            for row in rows:
                content = hosts.base(row)
                if row.base < 0 and content is not None:
                    with suppress(ContentGone):
                        kept.append(row._replace(base=self._workspace.store.append([content.read()])))
                elif row.base >= 0:
                    kept.append(row)
        for file in pinned:
            record = Record.load(file)
            for row in kept:
                then = record.get(row.path)
                if then is not None and then._replace(base=row.base) == row:
                    record.put(row)
            record.save(file)

    def _numbers(self, before: str, after: str) -> list[int]:
        """The numbers in the names of files that are whole, in order; what a killed process left is none of them.

        Raises:
            OSError: the folder cannot be read.
        """
        try:
            names = [file.name for file in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        found = [re.fullmatch(rf"{before}(\d+){re.escape(after)}", name, re.ASCII) for name in names]
        return sorted(int(one[1]) for one in found if one is not None)

    def _prepared_then(self, opened: ExitStack) -> _Moment:
        return _Moment(opened.enter_context(Hosts(self._workspace.record, self._workspace.store)), {})

    def _now(self, opened: ExitStack) -> _Moment:
        now = self._prepared_then(opened)
        with self._workspace.opened() as root:
            now.changed = {pair.path: pair.new for pair in scan(self._workspace, root, now.hosts)}
        now.files = self._workspace.open
        return now

    def _moment(self, snapshot: Snapshot | str, opened: ExitStack) -> _Moment:
        _, facts = self._facts(self.find(snapshot).number)
        record = Record.load(self._folder / facts["record"])
        hosts = opened.enter_context(Hosts(record, self._workspace.store))
        return _Moment(hosts, {os.fsencode(path): self._node(node) for path, node in facts["nodes"].items()})

    def _facts(self, number: int) -> tuple[Snapshot, dict[str, Any]]:
        file = self._folder / f"{number}.json"
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            return Snapshot(number, facts["label"], facts["taken"], self._counted(facts["nodes"])), facts
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkspaceError("a snapshot cannot be read", where=[f"{file}: {error}"]) from error

    def _counted(self, paths: Iterable[str]) -> int:
        """How many of them the changes show: not what is lent, nor what is in the copy's own git folders."""
        aside = [os.fsdecode(place) for place in self._workspace.aside]
        below = tuple(f"{place}/" for place in aside)
        return sum(path not in aside and not path.startswith(below) for path in paths)

    def _pin(self) -> str:
        """Keep the record as it is now, once for all snapshots in a row that build on it."""
        numbers = self._numbers(_RECORD, "")
        edits = self._workspace.record.edits
        if self._pinned is None or self._pinned[0] != edits:
            name = f"{_RECORD}{max(numbers, default=0) + 1}"
            self._workspace.record.save(self._folder / name)
            self._pinned = (edits, name)
        return self._pinned[1]

    def _stored(self, node: Node | None) -> dict[str, Any] | None:
        if node is None or node.kind == "s":
            return None
        facts: dict[str, Any] = {"kind": node.kind, "mode": node.mode, "size": node.size}
        facts["target"] = None if node.target is None else os.fsdecode(node.target)
        facts["sha256"] = self._keep(node.content) if node.content is not None else None
        return facts

    def _node(self, facts: dict[str, Any] | None) -> Node | None:
        if facts is None:
            return None
        digest, target = facts["sha256"], facts["target"]
        content = None if digest is None else Content(partial(open_stored, self._contents / digest), facts["size"])
        return Node(facts["kind"], facts["mode"], facts["size"], target and os.fsencode(target), content)

    def _keep(self, content: Content) -> str:
        """Store bytes unless they are here already, and return their digest."""
        name, written = content.sha256(), hashlib.sha256()
        if is_there(self._contents / name):
            return name
        self._contents.mkdir(mode=0o700, exist_ok=True)
        with replacing(self._contents / name) as out:
            for piece in content.chunks():
                written.update(piece)
                out.write(piece)
            if written.hexdigest() != name:
                raise ContentGone("a file changed while it was kept")
        return name


def _differing(before: _Moment, after: _Moment) -> list[Pair]:
    paths = {*before.changed, *after.changed}
    if before.record is not after.record:
        paths |= _differing_paths(before.record, after.record)
    pairs = [Pair(path, before.get(path), after.get(path)) for path in sorted(paths)]
    return [pair for pair in pairs if pair.differs]


def _differing_paths(a: Record, b: Record) -> set[bytes]:
    """The paths whose rows differ between two records; where bytes are kept is no difference."""
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
