"""Find the lines two texts have in common, quickly enough for any file an agent may write.

Lines that occur once on each side are the anchors; what lies between two anchors
is compared step by step up to a fixed cost and taken as replaced beyond it. The
result is always a true common subsequence, not always the longest one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

Block = tuple[int, int, int]
"""Where a run of equal lines starts on the left, on the right, and how long it is."""

_MOST_STEPS = 300


def split_lines(data: bytes) -> list[bytes]:
    r"""Cut after every \n, and nowhere else; the last line may lack one."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def matching_blocks(left: Sequence[bytes], right: Sequence[bytes]) -> list[Block]:
    """The runs of equal lines, in order, closed by an empty one at both ends."""
    numbers: dict[bytes, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in left]
    b = [numbers.setdefault(line, len(numbers)) for line in right]
    pairs: list[tuple[int, int]] = []
    todo = [(0, len(a), 0, len(b))]
    while todo:  # each round takes one gap and adds smaller ones
        alo, ahi, blo, bhi = todo.pop()
        while alo < ahi and blo < bhi and a[alo] == b[blo]:
            pairs.append((alo, blo))
            alo, blo = alo + 1, blo + 1
        while alo < ahi and blo < bhi and a[ahi - 1] == b[bhi - 1]:
            ahi, bhi = ahi - 1, bhi - 1
            pairs.append((ahi, bhi))
        if alo == ahi or blo == bhi:
            continue
        anchors = _unique_in_both(a, alo, ahi, b, blo, bhi)
        if not anchors:
            pairs += _step_by_step(a[alo:ahi], b[blo:bhi], alo, blo)
            continue
        pairs += anchors
        fences = [(alo - 1, blo - 1), *anchors, (ahi, bhi)]
        todo += [(i + 1, k, j + 1, m) for (i, j), (k, m) in pairwise(fences)]
    return _joined(sorted(pairs), len(a), len(b))


def _unique_in_both(a: list[int], alo: int, ahi: int, b: list[int], blo: int, bhi: int) -> list[tuple[int, int]]:
    """Lines that occur once on each side, as the longest series that keeps its order."""
    once_a = {line for line, count in Counter(a[alo:ahi]).items() if count == 1}
    once_b = {line for line, count in Counter(b[blo:bhi]).items() if count == 1}
    place = {b[j]: j for j in range(blo, bhi) if b[j] in once_b and b[j] in once_a}
    candidates = [(i, place[a[i]]) for i in range(alo, ahi) if a[i] in once_a and a[i] in place]
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(candidates):
        rank = bisect_left(tops, j)
        before.append(ends[rank - 1] if rank else -1)
        if rank == len(tops):
            tops.append(j)
            ends.append(n)
        else:
            tops[rank], ends[rank] = j, n
    series: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        series.append(candidates[at])
        at = before[at]
    return series[::-1]


def _step_by_step(a: list[int], b: list[int], alo: int, blo: int) -> list[tuple[int, int]]:
    """The shortest way from one short text to the other (Myers); nothing in common when it is too long."""
    size, other = len(a), len(b)
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for steps in range(min(size + other, _MOST_STEPS) + 1):
        trail.append(dict(reach))
        for k in range(-steps, steps + 1, 2):
            down = k == -steps or (k != steps and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < size and x - k < other and a[x] == b[x - k]:
                x += 1
            reach[k] = x
            if x >= size and x - k >= other:
                return _walked_back(trail, size, other, alo, blo)
    return []


def _walked_back(trail: list[dict[int, int]], x: int, y: int, alo: int, blo: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for steps in range(len(trail) - 1, -1, -1):
        reach, k = trail[steps], x - y
        down = k == -steps or (k != steps and reach[k - 1] < reach[k + 1])
        came_from = k + 1 if down else k - 1
        start_x = reach[came_from] if steps else 0
        start_y = start_x - came_from if steps else 0
        while x > start_x and y > start_y:
            x, y = x - 1, y - 1
            pairs.append((alo + x, blo + y))
        x, y = start_x, start_y
    return pairs


def _joined(pairs: list[tuple[int, int]], a_end: int, b_end: int) -> list[Block]:
    blocks: list[Block] = []
    for i, j in pairs:
        if blocks and blocks[-1][0] + blocks[-1][2] == i and blocks[-1][1] + blocks[-1][2] == j:
            blocks[-1] = (blocks[-1][0], blocks[-1][1], blocks[-1][2] + 1)
        else:
            blocks.append((i, j, 1))
    return [*blocks, (a_end, b_end, 0)]
