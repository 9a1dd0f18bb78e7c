"""The attempts of attempts.toml as rows."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BASH_MS = 20_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way out, or one piece of honest work; the fields are explained in attempts.toml."""

    name: str
    about: str
    tool: str = "Bash"
    input: dict[str, Any] = field(default_factory=dict)
    group: str = "main"
    held_anyway: bool = False
    needs_sandbox: bool = False
    read_first: bool = False
    work: bool = False


def _load() -> list[Attempt]:
    rows = tomllib.loads(Path(__file__).with_name("attempts.toml").read_text(encoding="utf-8"))
    attempts = []
    for name, row in rows.items():
        if "bash" in row:
            row["input"] = {"command": row.pop("bash"), "timeout": _BASH_MS, **row.get("input", {})}
        attempts.append(Attempt(name, **row))
    return attempts


_ALL = _load()
ATTEMPTS = tuple(attempt for attempt in _ALL if not attempt.work)
USEFUL = tuple(attempt for attempt in _ALL if attempt.work)
