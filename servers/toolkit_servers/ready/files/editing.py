"""Replace exact pieces of a text, and say precisely why when a piece is not there or not alone.

Bytes that are not UTF-8 survive an edit, and so do CRLF line ends where the pieces are written with plain ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolkit._base.words import size_text
from toolkit.errors import ToolError
from toolkit_servers.ready.files.root import Place, Root
from toolkit_servers.ready.files.stretch import require_text
from toolkit_workspace.changes import Version, file_patch

_LARGEST_EDITED = 4 << 20
_MOST_LINES_REPEATED = 12


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement."""

    old: Annotated[str, Field(min_length=1), "The exact text to replace, spaces included; it must occur once."]
    new: Annotated[str, "What stands there afterwards."]
    every: Annotated[bool, "Replace every occurrence instead."] = False


def read_for_edit(root: Root, place: Place, *, media_tool: str = "read_media") -> tuple[os.stat_result, bytes]:
    """The bytes of a text file, and what the file was like when they were read."""
    with os.fdopen(root.open_file(place), "rb") as file:
        st = os.fstat(file.fileno())
        data = file.read(_LARGEST_EDITED + 1)
    require_text(data[:8_000], st.st_size, place, media_tool=media_tool)
    if len(data) > _LARGEST_EDITED:
        raise ToolError(f"{place} has {size_text(st.st_size)}; at most {size_text(_LARGEST_EDITED)} can be edited")
    return st, data


def apply_edits(data: bytes, edits: Sequence[Edit], place: Place, *, any_indent: bool = False) -> bytes:
    """The contents with all edits made, one after the other.

    With `any_indent`, old text that is nowhere found as it is may stand there with other spaces at the begin and end of
    its lines; the new text then gets the indentation of the place.

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
        if found > 1 and not edit.every:
            raise _ambiguous(label, place, _line_numbers(text, old), "" if any_indent else ", or set every=true")
        if found:
            text = text.replace(old, new)
            continue
        lines = _loosely_found(text, edit.old) if any_indent else []
        if len(lines) > 1:
            raise _ambiguous(label, place, [line + 1 for line in lines])
        if not lines:
            raise ToolError(f"{label}the old text is not in {place}; nothing was changed{_nearest(text, edit.old)}")
        text = _with_its_indent(text, lines[0], edit)
    return text.encode("utf-8", "surrogateescape")


def diff_text(old: bytes, new: bytes, place: Place) -> str:
    """What changes, as a unified diff without git's header lines."""
    before, after = Version(place.raw, 0o100644, old), Version(place.raw, 0o100644, new)
    patch = file_patch(before, after).decode("utf-8", "replace")
    start = patch.find("--- ")
    return patch[start:].rstrip("\n") if start >= 0 else ""


def _ambiguous(label: str, place: Place, lines: Sequence[int], otherwise: str = "") -> ToolError:
    listed = ", ".join(str(line) for line in lines[:10])
    return ToolError(
        f"{label}the old text is in {place} {len(lines)} times (lines {listed}); nothing was changed. "
        f"Add the lines around it until it is unique{otherwise}"
    )


def _line_numbers(text: str, piece: str) -> list[int]:
    numbers, at, line = list[int](), text.find(piece), 1
    counted = 0
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        numbers.append(line)
        at = text.find(piece, at + len(piece))
    return numbers


def _loosely_found(text: str, old: str) -> list[int]:
    """Where lines stand that differ from the old text only in the spaces around each; numbers from 0."""
    wanted = [line.strip() for line in old.split("\n")]
    if not any(wanted):
        return []
    lines = [line.strip() for line in text.split("\n")]
    starts = range(len(lines) - len(wanted) + 1)
    return [at for at in starts if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted]


def _with_its_indent(text: str, at: int, edit: Edit) -> str:
    """The text with the new lines in place of those at line `at`, moved to the indentation that is there."""
    lines, old = text.split("\n"), edit.old.split("\n")
    there, given = _indent(lines[at]), _indent(old[0])
    end = "\r" if lines[at].endswith("\r") else ""
    new = [line.removesuffix("\r") for line in edit.new.split("\n")]
    moved = [there + (line.removeprefix(given) if line.startswith(given) else line.lstrip()) for line in new]
    kept = [line + end if line.strip() else end for line in moved]
    return "\n".join([*lines[:at], *kept, *lines[at + len(old) :]])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _nearest(text: str, old: str) -> str:
    """The place that differs from what was looked for in its spaces only, as it really is."""
    lines = text.split("\n")
    wanted = [" ".join(line.split()) for line in old.strip("\n").split("\n")]
    squeezed = [" ".join(line.split()) for line in lines]
    if not any(wanted):
        return "; read the file again"
    for at in range(len(lines) - len(wanted) + 1):
        if squeezed[at] == wanted[0] and squeezed[at : at + len(wanted)] == wanted:
            there = lines[at : at + min(len(wanted), _MOST_LINES_REPEATED)]
            really = "\n".join(line.removesuffix("\r").encode("utf-8", "replace").decode() for line in there)
            return f". Lines {at + 1} to {at + len(wanted)} differ from it in spaces only; they are:\n{really}"
    if wanted[0] in squeezed:
        at = squeezed.index(wanted[0])
        return f". Its first line is line {at + 1}, but then they differ; read the file from there"
    return "; read the file again"
