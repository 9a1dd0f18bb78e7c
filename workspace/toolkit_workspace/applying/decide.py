"""Decide for every change what it means on the host as it is now: a step, nothing, or a conflict.

The host may have changed since the copy was made. Where it has, texts are merged
over the bytes both sides came from; without those bytes, or where both changed
the same lines, it is a conflict. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from toolkit._base.files import umask
from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.applying.merge import Conflict, marked_bytes, merged_bytes
from toolkit_workspace.applying.steps import HostVersion, Step, Update
from toolkit_workspace.changes.changes import Change
from toolkit_workspace.record.content import Content, ContentGone, Hosts, Node, Source, attributes_of
from toolkit_workspace.record.keeping import LARGEST_FRESH, LARGEST_KEPT
from toolkit_workspace.record.record import NO_STAMP, MountRecord, Record, Row, Stamp
from toolkit_workspace.record.trouble import unreadable

Action = Literal["created", "replaced", "merged", "marked", "deleted", "mode", "nothing"]


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What one change came to on the host."""

    path: str
    """In the workspace."""
    action: Action
    """`merged` with the host's own change, `marked` with conflict markers, `nothing` if the host had it already."""


@dataclass(frozen=True, slots=True)
class Case:
    """A change and the place on the host it is for."""

    change: Change
    mount: int
    path: bytes
    """In the workspace."""
    host_path: bytes
    """In the mount: where it came from, or where its name puts it."""

    @classmethod
    def of(cls, change: Change, mount: int, record: Record) -> Case:
        path = os.fsencode(change.path)
        row = record.get(path)
        is_known = row is not None and row.mount == mount
        host_path = row.host_path if row and is_known else record.mounts[mount].usual_host_path(path)
        return cls(change, mount, path, host_path)

    @property
    def node(self) -> Node:
        """What the workspace has there now."""
        assert self.change.after is not None
        return self.change.after

    @property
    def content(self) -> Content:
        """Where the bytes of the file that the workspace has there are."""
        assert self.node.content is not None
        return self.node.content

    def mode_for(self, host_mode: int) -> int:
        """The host's own permissions, with the executable bit as the agent changed it; nothing beyond 0o777."""
        mode = host_mode & 0o777
        was = (self.change.before.mode if self.change.before else mode) & 0o100
        now = self.node.mode & 0o100
        if was == now:
            return mode
        return mode | (mode & 0o444) >> 2 if now else mode & ~0o111


@dataclass(slots=True)
class Decider:
    """Collects the steps for a set of changes.

    The decisions are made one after the other and each sees the host as the steps so far will leave it: a
    file can take the place of a folder only because all in that folder goes first.
    """

    hosts: Hosts
    conflict_markers: bool = False
    steps: dict[tuple[int, bytes], Step] = field(default_factory=dict)
    outcomes: list[AppliedChange] = field(default_factory=list)
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    _forgotten: set[bytes] = field(default_factory=set)
    _new_folders: dict[tuple[int, bytes], bool] = field(default_factory=dict)
    """Folders of the host that were asked about: whether they come with the steps."""
    _origins: dict[str, tuple[Row, Node | None]] = field(default_factory=dict)
    """What was recorded and what is on the host where renamed files were."""

    def decide_all(self, cases: Sequence[Case]) -> None:
        """Decide every change: first what goes, deepest first, then what comes, folders before what is in them."""
        going = [case for case in cases if case.change.kind == "deleted"]
        going.sort(key=lambda case: (case.change.type == "folder", -case.path.count(b"/")))
        coming = [case for case in cases if case.change.kind != "deleted"]
        coming.sort(key=lambda case: (case.change.type != "folder", case.path.count(b"/")))
        for case in coming:
            if case.change.kind == "renamed":
                self._try(case, self._free_old_place)
        for case in going:
            self._try(case, self._delete_folder if case.change.type == "folder" else self._delete)
        for case in coming:
            if case.change.kind != "renamed" or case.change.old_path in self._origins:  # else a conflict already
                self._try(case, self._come)

    def _try(self, case: Case, decide: Callable[[Case], Action | None]) -> None:
        path = case.change.path
        try:
            action = decide(case)
        except Conflict as conflict:
            self.conflicts.append((path, str(conflict)))
        except ContentGone as gone:
            self.conflicts.append((path, f"changed just now: {gone.what}"))
        except OSError as error:  # what could not be looked at decides nothing
            raise unreadable(case.host_path, error, self.hosts.mounts[case.mount].host) from error
        else:
            self.outcomes += [AppliedChange(path, action)] if action else []

    def _look(self, mount: int, host_path: bytes) -> Node | None:
        """What will be at a host path once the steps so far are made."""
        if self._goes(mount, host_path) or self._is_new(mount, host_path.rpartition(b"/")[0]):
            return None
        return self.hosts.look(mount, host_path)

    def _is_new(self, mount: int, folder: bytes) -> bool:
        """Whether a folder is, or lies in, one that comes with the steps so far: what stands there now is none."""
        unknown = []
        while folder and (mount, folder) not in self._new_folders:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        is_new = bool(folder) and self._new_folders[mount, folder]
        for inner in reversed(unknown):
            step = self.steps.get((mount, inner))
            is_new = is_new or (step is not None and (step.old is None or step.old.kind != "d"))
            self._new_folders[mount, inner] = is_new
        return is_new

    def _goes(self, mount: int, host_path: bytes) -> bool:
        step = self.steps.get((mount, host_path))
        return step is not None and step.new is None

    def _step(self, case: Case | Row, old: HostVersion | None, new: HostVersion | None) -> None:
        place = (case.mount, case.host_path)
        if place in self.steps:  # what went and what came at one place are one step
            old = self.steps[place].old
        self.steps[place] = Step(*place, case.path, old, new)
        if place in self._new_folders:  # what was known of it, and of all in it, may be otherwise now
            self._new_folders.clear()

    def _free_old_place(self, case: Case) -> None:
        assert case.change.old_path is not None
        row = self._row(os.fsencode(case.change.old_path))
        origin = self.hosts.look(row.mount, row.host_path)
        if origin is not None:
            self._step(row, HostVersion.of(origin), None)
            self.outcomes.append(AppliedChange(case.change.old_path, "deleted"))
        self._forget(row.path)
        self._origins[case.change.old_path] = (row, origin)

    def _delete(self, case: Case) -> Action:
        seen = self._look(case.mount, case.host_path)
        if seen is not None and not self._is_as_copied(self._row(case.path), seen):
            raise Conflict("changed on the host, deleted in the workspace")
        self._forget(case.path)
        if seen is None:
            return "nothing"
        self._step(case, HostVersion.of(seen), None)
        return "deleted"

    def _delete_folder(self, case: Case) -> Action:
        """A folder goes when all in it goes; one that holds what the workspace never had stays, and so does a mount."""
        known = self.hosts.record.folders.get(case.path)
        if known and any(case.path + b"/" + os.fsencode(name) not in self._forgotten for name in known.names):
            return "nothing"
        self._forget(case.path)
        seen = self._look(case.mount, case.host_path)
        if seen is None or seen.kind != "d" or not case.host_path:
            return "nothing"
        fd = open_beneath(self.hosts.folder(case.mount), case.host_path, READ_DIR)
        try:
            if self._has_names_left(case, fd):
                return "nothing"
            self._step(case, replace(HostVersion.of(seen), attributes=attributes_of(fd)), None)
        finally:
            os.close(fd)
        return "deleted"

    def _has_names_left(self, case: Case, fd: int) -> bool:
        """Whether an open host folder will still hold something once the steps so far are made."""
        with os.scandir(fd) as listed:
            paths = [case.host_path + b"/" + os.fsencode(one.name) for one in listed]
        return not all(self._goes(case.mount, path) for path in paths)

    def _come(self, case: Case) -> Action:
        change, seen = case.change, self._look(case.mount, case.host_path)
        if change.type == "folder":
            return self._folder(case, seen)
        if change.type == "link":
            return self._link(case, seen)
        if change.kind == "renamed":
            return self._rename(case, seen)
        if change.kind == "added":
            return self._add(case, seen)
        return self._modify(case, seen)

    def _folder(self, case: Case, seen: Node | None) -> Action:
        if self.hosts.mounts[case.mount].name is not None:
            raise Conflict("a folder in the workspace, but the mount is a single file")
        if seen is not None and seen.kind != "d":
            raise Conflict("a folder in the workspace, something else on the host")
        self._update(case)
        if seen is not None:
            return "nothing"
        self._create(case, self._new(case.mount, "d", 0o777 & ~umask()))
        return "created"

    def _link(self, case: Case, seen: Node | None) -> Action:
        if seen is not None and seen.kind == "l" and seen.target == case.node.target:
            self._update(case)
            return "nothing"
        if case.change.kind == "added" and seen is not None:
            raise Conflict("added on both sides")
        if case.change.kind == "link":
            row = self._row(case.path)
            if seen is None or seen.kind != "l" or not self._is_as_copied(row, seen):
                raise Conflict("a link that changed on both sides")
        new = replace(self._new(case.mount, "l", 0o777), target=case.node.target)
        if seen is None:
            self._create(case, new)
        else:
            self._step(case, HostVersion.of(seen), new)
        self._update(case)
        return "replaced" if seen else "created"

    def _add(self, case: Case, seen: Node | None) -> Action:
        if seen is None:
            mode = (0o777 if case.node.mode & 0o100 else 0o666) & ~umask()
            self._create(case, replace(self._new(case.mount, "f", mode), content=case.content))
            self._update(case)
            return "created"
        if _bytes_of(seen).equals(case.content):
            return self._has_bytes_already(case, seen)
        if not self.conflict_markers:
            raise Conflict("added on both sides")
        self._write(case, seen, marked_bytes(_bytes_of(seen), case.content), is_merged=True)
        return "marked"

    def _modify(self, case: Case, seen: Node | None) -> Action:
        if seen is None:
            raise Conflict("deleted on the host, changed in the workspace")
        if case.change.kind == "mode":
            _bytes_of(seen)
            self._update(case, is_merged=not self._is_as_copied(self._row(case.path), seen))
            return self._only_mode(case, seen)
        source, action = self._merged(case, self._row(case.path), seen)
        if action == "nothing":
            return self._has_bytes_already(case, seen)
        self._write(case, seen, source, is_merged=action != "replaced")
        return action

    def _rename(self, case: Case, seen: Node | None) -> Action:
        assert case.change.old_path is not None
        row, origin = self._origins[case.change.old_path]
        if seen is not None:
            if origin is not None or seen.content is None or not seen.content.equals(case.content):
                raise Conflict("another file has this name on the host")
            self._update(case, on_host=seen)
            return "nothing"
        if origin is None:
            raise Conflict(f"renamed in the workspace, but {case.change.old_path!r} was deleted on the host")
        source, action = self._merged(case, row, origin)
        is_merged = action in ("merged", "marked")
        mode = case.mode_for(origin.mode)
        self._create(case, replace(HostVersion.of(origin), mode=mode, mtime_ns=None, content=source))
        self._update(case, is_merged=is_merged)
        return action if is_merged else "created"

    def _merged(self, case: Case, row: Row, seen: Node) -> tuple[Source, Action]:
        """The bytes the host is to have, and how they came about; `nothing` when it has them already."""
        new, on_host = case.content, _bytes_of(seen)
        base = self.hosts.base(row)
        if base is not None and base.equals(on_host):
            return new, "replaced"
        if on_host.equals(new):
            return new, "nothing"
        if base is not None and base.equals(new):  # only renamed or made executable here, changed there
            return on_host, "merged"
        if base is None:
            marked = marked_bytes(on_host, new)
            if not self.conflict_markers:
                raise Conflict("changed on both sides, and the bytes both came from were not kept")
            return marked, "marked"
        data, conflicts = merged_bytes(base, on_host, new)
        if conflicts and not self.conflict_markers:
            raise Conflict("both sides changed the same lines")
        return data, "marked" if conflicts else "merged"

    def _is_as_copied(self, row: Row, seen: Node) -> bool:
        """Whether the host still has what the workspace was given: by its bytes, or what it says if it is a link."""
        if seen.kind != row.kind:
            return False
        if seen.target is not None:
            said = _said_in_copy(seen.target, row, self.hosts.mounts[row.mount])
            # By its stamps, where the mount is named by a path that leads through a link: no record has that path.
            return said == row.target or (said.startswith(b"/") and _is_untouched(row, seen))
        base = self.hosts.base(row)
        return base is not None and seen.content is not None and base.equals(seen.content)

    def _write(self, case: Case, seen: Node, source: Source, *, is_merged: bool) -> None:
        mode = case.mode_for(seen.mode)
        was = HostVersion.of(seen)
        self._step(case, was, replace(was, mode=mode, mtime_ns=None, content=source))
        self._update(case, is_merged=is_merged)

    def _has_bytes_already(self, case: Case, seen: Node) -> Action:
        self._update(case, on_host=seen)
        return self._only_mode(case, seen)

    def _only_mode(self, case: Case, seen: Node) -> Action:
        mode = case.mode_for(seen.mode)
        if mode == seen.mode & 0o777:
            return "nothing"
        was = HostVersion.of(seen)
        self._step(case, was, replace(was, mode=mode, mtime_ns=None))
        return "mode"

    def _row(self, path: bytes) -> Row:
        row = self.hosts.record.get(path)
        if row is None:
            raise Conflict("the workspace has no record of it any more")
        return row

    def _create(self, case: Case, new: HostVersion) -> None:
        for folder in self._missing_above(case):
            self._step(folder, None, self._new(case.mount, "d", 0o777 & ~umask()))
        self._step(case, None, new)

    def _missing_above(self, case: Case) -> list[Case]:
        """The folders that a new path needs and the host lost, the uppermost first: they are made again."""
        missing: list[Case] = []
        while (parent := case.host_path.rpartition(b"/")[0]) and self.hosts.mounts[case.mount].name is None:
            planned = self.steps.get((case.mount, parent))
            if planned is not None and planned.new is not None and planned.new.kind == "d":
                break
            seen = self._look(case.mount, parent)
            if seen is not None and seen.kind != "d":
                raise Conflict("its folder is something else on the host")
            if seen is not None:
                break
            case = replace(case, path=case.path.rpartition(b"/")[0], host_path=parent)
            missing.append(case)
        missing.reverse()
        return missing

    def _new(self, mount: int, kind: str, mode: int) -> HostVersion:
        """As root, what is new belongs to whom the mount belongs to; anybody else owns what they make."""
        if os.geteuid() != 0:
            return HostVersion(kind, mode)
        st = os.fstat(self.hosts.folder(mount))
        return HostVersion(kind, mode, owner=(st.st_uid, st.st_gid))

    def _forget(self, path: bytes) -> None:
        self._forgotten.add(path)
        self.updates.append(Update(path, None))

    def _update(self, case: Case, *, is_merged: bool = False, on_host: Node | None = None) -> None:
        """Remember that the workspace's version is what the host's is based on from now on.

        Its bytes are kept when they are few, or when the host will hold others; `on_host` holds them already.
        """
        node = case.node
        assert node.st is not None
        assert node.kind != "s"
        content = case.content if node.kind == "f" else None
        if content is not None and content.size > (LARGEST_FRESH if is_merged else LARGEST_KEPT):
            content = None
        copy = Stamp.of(node.st)._replace(size=node.size)
        if node.kind == "d":  # what is in it and was not chosen has no row: the next scan has to look for it
            copy = NO_STAMP
        host = Stamp.of(on_host.st) if on_host and on_host.st else NO_STAMP
        row = Row(case.path, case.host_path, node.target, node.kind, case.mount, node.mode, copy, host)
        self.updates.append(Update(case.path, row._replace(host_is_base=not is_merged), content))


def _is_untouched(row: Row, seen: Node) -> bool:
    return seen.st is not None and row.host_is_untouched(seen.st)


def _said_in_copy(target: bytes, row: Row, mount: MountRecord) -> bytes:
    """What a copy says where the host's link has this target: an absolute path into the mount became a relative one."""
    parts, top = ([part for part in path.split(b"/") if part not in (b"", b".")] for path in (target, mount.host))
    if not target.startswith(b"/") or b".." in parts or parts[: len(top)] != top:
        return target
    climb = [b".."] * row.host_path.count(b"/")
    return b"/".join([*climb, *parts[len(top) :]]) or b"."


def _bytes_of(seen: Node) -> Content:
    if seen.content is None:
        raise Conflict("a file in the workspace, something else on the host")
    return seen.content
