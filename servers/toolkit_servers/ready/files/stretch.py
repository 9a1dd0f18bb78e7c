"""Read a stretch of lines out of a file of any size, in bounded memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from toolkit._base.words import size_text
from toolkit.errors import ToolError
from toolkit_servers.ready.answers import with_remarks
from toolkit_servers.ready.files.root import Place
from toolkit_workspace.changes import is_binary

_BLOCK = 1 << 20
_COUNTED = 64 << 20
"""Up to this size the lines of a file are counted, so that a cut text says of how many."""
_TAIL = 8 << 20
"""How far back from the end of a larger file lines are looked for."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some lines of a file, and what of it is missing."""

    lines: tuple[str, ...]
    first: int | None
    """Number of the first line; None where a file is too large to count."""
    total: int | None
    """Lines in the file, where they were counted."""
    cut_in_line: bool = False
    """The last line goes on: it alone is longer than a result may be."""
    is_utf8: bool = True
    crlf: bool = False
    numbered: bool = False

    def render(self) -> str:
        """The lines as they are, and a last line in brackets about what is missing or odd."""
        if not self.lines:
            return f"[no lines there: the file has {self.total:,}]" if self.total else "[the file is empty]"
        return with_remarks(self._numbered() if self.numbered else self.lines, [*self._missing(), *self._oddities()])

    def _numbered(self) -> list[str]:
        if self.first is None:
            return list(self.lines)
        return [f"{number:>6}  {line}" for number, line in enumerate(self.lines, self.first)]

    def _missing(self) -> list[str]:
        if self.first is None:
            return [f"the last {len(self.lines):,} lines of a large file", *(["cut here"] if self.cut_in_line else [])]
        last = self.first + len(self.lines) - 1
        if self.cut_in_line:
            return [f"line {last:,} is cut here: it is longer than a result may be"]
        if self.first == 1 and last == self.total:
            return []
        of = f" of {self.total:,}" if self.total is not None else ""
        more = [f"go on with start={last + 1}"] if last != self.total else []
        return [f"lines {self.first:,} to {last:,}{of}", *more]

    def _oddities(self) -> list[str]:
        odd = [] if self.is_utf8 else ["not all of it is UTF-8: � stands for other bytes"]
        return [*odd, "line ends are CRLF"] if self.crlf else odd


def read_stretch(
    handle: int, place: Place, *, start: int = 1, count: int | None = None, room: int = 50_000, numbered: bool = False
) -> Stretch:
    """`count` lines from line `start` on (negative: from the end), at most `room` characters; closes the handle."""
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        require_text(file.read(8_000), size, place)
        first: int | None
        if start < 0:
            count = -start if count is None else count
            first = seek_tail(file, -start, size)
        else:
            first = max(start, 1)
            file.seek(0)
            lines_before = _skip_lines(file, first - 1)
            if lines_before < first - 1:
                return Stretch((), None, lines_before)
        lines, is_utf8, cut = _collect(file, count, room, at_beginning=first == 1)
        total = None
        if first is not None and not cut and size - file.tell() <= _COUNTED:
            total = first - 1 + len(lines) + _skip_lines(file, None)
    return Stretch(
        tuple(line.removesuffix("\r") for line in lines),
        first,
        total,
        cut_in_line=cut,
        is_utf8=is_utf8,
        crlf=any(line.endswith("\r") for line in lines),
        numbered=numbered,
    )


def require_text(head: bytes, size: int, place: Place, *, media_tool: str = "read_media") -> None:
    """Raise where the first bytes are not those of a text."""
    if is_binary(head):
        raise ToolError(f"{place} is binary ({size_text(size)}); {media_tool} shows pictures and sounds")


def _skip_lines(file: BinaryIO, count: int | None) -> int:
    """Pass over `count` lines, or all; how many there were."""
    passed, last = 0, b"\n"
    while count is None or passed < count:
        block = file.read(_BLOCK)
        if not block:
            return passed + (last != b"\n")
        last = block[-1:]
        here = block.count(b"\n")
        if count is None or passed + here < count:
            passed += here
            continue
        at = 0
        for _ in range(count - passed):
            at = block.index(b"\n", at) + 1
        file.seek(at - len(block), os.SEEK_CUR)
        return count
    return passed


def seek_tail(file: BinaryIO, count: int, size: int) -> int | None:
    """Go to where the last `count` lines begin; the number of the first of them, if the file is not too large."""
    file.seek(0)
    if size <= _COUNTED + _TAIL:
        first = max(1, _skip_lines(file, None) - count + 1)
        file.seek(0)
        _skip_lines(file, first - 1)
        return first
    offset = size - _TAIL
    file.seek(offset)
    data = file.read(_TAIL)
    end = len(data) - data.endswith(b"\n")
    # As many lines as lie in the tail; its own first one is only the end of a line.
    wanted = min(count, data.count(b"\n", 0, end))
    for _ in range(wanted):
        end = data.rindex(b"\n", 0, end)
    file.seek(offset + end + 1 if wanted else offset)
    return None


def _collect(file: BinaryIO, count: int | None, room: int, *, at_beginning: bool) -> tuple[list[str], bool, bool]:
    """Lines without their ends, as many as there is room for; whether all was UTF-8, whether the only one is cut."""
    lines: list[str] = []
    is_utf8 = True
    while (count is None or len(lines) < count) and (room > 0 or not lines):
        most = 4 * room + 4  # bytes: more than `room` characters, whatever they are
        piece = file.readline(most)
        if not piece:
            break
        text = piece.removesuffix(b"\n")
        if at_beginning and not lines:
            text = text.removeprefix(_BOM)
        try:
            line = text.decode()
        except UnicodeDecodeError as error:
            line = text.decode("utf-8", "replace")
            ends_within_letter = len(piece) == most and error.end == len(text)
            is_utf8 = is_utf8 and ends_within_letter
        room -= len(line) + bool(lines)  # the newline before it
        if room < 0 and lines:
            file.seek(-len(piece), os.SEEK_CUR)
            break
        if room < 0:
            return [line[:room]], is_utf8, True
        lines.append(line)
    return lines, is_utf8, False
