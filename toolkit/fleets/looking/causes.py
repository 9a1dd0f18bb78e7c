"""Why tasks failed: those with one cause together, the most frequent first.

Two causes are one where they differ in numbers only: ports, line numbers, ids and times differ from run to run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.fleets.looking.rows import TaskRow

_DIFFERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+(?:[.,:]\d+)*")
_LONGEST_KEY = 300


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Tasks that failed for one cause."""

    state: str
    """How they ended."""
    cause: str | None
    """The cause of the first; None where none is known."""
    rows: tuple[TaskRow, ...]


def failures_of(rows: Iterable[TaskRow]) -> list[FailureGroup]:
    """The tasks that failed, by state and cause."""
    found: dict[tuple[str, str], list[TaskRow]] = {}
    for row in rows:
        if row.group == "failed":
            key = _DIFFERS.sub("#", row.cause or "")[:_LONGEST_KEY]
            found.setdefault((row.state, key), []).append(row)
    groups = [FailureGroup(state, some[0].cause, tuple(some)) for (state, _), some in found.items()]
    return sorted(groups, key=lambda group: -len(group.rows))
