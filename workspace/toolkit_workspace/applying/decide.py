"""Decide for every change what it means on the host as it is now: a step, nothing, or a conflict.

The host may have changed since the copy was made. Where it has, texts are merged
over the bytes both sides came from; without those bytes, or where both changed
the same lines, it is a conflict. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolkit._base.files import umask
from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.applying.host_state import HostState, Seen, look
from toolkit_workspace.applying.journal import PlannedStep, Source
from toolkit_workspace.applying.merge import mark_differences, merge
from toolkit_workspace.applying.modes import is_executable, new_mode
from toolkit_workspace.applying.steps import Step
from toolkit_workspace.changes.changes import Change
from toolkit_workspace.changes.patch import is_binary
from toolkit_workspace.record.bases import LARGEST_FRESH, LARGEST_KEPT, Bases
from toolkit_workspace.record.content import Content, ContentGone, Node
from toolkit_workspace.record.hosts import host_path_of
from toolkit_workspace.record.record import Row, join

Action = Literal["created", "replaced", "merged", "marked", "deleted", "mode", "nothing"]
_LARGEST_MERGED = 8 << 20


_Decision = Callable[[Change, int, bytes, bytes], Action | None]
"""Takes a change, its mount, its path in the workspace and its path in the mount."""


class Conflict(Exception):
    """Raised inside a decision; the reason is for people."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What one change came to on the host."""

    path: str
    """In the workspace."""
    action: Action
    """`merged` with the host's own change, `marked` with conflict markers, `nothing` if the host had it already."""


@dataclass(slots=True)
class Decider:
    """Collects the steps for a set of changes."""

    bases: Bases
    conflict_markers: bool = False
    steps: dict[tuple[int, bytes], PlannedStep] = field(default_factory=dict)
    outcomes: list[AppliedChange] = field(default_factory=list)
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    """How the record is to be brought up to date afterwards, as plain values."""
    extra: dict[str, Source] = field(default_factory=dict)
    """Bytes the notes speak of, by name."""
    forgotten: set[bytes] = field(default_factory=set)
    origins: dict[bytes, tuple[Row, Seen | None]] = field(default_factory=dict)

    def decide_all(self, changes: Sequence[Change], mount_numbers: dict[str, int]) -> None:
        """Decide every change: first what goes, deepest first, then what comes, folders before what is in them."""
        going = [change for change in changes if change.kind == "deleted"]
        going.sort(key=lambda change: (change.type == "folder", -change.path.count("/")))
        coming = [change for change in changes if change.kind != "deleted"]
        coming.sort(key=lambda change: (change.type != "folder", change.path.count("/")))
        for change in coming:
            if change.kind == "renamed":
                self._try(change, self._free_old_place, mount_numbers)
        for change in going:
            self._try(change, self._delete, mount_numbers)
        for change in coming:
            self._try(change, self._come, mount_numbers)

    def _try(self, change: Change, decide: _Decision, mount_numbers: dict[str, int]) -> None:
        assert change.mount is not None
        mount, path = mount_numbers[change.mount], os.fsencode(change.path)
        try:
            action = decide(change, mount, path, host_path_of(self.bases.record, mount, path))
        except Conflict as conflict:
            self.conflicts.append((change.path, str(conflict)))
        except ContentGone as gone:
            self.conflicts.append((change.path, f"changed or unreadable just now: {gone.what}"))
        except OSError as error:
            self.conflicts.append((change.path, f"cannot be looked at on the host: {error.strerror}"))
        else:
            self.outcomes += [AppliedChange(change.path, action)] if action else []

    def _come(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        if change.type == "folder":
            return self._folder(change, mount, path, host_path)
        if change.type == "link":
            return self._link(change, mount, path, host_path)
        if change.kind == "renamed":
            return self._rename(change, mount, path, host_path)
        if change.kind == "added":
            return self._add(change, mount, path, host_path)
        return self._modify(change, mount, path, host_path)

    def _look(self, mount: int, host_path: bytes) -> Seen | None:
        """What will be at a host path once the steps so far are made."""
        if self._goes((mount, host_path)):
            return None
        parts = host_path.split(b"/")
        for depth in range(1, len(parts)):
            above = self.steps.get((mount, b"/".join(parts[:depth])))
            if above is not None and (above.step.old is None or above.step.old.kind != "d"):
                return None  # what stands there now is no folder
        return look(self.bases.hosts, mount, host_path)

    def _step(self, mount: int, host_path: bytes, path: bytes, seen: Seen | None, new: HostState | None,
              source: Source | None) -> None:  # fmt: skip
        old: HostState | None = seen.state if seen else None
        old_bytes: Source | None = seen.content if seen else None
        earlier = self.steps.get((mount, host_path))
        if earlier is not None:  # what went and what came at one place are one step
            old, old_bytes = earlier.step.old, earlier.old_bytes
        self.steps[mount, host_path] = PlannedStep(Step(mount, host_path, path, old, new), old_bytes, source)

    # What goes

    def _free_old_place(self, change: Change, mount: int, path: bytes, host_path: bytes) -> None:
        assert change.old_path is not None
        entry = self._entry(os.fsencode(change.old_path))
        origin = look(self.bases.hosts, entry.mount, entry.host_path)
        self.origins[entry.path] = (entry, origin)
        if origin is not None:
            self._step(entry.mount, entry.host_path, entry.path, origin, None, None)
        self._forget(entry.path)

    def _delete(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        if change.type == "folder":
            return self._delete_folder(mount, path, host_path)
        seen = self._look(mount, host_path)
        if seen is not None and not self._is_as_copied(self._entry(path), seen):
            raise Conflict("changed on the host, deleted in the workspace")
        self._forget(path)
        if seen is None:
            return "nothing"
        self._step(mount, host_path, path, seen, None, None)
        return "deleted"

    def _delete_folder(self, mount: int, path: bytes, host_path: bytes) -> Action:
        """A folder goes when all in it goes; one that holds what the workspace never had stays, and so does a mount."""
        known = self.bases.record.folders.get(path)
        if known is not None and any(join(path, os.fsencode(name)) not in self.forgotten for name in known.names):
            return "nothing"
        self._forget(path)
        seen = self._look(mount, host_path)
        if seen is None or seen.state.kind != "d" or not host_path or self._names_left(mount, host_path):
            return "nothing"
        self._step(mount, host_path, path, seen, None, None)
        return "deleted"

    def _names_left(self, mount: int, host_path: bytes) -> list[str]:
        """What a host folder will still hold once the steps so far are made."""
        fd = open_beneath(self.bases.hosts.folder(mount), host_path, READ_DIR)
        try:
            with os.scandir(fd) as listed:
                names = [one.name for one in listed]
        finally:
            os.close(fd)
        places = [(mount, join(host_path, os.fsencode(name))) for name in names]
        return [name for name, place in zip(names, places, strict=True) if not self._goes(place)]

    def _goes(self, place: tuple[int, bytes]) -> bool:
        return place in self.steps and self.steps[place].step.new is None

    # What comes

    def _folder(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        seen = self._look(mount, host_path)
        if self.bases.hosts.mounts[mount].name is not None:
            raise Conflict("a folder in the workspace, but the mount is a single file")
        if seen is not None and seen.state.kind != "d":
            raise Conflict("a folder in the workspace, something else on the host")
        self._note(change, mount, path, host_path, None)
        if seen is not None:
            return "nothing"
        self._need_parent(mount, host_path, path)
        self._step(mount, host_path, path, None, HostState("d", 0o777 & ~umask(), owner=self._owner(mount)), None)
        return "created"

    def _link(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        seen = self._look(mount, host_path)
        assert change.after is not None
        new = HostState("l", 0o777, target=change.after.target, owner=self._owner(mount))
        if seen is not None and new.is_like(seen.state):
            self._note(change, mount, path, host_path, None)
            return "nothing"
        if change.kind == "added" and seen is not None:
            raise Conflict("added on both sides")
        if change.kind == "link":
            entry = self._entry(path)
            if seen is None or seen.state.kind != "l" or not entry.host_is_untouched(seen.st):
                raise Conflict("a link that changed on both sides")
        self._need_parent(mount, host_path, path)
        self._step(mount, host_path, path, seen, new, None)
        self._note(change, mount, path, host_path, None)
        return "replaced" if seen else "created"

    def _add(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        seen = self._look(mount, host_path)
        new = _content(change.after)
        if seen is None:
            self._need_parent(mount, host_path, path)
            mode = (0o777 if is_executable(change.after) else 0o666) & ~umask()
            self._step(mount, host_path, path, None, HostState("f", mode, owner=self._owner(mount)), new)
            self._note(change, mount, path, host_path, new)
            return "created"
        if seen.state.kind != "f" or seen.content is None:
            raise Conflict("a file in the workspace, something else on the host")
        if seen.content.equals(new):
            self._note(change, mount, path, host_path, new, on_host=seen)
            return self._only_mode(change, mount, path, host_path, seen)
        if not self.conflict_markers:
            raise Conflict("added on both sides")
        marked = mark_differences(*_texts(seen.content, new))
        self._write(change, mount, path, host_path, seen, marked.data, is_merged=True)
        return "marked"

    def _modify(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        seen = self._look(mount, host_path)
        if seen is None:
            raise Conflict("deleted on the host, changed in the workspace")
        if change.kind == "mode":
            if seen.state.kind != "f":
                raise Conflict("a file in the workspace, something else on the host")
            differs = not self._is_as_copied(self._entry(path), seen)
            self._note(change, mount, path, host_path, _content(change.after), is_merged=differs)
            return self._only_mode(change, mount, path, host_path, seen)
        source, action = self._merged(change, self._entry(path), seen)
        if action == "nothing":
            self._note(change, mount, path, host_path, _content(change.after), on_host=seen)
            return self._only_mode(change, mount, path, host_path, seen)
        self._write(change, mount, path, host_path, seen, source, is_merged=action != "replaced")
        return action

    def _rename(self, change: Change, mount: int, path: bytes, host_path: bytes) -> Action:
        assert change.old_path is not None
        entry, origin = self.origins[os.fsencode(change.old_path)]
        seen = self._look(mount, host_path)
        new = _content(change.after)
        if seen is not None:
            if origin is not None or seen.content is None or not seen.content.equals(new):
                raise Conflict("another file has this name on the host")
            self._note(change, mount, path, host_path, new, on_host=seen)
            return "nothing"
        if origin is None:
            raise Conflict(f"renamed in the workspace, but {change.old_path!r} was deleted on the host")
        source, action = self._merged(change, entry, origin)
        self._need_parent(mount, host_path, path)
        state = replace(origin.state, mode=new_mode(change, origin.state.mode), mtime_ns=None)
        self._step(mount, host_path, path, None, state, source)
        self._note(change, mount, path, host_path, new, is_merged=action in ("merged", "marked"))
        return action if action in ("merged", "marked") else "created"

    # Contents

    def _merged(self, change: Change, entry: Row, seen: Seen) -> tuple[Source, Action]:
        """The bytes the host is to have, and how they came about; `nothing` when it has them already."""
        new = _content(change.after)
        if seen.state.kind != "f" or seen.content is None:
            raise Conflict("a file in the workspace, something else on the host")
        if self._is_as_copied(entry, seen):
            return new, "replaced"
        if seen.content.equals(new):
            return new, "nothing"
        base = self.bases.content(entry)
        if base is not None and base.equals(new):  # only renamed or made executable here, changed there
            return seen.content, "merged"
        host, workspace = _texts(seen.content, new)
        if base is None:
            if self.conflict_markers:
                return mark_differences(host, workspace).data, "marked"
            raise Conflict("changed on both sides, and the bytes both came from were not kept")
        before = base.read()
        if is_binary(before):
            raise Conflict("a binary file that changed on both sides")
        result = merge(before, host, workspace)
        if result.conflicts and not self.conflict_markers:
            raise Conflict("both sides changed the same lines")
        return result.data, "marked" if result.conflicts else "merged"

    def _is_as_copied(self, entry: Row, seen: Seen) -> bool:
        """Whether the host still has what the workspace was given: by its stamps, else by its bytes."""
        if seen.state.kind != entry.kind:
            return False
        if entry.kind != "f" or seen.content is None:
            return entry.host_is_untouched(seen.st)
        base = self.bases.content(entry)
        return base is not None and base.equals(seen.content)

    def _write(self, change: Change, mount: int, path: bytes, host_path: bytes, seen: Seen, source: Source, *,
               is_merged: bool) -> None:  # fmt: skip
        state = replace(seen.state, mode=new_mode(change, seen.state.mode), mtime_ns=None)
        self._step(mount, host_path, path, seen, state, source)
        self._note(change, mount, path, host_path, _content(change.after), is_merged=is_merged)

    def _only_mode(self, change: Change, mount: int, path: bytes, host_path: bytes, seen: Seen) -> Action:
        mode = new_mode(change, seen.state.mode)
        if mode & 0o777 == seen.state.mode & 0o777:
            return "nothing"
        self._step(mount, host_path, path, seen, replace(seen.state, mode=mode, mtime_ns=None), seen.content)
        return "mode"

    # Around it

    def _entry(self, path: bytes) -> Row:
        entry = self.bases.record.get(path)
        if entry is None:
            raise Conflict("the workspace has no record of it any more")
        return entry

    def _need_parent(self, mount: int, host_path: bytes, path: bytes) -> None:
        """Make sure the folder a new path lies in is there, or will be; folders the host lost are made again."""
        parent = host_path.rpartition(b"/")[0]
        if not parent or self.bases.hosts.mounts[mount].name is not None:
            return
        planned = self.steps.get((mount, parent))
        if planned is not None and planned.step.new is not None and planned.step.new.kind == "d":
            return
        seen = self._look(mount, parent)
        if seen is not None and seen.state.kind == "d":
            return
        if seen is not None:
            raise Conflict("its folder is something else on the host")
        above = path.rpartition(b"/")[0]
        self._need_parent(mount, parent, above)
        self._step(mount, parent, above, None, HostState("d", 0o777 & ~umask(), owner=self._owner(mount)), None)

    def _owner(self, mount: int) -> tuple[int, int] | None:
        """As root, what is new belongs to whom the mount belongs to; anybody else owns what they make."""
        if os.geteuid() != 0:
            return None
        st = os.fstat(self.bases.hosts.folder(mount))
        return st.st_uid, st.st_gid

    def _forget(self, path: bytes) -> None:
        self.forgotten.add(path)
        self.notes.append({"path": os.fsdecode(path), "entry": None})

    def _note(self, change: Change, mount: int, path: bytes, host_path: bytes, content: Content | None, *,
              is_merged: bool = False, on_host: Seen | None = None) -> None:  # fmt: skip
        """Remember that the workspace's version is what the host's is based on from now on.

        Its bytes are kept when they are few, or when the host will hold others; `on_host` holds them already.
        """
        node = change.after
        assert node is not None
        assert node.st is not None
        name = None
        if content is not None and content.size <= (LARGEST_FRESH if is_merged else LARGEST_KEPT):
            name = f"base-{len(self.extra)}"
            self.extra[name] = content
        st = node.st
        facts: dict[str, Any] = {"mount": mount, "host_path": os.fsdecode(host_path), "kind": node.kind}
        facts["target"] = None if node.target is None else os.fsdecode(node.target)
        facts["numbers"] = [st.st_mode, node.size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino]
        facts["bytes"], facts["is_merged"] = name, is_merged
        facts["on_host"] = None if on_host is None else [on_host.st.st_ino, on_host.st.st_ctime_ns]
        self.notes.append({"path": os.fsdecode(path), "entry": facts})


def _content(node: Node | None) -> Content:
    if node is None or node.content is None:
        raise Conflict("its bytes cannot be read")
    return node.content


def _texts(host: Content, workspace: Content) -> tuple[bytes, bytes]:
    if max(host.size, workspace.size) > _LARGEST_MERGED:
        raise Conflict("a large file that changed on both sides")
    texts = host.read(), workspace.read()
    if any(is_binary(text) for text in texts):
        raise Conflict("a binary file that changed on both sides")
    return texts
