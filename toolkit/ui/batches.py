"""A line for each batch: how far it is and what it costs. One that nobody works on is read again when it changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_line
from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.looking import BatchTable
from toolkit.runs.batches import find_batch, list_batches

_LOOK = 2.0
"""Seconds between two looks at a batch that is worked on: a large one takes a while to read."""


class BatchLines:
    """The lines of every batch below a state folder."""

    def __init__(self, home: Path | str | None = None) -> None:
        self._home = home
        self._tables: dict[str, BatchTable] = {}
        self._lines: dict[str, dict[str, Any]] = {}
        self._stamps: dict[str, Any] = {}
        self._next = 0.0

    def look(self) -> bool:
        """Whether a line is new, differs from the last look, or is gone."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _LOOK
        before, self._lines = self._lines, {}
        for batch in list_batches(self._home):
            table = self._tables.setdefault(batch.name, BatchTable(batch))
            stamp = table.stamp
            if batch.name in before and not batch.is_worked_on and self._stamps.get(batch.name) == (stamp, False):
                self._lines[batch.name] = before[batch.name]
                continue
            self._lines[batch.name] = _line(table)
            self._stamps[batch.name] = (stamp, self._lines[batch.name].get("worked_on"))
        return self._lines != before

    def lines(self) -> list[dict[str, Any]]:
        """Every line as it was at the last look, the latest first."""
        return sorted(self._lines.values(), key=lambda line: line["began"] or 0.0, reverse=True)

    def table(self, name: str) -> BatchTable:
        """One batch, to be read whole.

        Raises:
            RunError: there is none of that name.
        """
        batch = find_batch(name, self._home)
        if batch.name != name:
            raise RunError(f"there is no batch '{name}'")
        return BatchTable(batch)


def _line(table: BatchTable) -> dict[str, Any]:
    try:
        view = table.look()
        history = table.batch.rate_history
    except ToolkitError as error:
        damage = safe_line(error.what, 200)
        return {"batch": table.batch.name, "damage": damage, "counts": {}, "total": 0, "began": 0.0, "worked_on": False}
    plain = {name: value for name, value in view.to_json().items() if name not in ("tasks", "at")}
    return {
        **plain,
        "total": len(view.rows),
        "rate": history[-1].get("base") if history else None,
        "refused": sum(said.get("why") == "lowered" for said in history),
    }
