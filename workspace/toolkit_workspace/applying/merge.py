"""Merge two changed versions of a text over the version both came from.

A stretch that only one side changed is taken from that side; one that both
changed alike is taken once; anything else is a conflict, marked in the text and
counted. Lines next to each other that were changed by different sides are a
conflict too: nobody has seen the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit_workspace.changes.lines import Block, matching_blocks, split_lines
from toolkit_workspace.record.content import Content, is_binary

_LARGEST_MERGED = 8 << 20
HOST_MARK = b"<<<<<<< host"
BETWEEN_MARK = b"======="
WORKSPACE_MARK = b">>>>>>> workspace"


class Conflict(Exception):
    """A change that cannot be brought together with what the host has; the reason is for people."""


def merged_bytes(base: Content, host: Content, workspace: Content) -> tuple[bytes, int]:
    """Both versions merged, and how many conflicts are marked in them.

    Raises:
        Conflict: they are no texts, or too large.
    """
    texts = _texts(host, workspace)
    before = base.read()
    if is_binary(before):
        raise Conflict("a binary file that changed on both sides")
    merged = merge(before, *texts)
    return merged.data, merged.conflicts


def marked_bytes(host: Content, workspace: Content) -> bytes:
    """Both versions with their differences marked; raises as `merged_bytes` does."""
    return mark_differences(*_texts(host, workspace)).data


def _texts(host: Content, workspace: Content) -> tuple[bytes, bytes]:
    if max(host.size, workspace.size) > _LARGEST_MERGED:
        raise Conflict("a large file that changed on both sides")
    texts = host.read(), workspace.read()
    if any(is_binary(text) for text in texts):
        raise Conflict("a binary file that changed on both sides")
    return texts


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged text, with conflict markers where `conflicts` is not 0."""

    data: bytes
    conflicts: int


def merge(base: bytes, host: bytes, workspace: bytes) -> Merged:
    """Merge line by line; the markers name the host's side first."""
    b, h, w = split_lines(base), split_lines(host), split_lines(workspace)
    return _written(list(_stretches(b, h, w)))


def mark_differences(host: bytes, workspace: bytes) -> Merged:
    """Both versions with every difference marked, for when nobody knows what they came from."""
    h, w = split_lines(host), split_lines(workspace)
    parts: list[_Part] = []
    i = j = 0
    for at_host, at_workspace, length in matching_blocks(h, w):
        if at_host > i or at_workspace > j:
            parts.append((h[i:at_host], w[j:at_workspace]))
        parts.append((h[at_host : at_host + length], None))
        i, j = at_host + length, at_workspace + length
    return _written(parts)


_Part = tuple[list[bytes], list[bytes] | None]
"""Agreed lines and None, or the two sides of a conflict."""


def _stretches(b: list[bytes], h: list[bytes], w: list[bytes]) -> Iterator[_Part]:
    at_b = at_h = at_w = 0
    for in_b, in_h, in_w, length in _kept_by_both(matching_blocks(b, h), matching_blocks(b, w)):
        was, ours, theirs = b[at_b:in_b], h[at_h:in_h], w[at_w:in_w]
        if ours == theirs or theirs == was:
            yield ours, None
        elif ours == was:
            yield theirs, None
        else:
            yield ours, theirs
        yield b[in_b : in_b + length], None
        at_b, at_h, at_w = in_b + length, in_h + length, in_w + length


def _kept_by_both(host: list[Block], workspace: list[Block]) -> Iterator[tuple[int, int, int, int]]:
    """The runs of base lines that stand on both sides: base, host and workspace start, length."""
    i = j = 0
    end = (host[-1][0], host[-1][1], workspace[-1][1], 0)
    while i < len(host) and j < len(workspace):
        (hb, hs, hn), (wb, ws, wn) = host[i], workspace[j]
        start, stop = max(hb, wb), min(hb + hn, wb + wn)
        if start < stop:
            yield start, hs + start - hb, ws + start - wb, stop - start
        if hb + hn < wb + wn:
            i += 1
        else:
            j += 1
    yield end


def _written(parts: list[_Part]) -> Merged:
    out: list[bytes] = []
    conflicts = 0
    for ours, theirs in parts:
        if theirs is None:
            out += ours
            continue
        conflicts += 1
        eol = b"\r\n" if (ours or theirs)[0].endswith(b"\r\n") else b"\n"
        out += [HOST_MARK + eol, *_closed(ours, eol), BETWEEN_MARK + eol, *_closed(theirs, eol), WORKSPACE_MARK + eol]
    return Merged(b"".join(out), conflicts)


def _closed(lines: list[bytes], eol: bytes) -> list[bytes]:
    """The lines, the last one ended: a marker has to start a line of its own."""
    return [*lines[:-1], lines[-1] + eol] if lines and not lines[-1].endswith(b"\n") else lines
