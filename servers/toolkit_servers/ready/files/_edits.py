"""Replace exact pieces of a text, and say so precisely when a piece is not there.

Bytes that are not UTF-8 survive, and so do CRLF line ends where the pieces are
written with plain ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolkit.errors import ToolError
from toolkit_servers.ready.files._root import Place
from toolkit_workspace.changes import Version, file_patch

_MOST_LINES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement."""

    old: Annotated[str, Field(min_length=1), "The exact text to replace, spaces included; it must occur once."]
    new: Annotated[str, "What stands there afterwards."]
    every: Annotated[bool, "Replace every occurrence instead."] = False


def apply_edits(data: bytes, edits: Sequence[Edit], place: Place) -> bytes:
    """The contents with all edits made, one after the other.

    Raises:
        ToolError: an edit fits nowhere, or in more than one place. No edit counts then.
    """
    text = data.decode("utf-8", "surrogateescape")
    for number, edit in enumerate(edits, 1):
        label = f"edit {number}: " if len(edits) > 1 else ""
        old, new = edit.old, edit.new
        found = text.count(old)
        if not found and "\r\n" in text and "\r" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
            found = text.count(old)
        if not found:
            raise ToolError(f"{label}the old text is not in {place}; nothing was changed{_nearest(text, edit.old)}")
        if found > 1 and not edit.every:
            lines = ", ".join(str(line) for line in _line_numbers(text, old)[:10])
            raise ToolError(
                f"{label}the old text is in {place} {found} times (lines {lines}); nothing was changed. "
                "Add the lines around it until it is unique, or set every=true"
            )
        text = text.replace(old, new)
    return text.encode("utf-8", "surrogateescape")


def diff(old: bytes | None, new: bytes, place: Place) -> str:
    """What changes, as a unified diff without git's header lines."""
    raw = place.raw
    before = None if old is None else Version(raw, 0o100644, old)
    patch = file_patch(before, Version(raw, 0o100644, new)).decode("utf-8", "replace")
    start = patch.find("--- ")
    return patch[start:].rstrip("\n") if start >= 0 else ""


def _line_numbers(text: str, piece: str) -> list[int]:
    numbers, at = list[int](), text.find(piece)
    while at >= 0 and len(numbers) < 100:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(piece, at + len(piece))
    return numbers


def _nearest(text: str, old: str) -> str:
    """The place that differs from what was looked for in its spaces only, as it really is."""
    lines = text.split("\n")
    wanted = [" ".join(line.split()) for line in old.strip("\n").split("\n")]
    squeezed = [" ".join(line.split()) for line in lines]
    if not any(wanted):
        return "; read the file again"
    for at in range(len(lines) - len(wanted) + 1):
        if squeezed[at] == wanted[0] and squeezed[at : at + len(wanted)] == wanted:
            there = lines[at : at + min(len(wanted), _MOST_LINES_SHOWN)]
            shown = "\n".join(line.removesuffix("\r").encode("utf-8", "replace").decode() for line in there)
            return f". Lines {at + 1} to {at + len(wanted)} differ from it in spaces only; they are:\n{shown}"
    if wanted[0] in squeezed:
        at = squeezed.index(wanted[0])
        return f". Its first line is line {at + 1}, but then they differ; read the file from there"
    return "; read the file again"
