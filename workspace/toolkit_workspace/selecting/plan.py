"""What preparing a workspace would do, without doing it: files, bytes, and what stays behind by which rule."""

from __future__ import annotations

import heapq
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit._base.words import count_text, safe_name, size_text
from toolkit.errors import WorkspaceBudgetError
from toolkit_workspace.copying.transfer import bytes_to_write
from toolkit_workspace.selecting.left_behind import LeftOut, Notes, Why
from toolkit_workspace.selecting.outline import Outline
from toolkit_workspace.selecting.roots import AllowedRoots
from toolkit_workspace.selecting.sources import Source
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
    left_counts: dict[tuple[Why, str], int]
    """How many entries each reason and rule concerns."""
    outline: Outline

    @property
    def is_over_budget(self) -> bool:
        return self.max_bytes is not None and self.needed > self.max_bytes

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
            lines += [f"  {line}" for line in mount.outline.lines(most_lines)]
            if mount.left_counts:
                lines.append("  left out or remarked:")
                lines += [f"    {line}" for line in left_out_lines(mount.left_counts, mount.left_out)]
        return "\n".join(lines)


def left_out_lines(
    counts: dict[tuple[Why, str], int], examples: Sequence[LeftOut], *, most: int = 40, names: int = 3
) -> list[str]:
    """One line a rule: how many, why, and the first names."""
    lines = []
    for (why, rule), count in list(counts.items())[:most]:
        same = [one for one in examples if one.why == why and (not rule or one.detail == rule)]
        listed = ", ".join(
            safe_name(one.path) + (f" ({one.detail})" if one.detail and not rule else "") for one in same[:names]
        )
        more = f", … {count - names:,} more" if count > names else ""
        by = f" by {safe_name(rule)}" if rule and why in ("excluded", "ignored") else f" ({rule})" if rule else ""
        lines.append(f"{count:,} {why}{by}: {listed}{more}")
    if len(counts) > most:
        rest = sum(list(counts.values())[most:])
        lines.append(f"… {rest:,} more by {len(counts) - most:,} other rules")
    return lines


def plan_source(source: Source, roots: AllowedRoots, *, strict: bool = False) -> MountPlan:
    """Walk one mount without copying, and add up."""
    notes = Notes()
    sums = _Sums()
    if source.record.name is not None:
        if source.is_selected(notes):
            sums.add_file(os.stat(source.record.name, dir_fd=source.handle, follow_symlinks=False), source.record.name)
            sums.outline.add(b"", 1, sums.size, [(os.fsdecode(source.record.name), size_text(sums.size))])
    else:
        walk = source.walk(notes, roots, strict=strict)
        for folder in walk.folders(source.fresh_handle(), source.real_paths):
            sums.add_folder(folder, walk, roots)
    return MountPlan(
        host_path=str(source.mount.host_path),
        mount_path=source.mount.landing,
        files=sums.files,
        folders=sums.folders,
        links=sums.links,
        size=sums.size,
        needed=sums.needed,
        max_bytes=source.mount.max_bytes,
        largest=tuple((os.fsdecode(path), size) for size, path in sorted(sums.largest, reverse=True)),
        left_out=notes.examples,
        left_counts=notes.counts,
        outline=sums.outline,
    )


class _Sums:
    def __init__(self) -> None:
        self.files = self.folders = self.links = self.size = self.needed = 0
        self.largest: list[tuple[int, bytes]] = []
        self.outline = Outline(most_depth=4, most_names=20)

    def add_folder(self, folder: Folder, walk: Walk, roots: AllowedRoots) -> None:
        prefix = folder.path + b"/" if folder.path else b""
        files, size = self.files, self.size
        first: list[tuple[str, str]] = []
        for name in folder.files:
            path = prefix + os.fsencode(name)
            try:
                st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
            except OSError as error:
                walk.failed(path, error)
                continue
            self.add_file(st, path)
            if len(first) < self.outline.most_names:
                first.append((name, size_text(st.st_size)))
        for name, host in folder.followed:
            handle = roots.open(host)
            self.add_file(os.fstat(handle), prefix + os.fsencode(name))
            os.close(handle)
        first += [(name, f"-> {safe_name(target)}") for name, target in folder.links[: self.outline.most_names]]
        self.links += len(folder.links)
        if folder.depth and (folder.is_wanted or folder.files or folder.links):
            self.folders += 1
        if folder.is_wanted or first:
            self.outline.add(folder.path, self.files - files, self.size - size, first)

    def add_file(self, st: os.stat_result, path: bytes) -> None:
        self.files += 1
        self.size += st.st_size
        self.needed += bytes_to_write(st)
        item = (st.st_size, path)
        if len(self.largest) < 5:
            heapq.heappush(self.largest, item)
        elif item > self.largest[0]:
            heapq.heapreplace(self.largest, item)


def over_budget(
    mount_path: str, max_bytes: int, needed: int, largest: Sequence[tuple[str, int]]
) -> WorkspaceBudgetError:
    """The error for a mount that is larger than it may be."""
    return WorkspaceBudgetError(
        f"mount {safe_name(mount_path)} needs at least {needed:,} bytes; max_bytes allows {max_bytes:,}",
        max_bytes=max_bytes,
        needed=needed,
        largest=largest,
        where=[f"{size:>15,}  {safe_name(path)}" for path, size in largest],
        fix="Exclude the largest entries (exclude_glob=…) or raise max_bytes.",
    )
