"""The live table: it is looked at every second, drawn, and does what keys say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolkit.cli.batches.live import details, frame
from toolkit.cli.batches.live.acting import interrupt, retry, show_report
from toolkit.cli.batches.live.screen import Screen
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable, BatchView, TaskRow

_TICK = 1.0
"""Seconds between two looks."""
_REST = 4.0
"""A look at a very large batch is followed by a rest that many times as long."""
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1}
Act = Callable[["BatchTable", "TaskRow"], str]


class Board:
    """What is shown, and where one is in it."""

    def __init__(self, table: BatchTable, screen: Screen) -> None:
        self._table = table
        self._screen = screen
        self._view: BatchView = table.look()
        self._rows: list[TaskRow] = []
        self._selected: str | None = None
        self._top = 0
        self._filter = frame.FILTERS[0]
        self._open: details.Details | None = None
        self._said: str | None = None
        self._asked: tuple[str, Act, TaskRow] | None = None

    def run(self) -> None:
        """Show it until somebody quits, or the terminal is gone."""
        try:
            while True:
                began = time.monotonic()
                self._view = self._table.look()
                self._draw()
                key = self._screen.key(max(_TICK, (time.monotonic() - began) * _REST))
                if key is not None and not self._press(key):
                    return
        except (KeyboardInterrupt, EOFError):
            return

    def _draw(self) -> None:
        width, height = self._screen.size
        self._rows = frame.ordered(self._view.rows, self._filter)
        row = self._row()
        if self._open is not None and row is not None:
            foot = self._foot(details.KEYS)
            self._screen.show(self._open.lines(row, width, height, foot=foot))
            return
        room = frame.room_for(height)
        place = self._rows.index(row) if row in self._rows else 0
        self._top = max(0, min(self._top, place, len(self._rows) - room), place - room + 1)
        seen = self._table.with_turns(self._rows[self._top : self._top + room])
        foot = self._foot(f"{frame.KEYS}  ({self._filter}: {len(self._rows)})")
        selected = None if row is None else row.task
        self._screen.show(frame.table_lines(self._view, seen, selected, width, height, foot=foot))

    def _foot(self, keys: str) -> str:
        return f"{self._asked[0]} y = yes, any other key = no" if self._asked else self._said or keys

    def _row(self) -> TaskRow | None:
        """The chosen row: the same task as before, wherever it has moved to; the first until one was chosen."""
        named = self._open.task if self._open is not None else self._selected
        found = next((row for row in self._view.rows if row.task == named), None)
        if self._open is None and found not in self._rows:
            found = self._rows[0] if self._rows else None
        return found

    def _press(self, key: str) -> bool:
        """Do what a key says; False to end."""
        row = self._row()
        self._selected = row.task if row is not None else None
        if self._asked is not None:
            _, act, about = self._asked
            self._asked = None
            self._said = self._done(act, about) if key == "y" else "nothing was done"
            return key != "quit"
        self._said = None
        if key in ("q", "quit"):
            return False
        if key == "escape":
            self._open = None
        elif row is None:
            return True
        elif key == "enter" and self._open is None:
            self._open = details.Details(self._table, row.task)
        elif key in ("o", "b"):
            self._said = self._done(show_report, row)
        elif key == "i":
            self._ask(f"End the run of '{row.task}'?", interrupt, row)
        elif key == "r":
            self._ask(f"Do '{row.task}' again, from the start?", retry, row)
        elif key == "f" and self._open is None:
            self._filter = frame.FILTERS[(frame.FILTERS.index(self._filter) + 1) % len(frame.FILTERS)]
        else:
            self._move(key)
        return True

    def _ask(self, question: str, act: Act, row: TaskRow) -> None:
        self._asked = (question, act, row)

    def _done(self, act: Act, row: TaskRow) -> str:
        try:
            return act(self._table, row)
        except ToolkitError as error:
            return error.what

    def _move(self, key: str) -> None:
        page = max(1, frame.room_for(self._screen.size[1]) - 1)
        step = {**_MOVES, "page up": -page, "page down": page, "home": -len(self._rows), "end": len(self._rows)}.get(
            key
        )
        if step is None:
            return
        if self._open is not None:
            self._open.scroll -= step
        elif self._rows:
            names = [row.task for row in self._rows]
            place = names.index(self._selected) if self._selected in names else 0
            self._selected = names[max(0, min(place + step, len(names) - 1))]
