"""One thing that was looked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    stops: bool = True
    """Whether a run cannot start while it is not ok."""
