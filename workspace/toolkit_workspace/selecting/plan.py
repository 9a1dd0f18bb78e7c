"""What preparing a workspace would do, without doing it: files, bytes, and what stays behind by which rule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit._base.handles import READ_FILE
from toolkit._base.words import count_text, safe_name, size_text
from toolkit_workspace.record import join
from toolkit_workspace.selecting.secrets import Secret, secrets_of
from toolkit_workspace.selecting.sources import AllowedRoots, Source
from toolkit_workspace.selecting.tally import LeftCounts, LeftOut, Outline, Tally, left_out_text, over_budget, tree_text
from toolkit_workspace.selecting.unread import may_read
from toolkit_workspace.selecting.walk import Folder, Walk


@dataclass(frozen=True, slots=True)
class MountPlan:
    """What one mount would bring along."""

    host_path: str
    mount_path: str
    files: int
    folders: int
    links: int
    size: int
    """The sizes of all files together."""
    needed: int
    """Bytes that would be written, holes not counted: what max_bytes bounds."""
    max_bytes: int | None
    largest: tuple[tuple[str, int], ...]
    """The five largest files, largest first."""
    left_out: tuple[LeftOut, ...]
    """What stays behind or deserves a remark: the first 200 of each rule."""
    left_counts: LeftCounts
    """How many entries each reason and rule concerns."""
    repositories: tuple[str, ...]
    """Folders, relative to the mount, whose `.git` is not copied like anything else; "" for the mount itself."""
    secrets: tuple[Secret, ...]
    """Files that would come along and usually hold credentials."""
    outline: Outline

    @property
    def is_over_budget(self) -> bool:
        return self.max_bytes is not None and self.needed > self.max_bytes

    def left_lines(self, *, most: int = 40) -> list[str]:
        """What stays behind or deserves a remark, a line for each rule."""
        return left_out_text(self.left_counts, self.left_out, most=most)

    def to_json(self) -> dict[str, Any]:
        return {
            "host_path": self.host_path,
            "mount_path": self.mount_path,
            "files": self.files,
            "folders": self.folders,
            "links": self.links,
            "bytes": self.size,
            "needed_bytes": self.needed,
            "max_bytes": self.max_bytes,
            "largest": [{"path": path, "bytes": size} for path, size in self.largest],
            "left_out": [{"path": one.path, "why": one.why, "detail": one.detail} for one in self.left_out],
            "secrets": [{"path": one.path, "what": one.what, "pattern": one.pattern} for one in self.secrets],
            "left_counts": [
                {"why": why, "rule": rule, "count": count} for (why, rule), count in self.left_counts.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What a workspace would hold."""

    mounts: tuple[MountPlan, ...]

    @property
    def files(self) -> int:
        return sum(mount.files for mount in self.mounts)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Files that would come along and usually hold credentials, with paths of the workspace."""
        return tuple(one for mount in self.mounts for one in mount.secrets)

    @property
    def size(self) -> int:
        return sum(mount.size for mount in self.mounts)

    def to_json(self) -> dict[str, Any]:
        return {"files": self.files, "bytes": self.size, "mounts": [mount.to_json() for mount in self.mounts]}

    def tree(self, *, most_lines: int = 200) -> str:
        """The plan as a tree with sizes, each mount followed by what stays behind and why."""
        lines = []
        for mount in self.mounts:
            head = f"{safe_name(mount.mount_path)}  {count_text(mount.files, 'file')}, {size_text(mount.size)}"
            over = f"  over max_bytes={mount.max_bytes}" if mount.is_over_budget else ""
            lines.append(f"{head}  from {safe_name(mount.host_path)}{over}")
            lines += [f"  {line}" for line in tree_text(mount.outline.draw(most_lines))]
            if mount.left_counts:
                lines.append("  left out or remarked:")
                lines += [f"    {line}" for line in mount.left_lines()]
        return "\n".join(lines)


def plan_source(source: Source, roots: AllowedRoots, *, strict: bool = False) -> MountPlan:
    """Walk one mount without copying, and add up."""
    tally = Tally()
    walk = Walk.of(source, roots, tally.left, strict=strict)
    name = source.record.name
    if name is None:
        for folder in walk.folders():
            _count_folder(tally, folder, walk, roots)
    elif walk.takes(name):
        st = os.stat(name, dir_fd=source.handle, follow_symlinks=False)
        if not may_read(st):
            os.close(os.open(name, READ_FILE, dir_fd=source.handle))
        tally.needed = bytes_to_write(st)
        tally.count(b"", [(os.fsdecode(name), st.st_size)], keep_largest=True)
    tally.secrets = walk.secrets
    return MountPlan(
        host_path=str(source.mount.host_path),
        mount_path=source.mount.landing,
        files=tally.files,
        folders=tally.folders,
        links=tally.links,
        size=tally.size,
        needed=tally.needed,
        max_bytes=source.mount.max_bytes,
        largest=tally.largest,
        left_out=tally.left.examples,
        left_counts=tally.left.counts,
        secrets=tuple(secrets_of([source], [tally])),
        repositories=tuple(map(os.fsdecode, sorted(walk.repositories))),
        outline=tally.outline,
    )


def check_budgets(sources: Sequence[Source], roots: AllowedRoots, *, strict: bool) -> None:
    """Look whether every mount keeps to its own bound.

    Raises:
        WorkspaceBudgetError: one does not.
    """
    for source in sources:
        if source.mount.max_bytes is not None:
            plan = plan_source(source, roots, strict=strict)
            if plan.is_over_budget:
                raise over_budget(plan.mount_path, source.mount.max_bytes, plan.needed, plan.largest)


def _count_folder(tally: Tally, folder: Folder, walk: Walk, roots: AllowedRoots) -> None:
    files = []
    for name in folder.files:
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
            if not may_read(st):
                os.close(os.open(name, READ_FILE, dir_fd=folder.handle))
        except OSError as error:
            walk.failed(join(folder.path, os.fsencode(name)), error)
            continue
        tally.needed += bytes_to_write(st)
        files.append((name, st.st_size))
    for name, host in folder.followed:
        try:
            st = _followed(roots, host)
        except OSError as error:
            walk.failed(join(folder.path, os.fsencode(name)), error)
            continue
        tally.needed += bytes_to_write(st)
        files.append((name, st.st_size))
    if folder.depth and (folder.is_wanted or folder.files or folder.links):
        tally.folders += 1
    if folder.is_wanted or files or folder.links:
        tally.count(folder.path, files, folder.links, keep_largest=True)


def _followed(roots: AllowedRoots, host: bytes) -> os.stat_result:
    """What a link leads to, which can be read."""
    handle = roots.open(host)
    try:
        st = os.fstat(handle)
    finally:
        os.close(handle)
    if not may_read(st):
        os.close(roots.open(host, READ_FILE & ~os.O_NOFOLLOW))
    return st


def bytes_to_write(st: os.stat_result) -> int:
    """How many bytes copying a file will write, as far as can be told: holes cost nothing."""
    return min(st.st_size, st.st_blocks * 512) if st.st_size >= 4096 else st.st_size
