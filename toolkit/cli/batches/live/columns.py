"""Text in columns of a terminal: some characters take two of them, some none."""

from __future__ import annotations

import unicodedata

from toolkit._base.words import safe_line


def width_of(text: str) -> int:
    """How many columns a text takes."""
    return sum(map(_columns, text)) if not text.isascii() else len(text)


def clipped(text: str, columns: int) -> str:
    """A text of anybody's on one line of at most so many columns; `…` where something is left out."""
    return cut(safe_line(text, max(columns, 0) + 1), columns)


def cut(line: str, columns: int) -> str:
    """A line that is safe already, in at most so many columns."""
    if width_of(line) <= columns:
        return line
    kept, used = [], 0
    for char in line:
        used += _columns(char)
        if used > columns - 1:
            break
        kept.append(char)
    return "".join(kept) + "…" if columns > 0 else ""


def fitted(text: str, columns: int, *, right: bool = False) -> str:
    """The same, filled up with spaces to exactly so many columns."""
    line = clipped(text, columns)
    space = " " * (columns - width_of(line))
    return space + line if right else line + space


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
