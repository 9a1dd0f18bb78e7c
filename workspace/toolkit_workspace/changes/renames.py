"""Tell a moved file from a deletion and an addition.

The same bytes under another name are a rename; so is a text under the same name
or inode elsewhere that kept at least half of itself. Empty files and links are
never paired, and a file whose old bytes are lost is not guessed about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from toolkit_workspace.changes.patch import similarity
from toolkit_workspace.changes.scan import Pair
from toolkit_workspace.record.content import Content, ContentGone, Node

_LARGEST_COMPARED = 1 << 20
_MOST_COMPARED = 200

_Files = Mapping[bytes, Node]
"""Files that went or came, by path."""


def pair_renames(pairs: Sequence[Pair]) -> list[Pair]:
    """The same pairs, with a file that went and one that came as one pair where it was moved."""
    gone = {pair.path: pair.old for pair in pairs if pair.new is None and pair.old and _is_candidate(pair.old)}
    come = {pair.path: pair.new for pair in pairs if pair.old is None and pair.new and _is_candidate(pair.new)}
    origins = _same_bytes(gone, come)
    taken = set(origins.values())
    origins |= _alike(
        {path: node for path, node in gone.items() if path not in taken},
        {path: node for path, node in come.items() if path not in origins},
    )
    taken = set(origins.values())
    paired = []
    for pair in pairs:
        origin = origins.get(pair.path) if pair.old is None else None
        if origin is not None:
            paired.append(Pair(pair.path, gone[origin], pair.new, origin))
        elif pair.new is not None or pair.path not in taken:
            paired.append(pair)
    return paired


def _is_candidate(node: Node) -> bool:
    return node.kind == "f" and node.size > 0


def _same_bytes(gone: _Files, come: _Files) -> dict[bytes, bytes]:
    """For each new path the old one with the same bytes, a near one before others."""
    by_size: dict[int, list[bytes]] = defaultdict(list)
    for path, node in gone.items():
        by_size[node.size].append(path)
    digests: dict[bytes, str | None] = {}
    origins: dict[bytes, bytes] = {}
    for path, node in come.items():
        candidates = by_size.get(node.size, [])
        digest = _digest(node.content) if candidates else None
        if digest is None:
            continue
        same = [old for old in candidates if digests.setdefault(old, _digest(gone[old].content)) == digest]
        if same:
            best = min(same, key=lambda old: (not _is_near(old, gone[old], path, node), old))
            origins[path] = best
            candidates.remove(best)
    return origins


def _alike(gone: _Files, come: _Files) -> dict[bytes, bytes]:
    """For each new path the most similar old one of the same name or inode."""
    scored = []
    for old, new in islice(_near_paths(gone, come), _MOST_COMPARED):
        before, after = _small_text(gone[old]), _small_text(come[new])
        score = similarity(before, after) if before and after else 0
        if score >= 50:
            scored.append((-score, new, old))
    origins: dict[bytes, bytes] = {}
    for _, new, old in sorted(scored):
        if new not in origins and old not in origins.values():
            origins[new] = old
    return origins


def _near_paths(gone: _Files, come: _Files) -> Iterator[tuple[bytes, bytes]]:
    by_trait: dict[bytes | int, list[bytes]] = defaultdict(list)
    for path, node in gone.items():
        by_trait[_name(path)].append(path)
        by_trait[node.inode].append(path)
    for path, node in come.items():
        near = dict.fromkeys(old for trait in (_name(path), node.inode) for old in by_trait.get(trait, ()))
        yield from ((old, path) for old in near)


def _is_near(old: bytes, before: Node, new: bytes, after: Node) -> bool:
    return _name(old) == _name(new) or before.inode == after.inode


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _digest(content: Content | None) -> str | None:
    try:
        return None if content is None else content.sha256()
    except ContentGone:
        return None


def _small_text(node: Node) -> bytes | None:
    if node.content is None or node.size > _LARGEST_COMPARED:
        return None
    try:
        return node.content.read()
    except ContentGone:
        return None
