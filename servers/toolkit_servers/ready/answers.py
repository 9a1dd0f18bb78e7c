"""How the ready-made tools word their answers: whole lines that fit, and a last line on what is left out."""

from __future__ import annotations

from collections.abc import Iterable

_MOST_LINES = 1_000


def with_remarks(lines: Iterable[str], remarks: Iterable[str]) -> str:
    """The lines, and the remarks in brackets below them where there are any."""
    said = "; ".join(remarks)
    return "\n".join([*lines, f"[{said}]"] if said else lines)


def fitting(lines: Iterable[str], room: int) -> tuple[str, ...]:
    """The first lines, as many as a result has room for."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0 or len(kept) == _MOST_LINES:
            break
        kept.append(line)
    return tuple(kept)


def one_line(text: str) -> str:
    """The text without its line breaks, which would look like further entries of a list."""
    return " ".join(text.split())
