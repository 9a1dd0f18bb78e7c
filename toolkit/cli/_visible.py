"""Words that are not ours, made safe for a terminal: a model or a tool may say anything."""

from __future__ import annotations


def one_line(text: str, width: int) -> str:
    """At most `width` visible characters on one line."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def visible(text: str) -> str:
    """The same text with its line breaks, and whatever steers a terminal written out."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
