"""Draw a bounded picture of a tree whose counts are true.

Only the upper folders are kept; what lies deeper is counted in the deepest one that
is. Names are kept for the first few files of a folder, in order, so that the same
tree always gives the same picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit._base.words import count_text, safe_name, size_text

_MOST_NODES = 2_000


@dataclass(slots=True)
class _Node:
    files: int = 0
    size: int = 0
    own_files: int = 0
    names: list[tuple[str, str]] = field(default_factory=list)
    """The first files of the folder itself: name, and what to say about it."""
    children: list[bytes] = field(default_factory=list)


class Outline:
    """Counts by folder, filled by a walk and drawn as indented lines."""

    def __init__(self, *, most_depth: int = 3, most_names: int = 12) -> None:
        self._most_depth = most_depth
        self.most_names = most_names
        self._nodes: dict[bytes, _Node] = {b"": _Node()}

    def keeps(self, folder: bytes) -> bool:
        """Whether names of files in this folder could be shown."""
        return folder.count(b"/") < self._most_depth

    def add(self, folder: bytes, files: int, size: int, first: Iterable[tuple[str, str]]) -> None:
        """Count what lies directly in a folder; `first` are its first names with their remarks."""
        kept = self._kept(folder)
        path: bytes | None = kept
        while path is not None:
            node = self._nodes[path]
            node.files += files
            node.size += size
            path = (path.rpartition(b"/")[0]) if path else None
        if kept == folder:
            node = self._nodes[kept]
            node.own_files += files
            node.names.extend(first)

    def _kept(self, folder: bytes) -> bytes:
        """The deepest kept folder that holds this one, itself if it is kept."""
        parts = folder.split(b"/", self._most_depth)[: self._most_depth] if folder else []
        path = b""
        for part in parts:
            inner = path + b"/" + part if path else part
            if inner not in self._nodes:
                if len(self._nodes) >= _MOST_NODES:
                    return path
                self._nodes[inner] = _Node()
                self._nodes[path].children.append(inner)
            path = inner
        return path

    def lines(self, most: int) -> list[str]:
        """At most `most` lines, as deep as fits."""
        for depth in range(self._most_depth, -1, -1):
            lines = self._draw(b"", 0, depth)
            if len(lines) <= most:
                return lines
        hidden = len(lines) - most + 1
        return [*lines[: most - 1], f"… {hidden:,} more entries here"]

    def _draw(self, path: bytes, level: int, most_depth: int) -> list[str]:
        node = self._nodes[path]
        pad = "  " * level
        lines = []
        for child in node.children:
            inner = self._nodes[child]
            name = safe_name(child.rpartition(b"/")[2])
            lines.append(f"{pad}{name}/  {count_text(inner.files, 'file')}, {size_text(inner.size)}")
            if level < most_depth:
                lines.extend(self._draw(child, level + 1, most_depth))
        names = sorted(node.names)
        files = [f"{pad}{safe_name(name)}  {remark}" for name, remark in names if not remark.startswith("->")]
        links = [f"{pad}{safe_name(name)}  {remark}" for name, remark in names if remark.startswith("->")]
        lines.extend(files + links)
        unnamed = node.own_files - len(files)
        if unnamed > 0:
            lines.append(f"{pad}… {count_text(unnamed, 'more file')}")
        return lines
