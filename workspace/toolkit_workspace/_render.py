"""Write names and sizes for people and for a prompt.

A file name is data of a stranger: it can hold newlines, terminal codes and whole
sentences. `shown` leaves one plain word that cannot be mistaken for anything else.
"""

from __future__ import annotations

import os
import unicodedata

LONGEST_NAME = 120

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_CONFUSING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def shown(name: str | bytes, longest: int = LONGEST_NAME) -> str:
    """A name on one line: control and invisible characters escaped, quotes around it where it holds spaces."""
    text = os.fsdecode(name)
    out = []
    odd = not text
    for char in text:
        if char in '\\"`<>' or (char != " " and unicodedata.category(char) in {*_CONFUSING, "Zs"}):
            out.append(_escaped(char))
            odd = True
        else:
            out.append(char)
            odd = odd or char == " "
    line = "".join(out)
    if len(line) > longest:
        line = line[: longest - 1] + "…"
    return f'"{line}"' if odd else line


def _escaped(char: str) -> str:
    code = ord(char)
    if char in '\\"':
        return "\\" + char
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def size_text(size: int) -> str:
    """1,536 bytes as "1.5 kB": powers of a thousand, two or three digits."""
    value, unit = float(size), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return f"{value:.0f} {_UNITS[unit]}" if not unit or value >= 9.95 else f"{value:.1f} {_UNITS[unit]}"


def count_text(count: int, noun: str) -> str:
    """A number and its noun: 1 file, 2,000 files."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
