"""What an agent did to a workspace: a list to read, a table to show, a patch to keep.

Every path that differs from what was prepared is one `Change`, decided by contents
and not by stamps. Reading changes runs nothing in the workspace: no git, no hook.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.compare import Pair, compare, has_equal_content, split_by_kind
from toolkit_workspace.changes.marks import (
    LEADS_OUT,
    LinkReader,
    case_twins,
    leads_out,
    links_below,
    marks_by_kind,
    marks_by_name,
)
from toolkit_workspace.changes.patch import Version, file_patch, git_refuses, is_binary, quoted
from toolkit_workspace.changes.renames import find_renames
from toolkit_workspace.changes.summary import summary_table
from toolkit_workspace.record.bases import Bases
from toolkit_workspace.record.content import ContentGone, Node
from toolkit_workspace.record.hosts import Hosts, mount_of
from toolkit_workspace.record.record import MountRecord, Record
from toolkit_workspace.workspace import Workspace

ChangeKind = Literal["added", "modified", "deleted", "renamed", "mode", "link"]
_TYPES: dict[str, Literal["file", "folder", "link", "special"]] = {
    "f": "file",
    "d": "folder",
    "l": "link",
    "s": "special",
}
_HEAD = 8000


@dataclass(frozen=True, slots=True)
class Change:
    """One path that is no longer as it was workspace."""

    kind: ChangeKind
    """`mode` when only permissions changed, `link` when a link points elsewhere."""
    path: str
    """Relative to the workspace; undecodable bytes are surrogates, as in `os.fsdecode`."""
    type: Literal["file", "folder", "link", "special"]
    mount: str | None
    """The mount's place in the workspace; None outside every mount, where nothing is applied."""
    old_path: str | None = None
    """Where a renamed file came from."""
    binary: bool = False
    content_changed: bool = False
    """Whether bytes differ; a renamed file may have kept its own."""
    old_mode: int | None = None
    mode: int | None = None
    old_size: int | None = None
    size: int | None = None
    target: str | None = None
    """Where a link points now."""
    suspicious: tuple[str, ...] = ()
    """Reasons to look twice."""
    before: Node | None = field(default=None, repr=False, compare=False)
    """The two versions themselves, for what reads their contents."""
    after: Node | None = field(default=None, repr=False, compare=False)

    def is_below(self, path: str) -> bool:
        """Whether it happened at a path of the workspace or below it, or came from there."""
        wanted = path.rstrip("/")
        mine = (self.path,) if self.old_path is None else (self.path, self.old_path)
        return wanted in ("", ".") or any(one == wanted or one.startswith(wanted + "/") for one in mine)

    def to_json(self) -> dict[str, Any]:
        """The facts as plain values; modes in octal, as git writes them."""
        facts: dict[str, Any] = {"kind": self.kind, "path": self.path, "type": self.type, "mount": self.mount}
        facts |= {"old_path": self.old_path} if self.old_path is not None else {}
        facts |= {"binary": self.binary, "content_changed": self.content_changed}
        modes = {"old_mode": self.old_mode, "mode": self.mode}
        facts |= {name: f"{mode:o}" for name, mode in modes.items() if mode is not None}
        rest = {"old_size": self.old_size, "size": self.size, "target": self.target}
        facts |= {name: value for name, value in rest.items() if value is not None}
        return facts | {"suspicious": list(self.suspicious)}


class Changes(Sequence[Change]):
    """All changes, sorted by path. Contents are read when a patch is asked for, and must still be the same."""

    def __init__(self, items: Sequence[Change], mounts: tuple[MountRecord, ...] = ()) -> None:
        self._items = tuple(items)
        self.mounts = tuple(mount.landing for mount in mounts)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Changes: ...
    def __getitem__(self, index: int | slice) -> Change | Changes:
        return self._with(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{len(self)} changes>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it tells the facts; the contents stay where the workspace is."""
        return _told, (tuple(replace(change, before=None, after=None) for change in self), self.mounts)

    def _with(self, items: Sequence[Change]) -> Changes:
        some = Changes(items)
        some.mounts = self.mounts
        return some

    def of_kind(self, *kinds: ChangeKind) -> Changes:
        """Only the changes of these kinds."""
        return self._with([change for change in self if change.kind in kinds])

    def in_mount(self, mount: str | None) -> Changes:
        """Only the changes below one mount; with None those outside every mount."""
        return self._with([change for change in self if change.mount == mount])

    def below(self, *paths: str) -> Changes:
        """Only the changes at these paths or below them, relative to the workspace."""
        return self._with([change for change in self if any(change.is_below(path) for path in paths)])

    @property
    def added(self) -> Changes:
        return self.of_kind("added")

    @property
    def modified(self) -> Changes:
        return self.of_kind("modified")

    @property
    def deleted(self) -> Changes:
        return self.of_kind("deleted")

    @property
    def renamed(self) -> Changes:
        return self.of_kind("renamed")

    @property
    def suspicious(self) -> Changes:
        """The changes to look at twice."""
        return self._with([change for change in self if change.suspicious])

    def summary(self, *, max_rows: int = 50) -> str:
        """A short table for people: one row a file, then the counts. Names are escaped."""
        return summary_table(self, max_rows=max_rows)

    def not_in_patch(self) -> list[tuple[str, str]]:
        """Paths a patch cannot hold, each with the reason."""
        return [(change.path, reason) for change in self if (reason := _why_not_in_patch(change))]

    def patch(self) -> bytes:
        """All changes as one patch for `git apply`, binary contents included.

        Git keeps no folders, so empty ones are not in it. Other paths git takes no patch for (in `.git`,
        special files) are named in comment lines at the top; see `not_in_patch`.

        Raises:
            WorkspaceError: a file changed again since these changes were taken, or they came from another process.
        """
        if any(change.before is None and change.after is None for change in self):
            raise WorkspaceError(
                "these changes came from another process, without their contents",
                fix="Ask the workspace itself: WorkspaceSection.open(temp_dir).changes()",
            )
        pieces = [_patch(change) for change in self if not _why_not_in_patch(change)]
        if not any(pieces):
            return b""
        left_out = [
            b"# not in this patch: " + quoted(os.fsencode(path)) + b" (" + reason.encode() + b")\n"
            for path, reason in self.not_in_patch()
        ]
        return b"".join([*left_out, *pieces])

    def to_json(self) -> list[dict[str, Any]]:
        """The facts of every change as plain values."""
        return [change.to_json() for change in self]


def _told(items: tuple[Change, ...], mounts: tuple[str, ...]) -> Changes:
    changes = Changes(items)
    changes.mounts = mounts
    return changes


def changes_of(workspace: Workspace) -> Changes:
    """What differs between a prepared workspace and its record."""
    bases = Bases(workspace.record, workspace.store, Hosts(workspace.record.mounts))
    try:
        pairs = compare(workspace, bases)
        with workspace.opened() as root:
            return build_changes(pairs, workspace.record, links_below(root))
    finally:
        bases.hosts.close()


def build_changes(pairs: Sequence[Pair], record: Record, read_link: LinkReader) -> Changes:
    """Turn differing paths into changes: find the renames, name the kinds, mark what is suspicious."""
    pairs = split_by_kind(pairs)
    moved = find_renames(pairs)
    sources = {pair.path for pair in moved.values()}
    twins = _twins(pairs, record)
    items = []
    for pair in pairs:
        origin = moved.get(pair.path) if pair.old is None else None
        if pair.new is None and pair.path in sources:
            continue
        items.append(_change(pair, origin, record.mounts, _marks(pair, origin, twins, record, read_link)))
    return Changes(items, record.mounts)


def _change(pair: Pair, origin: Pair | None, mounts: tuple[MountRecord, ...], marks: tuple[str, ...]) -> Change:
    old, new = origin.old if origin else pair.old, pair.new
    shown = new or old
    assert shown is not None
    mount = mount_of(mounts, pair.path)
    same = old is not None and new is not None and has_equal_content(old, new)
    return Change(
        kind="renamed" if origin else _kind(old, new, same),
        path=os.fsdecode(pair.path),
        type=_TYPES[shown.kind],
        mount=None if mount is None else mounts[mount].landing,
        old_path=os.fsdecode(origin.path) if origin else None,
        binary=_is_binary(old) or _is_binary(new),
        content_changed=shown.kind == "f" and not same,
        old_mode=old.mode if old else None,
        mode=new.mode if new else None,
        old_size=old.size if old and old.kind == "f" else None,
        size=new.size if new and new.kind == "f" else None,
        target=os.fsdecode(new.target) if new and new.target is not None else None,
        suspicious=marks,
        before=old,
        after=new,
    )


def _kind(old: Node | None, new: Node | None, same: bool) -> ChangeKind:
    if old is None:
        return "added"
    if new is None:
        return "deleted"
    if new.kind == "l":
        return "link"
    return "mode" if same or new.kind == "d" else "modified"


def _is_binary(node: Node | None) -> bool:
    if node is None or node.content is None:
        return False
    try:
        return is_binary(node.content.head(_HEAD))
    except ContentGone:
        return False


def _marks(
    pair: Pair, origin: Pair | None, twins: set[bytes], record: Record, read_link: LinkReader
) -> tuple[str, ...]:
    if pair.new is None:
        return ()
    marks = marks_by_name(pair.path, is_folder=pair.new.kind == "d") + marks_by_kind(
        origin.old if origin else pair.old, pair.new
    )
    if pair.path in twins:
        marks.append("another name here differs only in case")
    if pair.new.kind == "l" and pair.new.target is not None and _leaves_mount(pair, record, read_link):
        marks.append(LEADS_OUT)
    return tuple(dict.fromkeys(marks))


def _leaves_mount(pair: Pair, record: Record, read_link: LinkReader) -> bool:
    assert pair.new is not None
    assert pair.new.target is not None
    mount = mount_of(record.mounts, pair.path)
    at = record.mounts[mount].at if mount is not None else b""
    if not at:
        return leads_out(read_link, pair.path, pair.new.target)
    inside = pair.path[len(at) + 1 :]
    return not inside or leads_out(lambda path: read_link(at + b"/" + path), inside, pair.new.target)


def _twins(pairs: Sequence[Pair], record: Record) -> set[bytes]:
    """New names that another name in the same folder equals but for case."""
    by_parent: dict[bytes, list[bytes]] = {}
    for pair in pairs:
        if pair.old is None:
            by_parent.setdefault(pair.path.rpartition(b"/")[0], []).append(pair.path)
    gone = {pair.path for pair in pairs if pair.new is None}
    twins: set[bytes] = set()
    for parent, new in by_parent.items():
        prefix = parent + b"/" if parent else b""
        folder = record.folders.get(parent)
        names = [prefix + os.fsencode(name) for name in folder.names] if folder else []
        twins |= case_twins(new, [name for name in names if name not in gone])
    return twins


def _why_not_in_patch(change: Change) -> str:
    if change.type == "folder":
        return ""
    if change.type == "special":
        return "neither file nor link"
    if any(git_refuses(os.fsencode(path)) for path in (change.path, change.old_path) if path):
        return "git takes no paths in .git"
    if change.type == "file" and change.before is not None and change.before.content is None:
        return "the host changed and the bytes it was prepared from were not kept"
    return ""


def _patch(change: Change) -> bytes:
    if change.type == "folder":
        return b""
    old = _version(change.before, change.old_path if change.old_path is not None else change.path)
    new = _version(change.after, change.path)
    if old and new and old.path == new.path and old.git_mode == new.git_mode and old.data == new.data:
        return b""
    return file_patch(old, new)


def _version(node: Node | None, path: str) -> Version | None:
    if node is None:
        return None
    data = node.target or b"" if node.kind == "l" else node.content.read() if node.content else b""
    return Version(os.fsencode(path), node.mode if node.kind == "f" else stat.S_IFLNK, data)
