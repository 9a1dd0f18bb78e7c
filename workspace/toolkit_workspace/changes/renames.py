"""Tell a moved file from a deletion and an addition.

The same bytes under another name are a rename; so is a text under the same name
or inode elsewhere that kept at least half of itself. Empty files and links are
never paired, and a file whose old bytes are lost is not guessed about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from toolkit_workspace.changes.compare import Pair
from toolkit_workspace.changes.patch import similarity
from toolkit_workspace.record.content import Content, ContentGone, Node

_LARGEST_COMPARED = 1 << 20
_MOST_COMPARED = 200


def find_renames(pairs: Sequence[Pair]) -> dict[bytes, Pair]:
    """For each new path that was moved there, the pair it came from."""
    gone = [pair for pair in pairs if pair.new is None and pair.old and pair.old.kind == "f" and pair.old.size]
    come = [pair for pair in pairs if pair.old is None and pair.new and pair.new.kind == "f" and pair.new.size]
    moved = _same_bytes(gone, come)
    taken = {pair.path for pair in moved.values()}
    gone = [pair for pair in gone if pair.path not in taken]
    come = [pair for pair in come if pair.path not in moved]
    return moved | _alike(gone, come)


def _same_bytes(gone: list[Pair], come: list[Pair]) -> dict[bytes, Pair]:
    by_size: dict[int, list[Pair]] = defaultdict(list)
    for pair in gone:
        by_size[_node(pair.old).size].append(pair)
    digests: dict[bytes, str | None] = {}
    moved: dict[bytes, Pair] = {}
    for pair in come:
        candidates = by_size.get(_node(pair.new).size, [])
        if not candidates:
            continue
        digest = _digest(_node(pair.new).content)
        same = [c for c in candidates if digests.setdefault(c.path, _digest(_node(c.old).content)) == digest]
        if digest is None or not same:
            continue
        best = min(same, key=lambda c: (not _is_near(c, pair), c.path))
        moved[pair.path] = best
        candidates.remove(best)
    return moved


def _alike(gone: list[Pair], come: list[Pair]) -> dict[bytes, Pair]:
    moved: dict[bytes, Pair] = {}
    scored = []
    for old, new in islice(_near_pairs(gone, come), _MOST_COMPARED):
        before, after = _small_text(_node(old.old)), _small_text(_node(new.new))
        score = similarity(before, after) if before and after else 0
        if score >= 50:
            scored.append((-score, new.path, old.path, old))
    taken: set[bytes] = set()
    for _, path, origin, pair in sorted(scored, key=lambda one: one[:3]):
        if path not in moved and origin not in taken:
            moved[path] = pair
            taken.add(origin)
    return moved


def _near_pairs(gone: list[Pair], come: list[Pair]) -> Iterator[tuple[Pair, Pair]]:
    by_trait: dict[bytes | int, list[Pair]] = defaultdict(list)
    for old in gone:
        by_trait[_name(old)].append(old)
        by_trait[_node(old.old).inode].append(old)
    for new in come:
        near = {old.path: old for trait in (_name(new), _node(new.new).inode) for old in by_trait.get(trait, ())}
        yield from ((old, new) for old in near.values())


def _is_near(old: Pair, new: Pair) -> bool:
    return _name(old) == _name(new) or _node(old.old).inode == _node(new.new).inode


def _name(pair: Pair) -> bytes:
    return pair.path.rpartition(b"/")[2]


def _node(node: Node | None) -> Node:
    assert node is not None
    return node


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
