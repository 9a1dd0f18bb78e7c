"""Write names, numbers and other people's text for a person, a terminal or a prompt.

A file name, a model's answer and a tool's output are data of a stranger: they can
hold newlines, terminal codes and whole sentences. What comes out of `safe_name`,
`safe_line` and `safe_text` cannot steer a terminal or be mistaken for our own words.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

_LONGEST_NAME = 120
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_TIME_PART = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_CONFUSING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Characters that show nothing, or turn the reading direction: joiners and marks of no width, bidirectional controls,
# tags, variation selectors, fillers of Hangul and Khmer, the empty Braille cell. Many of them count as printable.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ODD = re.compile(r'[\\"`<> ]')
_AS_EMOJI, _JOINER = "\ufe0f", "\u200d"


def safe_name(name: str | bytes, longest: int = _LONGEST_NAME) -> str:
    """A name on one line: control and invisible characters escaped, quotes around it where it holds spaces."""
    text = os.fsdecode(name)
    if text and text.isprintable() and not _ODD.search(text) and not _HIDDEN.search(text):
        return text if len(text) <= longest else text[: longest - 1] + "…"
    out = []
    is_odd = not text
    for char in text:
        if char in '\\"`<>' or _HIDDEN.match(char) or (char != " " and unicodedata.category(char) in _CONFUSING):
            out.append(_escaped(char))
            is_odd = True
        else:
            out.append(char)
            is_odd = is_odd or char == " "
    line = "".join(out)
    if len(line) > longest:
        line = line[: longest - 1] + "…"
    return f'"{line}"' if is_odd else line


def safe_line(text: str, width: int) -> str:
    """At most `width` visible characters on one line."""
    shown = show_hidden(text)
    flat = " ".join("".join(char if char.isprintable() else " " for char in shown).split())
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def safe_text(text: str) -> str:
    """The same text with its line breaks, and whatever steers a terminal written out."""
    return "".join(char if char.isprintable() or char in "\n\t" else _escaped(char) for char in show_hidden(text))


def hidden_in(text: str) -> list[tuple[int, str]]:
    """The characters of a text that nobody sees, or that turn its reading direction, each with its place.

    What makes a picture of a symbol (an emoji's selector, the joiner between two) is not among them.
    """
    found = [(one.start(), one[0]) for one in _HIDDEN.finditer(text)]
    return [(at, char) for at, char in found if not _makes_a_picture(text, at, char)]


def show_hidden(text: str) -> str:
    """The same text with the characters of `hidden_in` written out as escapes."""
    pieces, done = list[str](), 0
    for at, char in hidden_in(text):
        pieces += [text[done:at], _escaped(char)]
        done = at + 1
    return "".join([*pieces, text[done:]]) if pieces else text


def _makes_a_picture(text: str, at: int, char: str) -> bool:
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    if char == _AS_EMOJI:
        return _is_symbol(before) or (before.isascii() and before != "" and before in "0123456789#*")
    return char == _JOINER and (before == _AS_EMOJI or _is_symbol(before)) and _is_symbol(after)


def _is_symbol(char: str) -> bool:
    return char != "" and char != "\u2800" and unicodedata.category(char) in ("So", "Sk")


def typed_path(file: str | Path, cwd: Path) -> str:
    """A path as someone in `cwd` would type it: relative where it lies below."""
    path = Path(file)
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


def size_text(size: int) -> str:
    """1,536 bytes as "1.5 kB": powers of a thousand, two or three digits."""
    value, unit = float(size), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return f"{value:.0f} {_UNITS[unit]}" if not unit or value >= 9.95 else f"{value:.1f} {_UNITS[unit]}"


def read_duration(text: str) -> float | None:
    """A length of time as people write it, in seconds: 90, 90s, 10m, 1h30m, 30d; None where it is none."""
    text = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _TIME_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def read_size(text: str) -> int | None:
    """A number of bytes as people write it: 5000000, 5_000_000, 5MB, 1.5GB, 4GiB; None where it is none."""
    text = text.strip().lower()
    number = text.rstrip("bikmgt").strip()
    unit = text[len(number) :].strip()
    try:
        return int(float(number) * _BYTES[unit]) if "." in number else int(number) * _BYTES[unit]
    except (ValueError, KeyError, OverflowError):
        return None


def count_text(count: int, noun: str) -> str:
    """A number and its noun: 1 file, 2,000 files, 3 entries."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith(("ry", "py")) else f"{count:,} {noun}s"


def duration_text(ms: float) -> str:
    """A length of time as people say it: 340 ms, 2.1 s, 3 m 20 s."""
    if ms < 999.5:
        return f"{ms:.0f} ms"
    seconds = round(ms / 1000)
    return f"{ms / 1000:.1f} s" if ms < 59_950 else f"{seconds // 60} m {seconds % 60} s"


def cost_text(cost: float | None, known: float = 0.0) -> str:
    """Dollars as people write them; `known` is the part that is known of a cost that is not."""
    if cost is not None:
        return f"${cost:.4f}"
    return f"at least ${known:.4f}" if known else "unknown"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant, if one is near enough."""
    import difflib

    known = list(known)
    in_other_case = [one for one in known if one.casefold() == name.casefold()]
    return next(iter(in_other_case or difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    known = list(known)
    if near := nearest(name, known):
        return f"; did you mean '{near}'?"
    return f"; there are: {', '.join(known)}" if known else "; there are none"


def _escaped(char: str) -> str:
    code = ord(char)
    if char in '\\"':
        return "\\" + char
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
