"""What an agent did to a workspace: a list to read, a table to show, a patch to keep.

Every path that differs from what was prepared is one `Change`, decided by contents
and not by stamps. Reading changes runs nothing in the workspace: no git, no hook.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, overload

from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.ignored import IgnoreRules
from toolkit_workspace.changes.marks import LinkReader, links_below, marks_of
from toolkit_workspace.changes.patch import left_out_of_patch, patch_of
from toolkit_workspace.changes.renames import pair_renames
from toolkit_workspace.changes.scan import Pair, scan
from toolkit_workspace.changes.summary import counted, ignored_line, summary_table
from toolkit_workspace.overlay import links_in_both
from toolkit_workspace.record.content import Hosts, Node
from toolkit_workspace.record.record import MountRecord, Record
from toolkit_workspace.record.trouble import in_words
from toolkit_workspace.workspace import Workspace

if TYPE_CHECKING:
    from toolkit_workspace.places import Places

ChangeKind = Literal["added", "modified", "deleted", "renamed", "mode", "link"]
_TYPES: dict[str, Literal["file", "folder", "link", "special"]] = {
    "f": "file",
    "d": "folder",
    "l": "link",
    "s": "special",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One path that is no longer as it was prepared."""

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
    planted: str | None = None
    """The folder around it that git would take for a repository; then it is applied only by that folder's name."""
    ignored: bool = False
    """Whether it is new, and a cache or ignored by the project's own rules; then it is applied only by its name."""
    agent_path: str | None = None
    """What the agent calls it inside its jail: by default the host's own path; None where no jail has shown it."""
    agent_old_path: str | None = None
    """The same of where a renamed file came from."""
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
        facts |= {"agent_path": self.agent_path} if self.agent_path is not None else {}
        facts |= {"old_path": self.old_path} if self.old_path is not None else {}
        facts |= {"agent_old_path": self.agent_old_path} if self.agent_old_path is not None else {}
        facts |= {"binary": self.binary, "content_changed": self.content_changed}
        modes = {"old_mode": self.old_mode, "mode": self.mode}
        facts |= {name: f"{mode:o}" for name, mode in modes.items() if mode is not None}
        rest = {"old_size": self.old_size, "size": self.size, "target": self.target}
        facts |= {name: value for name, value in rest.items() if value is not None}
        facts |= {"planted": self.planted} if self.planted is not None else {}
        facts |= {"ignored": True} if self.ignored else {}
        return facts | {"suspicious": list(self.suspicious)}


class Changes(Sequence[Change]):
    """All changes, sorted by path. Contents are read when a patch is asked for, and must still be the same."""

    def __init__(self, items: Iterable[Change], mounts: tuple[str, ...] = ()) -> None:
        self._items = tuple(items)
        self.mounts = mounts
        """The mounts' places in the workspace."""

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Changes: ...
    def __getitem__(self, index: int | slice) -> Change | Changes:
        return self._with(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{len(self)} changes>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it tells the facts; the contents stay where the workspace is."""
        return Changes, (tuple(replace(change, before=None, after=None) for change in self), self.mounts)

    def _with(self, items: Iterable[Change]) -> Changes:
        return Changes(items, self.mounts)

    def of_kind(self, *kinds: ChangeKind) -> Changes:
        """Only the changes of these kinds."""
        return self._with(change for change in self if change.kind in kinds)

    def in_mount(self, mount: str | None) -> Changes:
        """Only the changes below one mount; with None those outside every mount."""
        return self._with(change for change in self if change.mount == mount)

    def below(self, *paths: str) -> Changes:
        """Only the changes at these paths or below them, relative to the workspace."""
        return self._with(change for change in self if any(change.is_below(path) for path in paths))

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
    def ignored(self) -> Changes:
        """The new paths that the project's own ignore rules name, and caches such as `__pycache__`."""
        return self._with(change for change in self if change.ignored)

    @property
    def suspicious(self) -> Changes:
        """The changes to look at twice."""
        return self._with(change for change in self if change.suspicious)

    @property
    def counted(self) -> Changes:
        """The changes that every list shows and every count counts: not what is only ignored, nor implied folders."""
        return self._with(counted(self))

    def summary(self, *, max_rows: int = 50) -> str:
        """A short table for people: one row a file, then the counts. Names are escaped."""
        return summary_table(self, max_rows=max_rows)

    def ignored_line(self) -> str:
        """One line about what is ignored, as the summary ends with; empty where nothing is."""
        return ignored_line(self)

    def not_in_patch(self) -> list[tuple[str, str]]:
        """Paths that the patch does not hold, each with the reason; of an ignored folder the folder alone."""
        return left_out_of_patch(self)

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
        return patch_of(self._items)

    def to_json(self) -> list[dict[str, Any]]:
        """The facts of every change as plain values; `quiet` where it is not one that is counted."""
        told = {change.path for change in counted(self)}
        return [change.to_json() | ({} if change.path in told else {"quiet": True}) for change in self]


def changes_of(workspace: Workspace) -> Changes:
    """What differs from what was prepared. Runs nothing in the workspace and changes nothing there.

    Raises:
        WorkspaceError: the workspace, its record, or a host file that has to be compared cannot be read.
    """
    said = in_words("the workspace cannot be read", at=workspace.folder)
    with said, Hosts(workspace.record, workspace.store) as hosts, workspace.opened() as root:
        pairs = without_aside(scan(workspace, root, hosts), workspace.aside)
        below = workspace.below
        links = links_below(root) if below is None else links_in_both(root, below, links_below)
        return changes_from(pairs, hosts.record, links, IgnoreRules(hosts).name, workspace.seen)


def without_aside(pairs: Sequence[Pair], aside: Sequence[bytes]) -> Sequence[Pair]:
    """Leave out what is shown from the host, and the copy's own git folders."""
    if not aside:
        return pairs
    below = tuple(place + b"/" for place in aside)
    return [pair for pair in pairs if pair.path not in aside and not pair.path.startswith(below)]


def changes_from(
    pairs: Sequence[Pair],
    record: Record,
    read_link: LinkReader,
    is_ignored: Callable[[Pair, MountRecord | None], bool] = lambda pair, mount: False,
    seen: Places | None = None,
) -> Changes:
    """Differing paths as changes: the renames found, the kinds named, what is suspicious marked."""
    pairs = _split_by_kind(pairs)
    if any(pair.new is None for pair in pairs) and any(pair.old is None for pair in pairs):
        pairs = pair_renames(pairs)
    mounts = [_mount_of(record.mounts, pair.path) for pair in pairs]
    marks = marks_of(pairs, mounts, record, read_link, seen)
    ignored = [is_ignored(pair, mount) for pair, mount in zip(pairs, mounts, strict=True)]
    items = [_change(*facts, seen) for facts in zip(pairs, mounts, marks, ignored, strict=True)]
    return Changes(items, tuple(mount.landing for mount in record.mounts))


def _split_by_kind(pairs: Iterable[Pair]) -> list[Pair]:
    """A path that became something else (a file where a folder was) as what went and what came."""
    split: list[Pair] = []
    for pair in pairs:
        if pair.old and pair.new and pair.old.kind != pair.new.kind:
            split += [Pair(pair.path, pair.old, None), Pair(pair.path, None, pair.new)]
        else:
            split.append(pair)
    return split


def _mount_of(mounts: tuple[MountRecord, ...], path: bytes) -> MountRecord | None:
    """The mount a workspace path lies in: the innermost one, None outside all of them."""
    around = [
        mount
        for mount in mounts
        if path == mount.at or not mount.at or (mount.name is None and path.startswith(mount.at + b"/"))
    ]
    return max(around, key=lambda mount: len(mount.at), default=None)


def _change(
    pair: Pair,
    mount: MountRecord | None,
    marked: tuple[tuple[str, ...], str | None],
    ignored: bool,
    seen: Places | None,
) -> Change:
    old, new = pair.old, pair.new
    there = new or old
    assert there is not None
    old_path = None if pair.old_path is None else os.fsdecode(pair.old_path)
    return Change(
        kind=_kind(pair),
        path=os.fsdecode(pair.path),
        type=_TYPES[there.kind],
        mount=mount.landing if mount else None,
        old_path=old_path,
        binary=bool((old and old.is_binary) or (new and new.is_binary)),
        content_changed=there.kind == "f" and not pair.has_same_bytes,
        old_mode=old.mode if old else None,
        mode=new.mode if new else None,
        old_size=old.size if old and old.kind == "f" else None,
        size=new.size if new and new.kind == "f" else None,
        target=os.fsdecode(new.target) if new and new.target is not None else None,
        suspicious=marked[0],
        planted=marked[1],
        ignored=ignored,
        agent_path=None if seen is None else seen.to_agent(os.fsdecode(pair.path)),
        agent_old_path=None if seen is None or old_path is None else seen.to_agent(old_path),
        before=old,
        after=new,
    )


def _kind(pair: Pair) -> ChangeKind:
    if pair.old_path is not None:
        return "renamed"
    if pair.old is None:
        return "added"
    if pair.new is None:
        return "deleted"
    if pair.new.kind == "l":
        return "link"
    return "mode" if pair.has_same_bytes or pair.new.kind == "d" else "modified"
