"""The journal that makes an apply undoable, and the steps on the host that it leads.

Before the first step, the plan and all bytes it needs, old and new, are on disk
beside the workspace. Each step can be recognised as made or not made by looking
at the host, so after a kill at any point `resume` makes the rest and `undo` takes
back what was made. The journal of a finished apply is kept until the next one, so
that it can still be undone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from toolkit._base.files import write_json, write_new
from toolkit._base.handles import READ_DIR, READ_FILE
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.record import ByteStore
from toolkit_workspace.record.content import Content, ContentGone, Hosts, Node, Source, leads_elsewhere, pieces_of
from toolkit_workspace.record.record import Row, Stamp
from toolkit_workspace.record.trouble import is_gone, leads_away


@dataclass(frozen=True, slots=True)
class HostVersion:
    """What a place on the host holds or is to hold: enough to recognise it, and to make it."""

    kind: str
    """`f`, `d`, `l`, or `s` for what is never touched."""
    mode: int
    target: bytes | None = None
    content: Source | None = None
    sha256: str = ""
    mtime_ns: int | None = None
    owner: tuple[int, int] | None = None
    attributes: tuple[tuple[str, bytes], ...] = ()
    stamp: Stamp | None = None
    """The stamp it has where it is, if it is there."""

    @classmethod
    def of(cls, node: Node) -> HostVersion:
        """All that has to be known to put back what is there now."""
        assert node.st is not None
        owner, content, stamp = (node.st.st_uid, node.st.st_gid), node.content, Stamp.of(node.st)
        if content is None:
            return cls(node.kind, node.mode, node.target, owner=owner, stamp=stamp)
        return cls(node.kind, node.mode, None, content, "", node.st.st_mtime_ns, owner, content.attributes(), stamp)

    def is_like(self, other: HostVersion | None) -> bool:
        """Whether both are the same to whoever reads the path."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "d":
            return True
        if self.kind == "l":
            return self.target == other.target
        return self.sha256 == other.sha256 and self.mode & 0o777 == other.mode & 0o777

    def is_made_in(self, node: Node) -> bool:
        """Whether this is what the place holds now, its bytes read once more."""
        if self.kind != "f" or node.content is None:
            return node.kind == self.kind and node.target == self.target
        try:
            return isinstance(self.content, Content) and node.content.equals(self.content)
        except ContentGone:  # somebody was quick to change it again
            return False

    def to_json(self) -> list[Any]:
        target = None if self.target is None else os.fsdecode(self.target)
        attributes = [(name, value.hex()) for name, value in self.attributes]
        rest = [self.sha256, self.mtime_ns, self.owner, attributes, self.stamp]
        return [self.kind, self.mode, target, _place(self.content), *rest]

    @classmethod
    def from_json(cls, facts: list[Any], store: ByteStore) -> HostVersion:
        kind, mode, target, place, sha256, mtime_ns, owner, attributes, stamp = facts
        content = None if place is None else store.content(*place)
        owner = None if owner is None else (owner[0], owner[1])
        attributes = tuple((name, bytes.fromhex(value)) for name, value in attributes)
        target = None if target is None else os.fsencode(target)
        stamp = None if stamp is None else Stamp(*stamp)
        return cls(kind, mode, target, content, sha256, mtime_ns, owner, attributes, stamp)


@dataclass(frozen=True, slots=True)
class Step:
    """One host path and what it is to become; None stands for nothing there."""

    mount: int
    host_path: bytes
    path: bytes
    """The same place in the workspace, for messages."""
    old: HostVersion | None
    new: HostVersion | None

    def to_json(self) -> dict[str, Any]:
        paths = {"host_path": os.fsdecode(self.host_path), "path": os.fsdecode(self.path)}
        versions = {"old": self.old and self.old.to_json(), "new": self.new and self.new.to_json()}
        return {"mount": self.mount, **paths, **versions}

    @classmethod
    def from_json(cls, facts: dict[str, Any], store: ByteStore) -> Step:
        old, new = (facts[one] and HostVersion.from_json(facts[one], store) for one in ("old", "new"))
        return cls(facts["mount"], os.fsencode(facts["host_path"]), os.fsencode(facts["path"]), old, new)


@dataclass(frozen=True, slots=True)
class Update:
    """What the record is to say of a path once all steps are made."""

    path: bytes
    row: Row | None
    """None forgets the path. `host` is the stamp of a host file that has the workspace's bytes already, and
    `host_is_base` says whether it will have them: not if it was merged."""
    content: Content | None = None
    """Bytes of the workspace's version to keep."""

    def to_json(self) -> dict[str, Any]:
        facts = {"path": os.fsdecode(self.path), "content": _place(self.content), "row": None}
        if self.row is None:
            return facts
        _, host_path, target, *numbers = self.row
        return facts | {"row": [os.fsdecode(host_path), None if target is None else os.fsdecode(target), *numbers]}

    @classmethod
    def from_json(cls, facts: dict[str, Any], store: ByteStore) -> Update:
        path, content = os.fsencode(facts["path"]), facts["content"] and store.content(*facts["content"])
        if facts["row"] is None:
            return cls(path, None, content)
        host_path, target, kind, mount, mode, copy, host, *rest = facts["row"]
        target = None if target is None else os.fsencode(target)
        row = Row(path, os.fsencode(host_path), target, kind, mount, mode, Stamp(*copy), Stamp(*host), *rest)
        return cls(path, row, content)


def discard(folder: Path) -> None:
    """Remove a journal that is done with, its plan first: what a kill leaves of it is no journal."""
    (folder / "plan.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


class Journal:
    """The record of one apply in a folder of its own: a plan, and one file with all bytes it speaks of."""

    def __init__(self, folder: Path, name: str, steps: Sequence[Step], updates: Sequence[Update]) -> None:
        self.folder = folder
        self.steps = tuple(steps)
        self.updates = tuple(updates)
        self._name = name
        self.by_place = {(step.mount, step.host_path): step for step in steps}

    @classmethod
    def begin(cls, folder: Path, steps: Iterable[Step], updates: Iterable[Update]) -> Journal:
        """Write down steps and updates with all their bytes; the host is not touched.

        Raises:
            ContentGone: a file changed since the steps were planned.
        """
        discard(folder)
        folder.mkdir(mode=0o700)
        store = ByteStore(folder / "bytes")
        store.append([])  # there is a file to sync, even without bytes
        keep = cache(store.keep)  # what goes to the host and is also the next base is written down once

        def kept(version: HostVersion | None) -> HostVersion | None:
            if version is None or version.content is None:
                return version
            content, digest = keep(version.content)
            return replace(version, content=content, sha256=digest)

        steps = [replace(step, old=kept(step.old), new=kept(step.new)) for step in steps]
        updates = [replace(one, content=one.content and keep(one.content)[0]) for one in updates]
        _sync(os.open(store.file, os.O_RDONLY | os.O_CLOEXEC))
        name = secrets.token_hex(4)
        facts = {"steps": [step.to_json() for step in steps], "updates": [one.to_json() for one in updates]}
        # The plan is last, whole or not at all: once it is there, the apply has begun and its bytes are safe.
        write_json(folder / "plan.json", {"name": name, **facts}, durable=True)
        _sync(os.open(folder, READ_DIR))
        return cls(folder, name, steps, updates)

    @classmethod
    def load(cls, folder: Path) -> Journal | None:
        """The journal in a folder; None when there is none or it was not complete, so nothing was begun.

        Raises:
            WorkspaceError: it cannot be read.
        """
        file, store = folder / "plan.json", ByteStore(folder / "bytes")
        try:
            facts = json.loads(file.read_bytes())
            steps = [Step.from_json(one, store) for one in facts["steps"]]
            updates = [Update.from_json(one, store) for one in facts["updates"]]
            return cls(folder, facts["name"], steps, updates)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WorkspaceError("the journal of an apply cannot be read", where=[f"{file}: {error}"]) from error

    def forwards(self, hosts: Hosts) -> None:
        """Make every step that is not yet made."""
        self._make([_Move(step, step.old, step.new, name) for step, name in self._named_steps()], hosts)

    def backwards(self, hosts: Hosts) -> None:
        """Take back every step that was made, last one first."""
        self._make(self._moves_back(), hosts)

    def check_backwards(self, hosts: Hosts) -> None:
        """Refuse to go back where a place holds something that is not ours; nothing is written.

        Raises:
            WorkspaceConflictError: there is such a place.
        """
        for move in self._moves_back():
            move.check(hosts)

    def _moves_back(self) -> list[_Move]:
        return [_Move(step, step.new, step.old, name) for step, name in self._named_steps()][::-1]

    def _make(self, moves: Sequence[_Move], hosts: Hosts) -> None:
        for move in moves:
            try:
                move.make(hosts)
            except OSError as error:
                # What failed goes by its name in an open folder only.
                host = hosts.mounts[move.step.mount].host
                error.filename = os.fsdecode(b"/".join(part for part in (host, move.step.host_path) if part))
                error.filename2 = None
                raise
        in_folders = {(step.mount, step.host_path.rpartition(b"/")[0]): step for step in self.steps}
        for step in in_folders.values():
            folder = hosts.find_parent(step.mount, step.host_path)
            if folder is not None:  # one that is gone needs no sync
                _sync(folder[0])

    def _named_steps(self) -> Iterator[tuple[Step, bytes]]:
        """Each step and the name it uses beside its place: not a random one, so that `sweep` finds it after a kill."""
        for number, step in enumerate(self.steps):
            yield step, f".toolkit-apply-{self._name}-{number}".encode()

    def sweep(self, hosts: Hosts) -> None:
        """Remove the names an interrupted run may have left beside the places, before anything else is done."""
        for step, temporary in self._named_steps():
            found = hosts.find_parent(step.mount, step.host_path)
            if found is None:
                continue
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=found[0])
            finally:
                os.close(found[0])

    def close(self, kept_as: Path) -> None:
        """Put the journal aside, in place of an older one."""
        self._move_to(kept_as)

    def reopen(self, folder: Path) -> Journal:
        """The journal of a finished apply as that of an unfinished one, which it is from now on."""
        if folder != self.folder:
            self._move_to(folder)
        return Journal.load(folder) or self

    def _move_to(self, folder: Path) -> None:
        discard(folder)
        self.folder.rename(folder)
        _sync(os.open(folder.parent, READ_DIR))


@dataclass(frozen=True, slots=True)
class _Move:
    """A step in one direction: forwards, or backwards when it is undone.

    A file is written beside its place under a name of its own, synced and moved over; a new one is linked
    into place, so that nothing that appeared meanwhile is lost. A place that holds neither the start nor
    the goal is not touched.
    """

    step: Step
    start: HostVersion | None
    goal: HostVersion | None
    temporary: bytes

    def check(self, hosts: Hosts) -> None:
        """Look whether the move can be made, or is.

        Raises:
            WorkspaceConflictError: the place holds something else than the start or the goal.
            WorkspaceSecurityError: the mount is another folder now.
        """
        hosts.folder(self.step.mount)
        try:
            now = self._seen(hosts.look(self.step.mount, self.step.host_path))
        except ContentGone:
            raise self._met_something_else() from None
        except WorkspaceSecurityError:  # behind a link, where nothing is the mount's
            now = None
        self._is_made(now)

    def make(self, hosts: Hosts) -> None:
        """Make the move unless it was already made.

        Raises:
            WorkspaceConflictError: the place holds something else than the start or the goal.
            WorkspaceSecurityError: the way there leads through a link.
        """
        mount, host_path = self.step.mount, self.step.host_path
        try:
            folder, name = hosts.open_parent(mount, host_path)
        except OSError as error:
            if not (is_gone(error) or leads_away(error)):
                raise
            if self.goal is None:  # nothing is there, or behind a link, where nothing is the mount's
                return
            raise leads_elsewhere(hosts.mounts[mount], host_path, error) from error
        try:
            try:
                now = self._seen(hosts.look_in(folder, name, mount, host_path))
            except ContentGone:
                raise self._met_something_else() from None
            if not self._is_made(now):
                self._change(folder, name, now)
        finally:
            os.close(folder)

    def _seen(self, node: Node | None) -> HostVersion | None:
        """What is in place, as far as it has to be recognised."""
        digest = node.content.sha256() if node and node.content else ""
        return None if node is None else HostVersion(node.kind, node.mode, node.target, sha256=digest)

    def _is_made(self, now: HostVersion | None) -> bool:
        """Whether the goal is reached already; refuses a place that holds a third thing."""
        if now is None:
            if self.goal is None:
                return True
            # Between two kinds there is a moment with nothing in place.
            if self.start is None or self.start.kind != self.goal.kind:
                return False
            raise self._met_something_else()
        if now.is_like(self.goal):
            return True
        if not now.is_like(self.start):
            raise self._met_something_else()
        return False

    def _change(self, folder: int, name: bytes, now: HostVersion | None) -> None:
        goal = self.goal
        if goal is not None and now is not None and now.kind == goal.kind:
            if goal.kind == "f" and now.sha256 == goal.sha256:
                _set_mode(folder, name, goal.mode)
            else:
                self._write_beside(folder, goal)
                os.rename(self.temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        if now is not None:
            self._remove(folder, name, now)
        if goal is not None:
            self._create(folder, name, goal)

    def _create(self, folder: int, name: bytes, goal: HostVersion) -> None:
        if goal.kind == "d":
            os.mkdir(name, 0o700, dir_fd=folder)
            made = os.open(name, READ_DIR, dir_fd=folder)
            try:
                _dress(made, goal)
            finally:
                _sync(made)
            return
        self._write_beside(folder, goal)
        try:
            os.link(self.temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            os.unlink(self.temporary, dir_fd=folder)
            raise self._met_something_else() from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            os.rename(self.temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        os.unlink(self.temporary, dir_fd=folder)

    def _remove(self, folder: int, name: bytes, now: HostVersion) -> None:
        if now.kind != "d":
            os.unlink(name, dir_fd=folder)
            return
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            # Something the workspace never had lives there: the folder stays.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if self.goal is not None:
                raise self._met_something_else() from None

    def _write_beside(self, folder: int, goal: HostVersion) -> None:
        if goal.kind == "l":
            os.symlink(goal.target or b"", self.temporary, dir_fd=folder)
            if goal.owner is not None:
                with contextlib.suppress(PermissionError):
                    os.chown(self.temporary, *goal.owner, dir_fd=folder, follow_symlinks=False)
            return
        write_new(folder, self.temporary, pieces_of(goal.content), dress=partial(_dress, goal=goal), durable=True)

    def _met_something_else(self) -> WorkspaceConflictError:
        path = os.fsdecode(self.step.path)
        return WorkspaceConflictError(
            "a file on the host changed while changes were applied",
            conflicts=[(path, "changed on the host meanwhile")],
            where=[path],
            fix="Look at that file; put it back as it was, then resume or undo.",
        )


def _set_mode(folder: int, name: bytes, mode: int) -> None:
    """Only the mode differs: the file itself stays."""
    fd = os.open(name, READ_FILE, dir_fd=folder)
    try:
        os.fchmod(fd, mode & 0o777)
    finally:
        _sync(fd)


def _dress(fd: int, goal: HostVersion) -> None:
    """Give a new file or folder its owner, as far as we may, its attributes, mode and time."""
    if goal.owner is not None:
        with contextlib.suppress(PermissionError):
            os.fchown(fd, *goal.owner)
    for name, value in goal.attributes:
        os.setxattr(fd, name, value)
    os.fchmod(fd, goal.mode & 0o777)
    if goal.mtime_ns is not None:
        os.utime(fd, ns=(goal.mtime_ns, goal.mtime_ns))


def _sync(handle: int) -> None:
    """Force a file or folder to the disk, and close it."""
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _place(source: Source | None) -> tuple[int, int] | None:
    """Where bytes lie in the journal's store."""
    return (source.offset, source.size) if isinstance(source, Content) else None
