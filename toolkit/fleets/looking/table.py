"""A batch as rows, kept up to date: the journal is read when it has grown, a running run from where it was left."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import time
from collections.abc import Iterable
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.fleets.looking.rows import BatchView, TaskRow
from toolkit.runs import StoredRun
from toolkit.runs.batches import Batch, Standing
from toolkit.runs.outcome import Fold
from toolkit.runs.storage import EventFile, runs_home


class BatchTable:
    """The rows of one batch. It only reads: whoever works on the batch is not disturbed."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.runs = runs_home(batch.folder.parent.parent)
        """The folder of all runs."""
        self._stamp: tuple[int, ...] | None = None
        self._standings: dict[str, Standing] = {}
        self._followed: dict[str, _Followed] = {}
        self._turns: dict[str, int | None] = {}

    def look(self) -> BatchView:
        """The batch as it stands now. Turns of runs that have ended are not looked up: see `with_turns`.

        Raises:
            RunError: the batch cannot be read.
        """
        stamp = self.stamp
        if stamp != self._stamp:
            self._standings = self.batch.standings()
            self._stamp = stamp
        is_worked_on = self.batch.is_worked_on
        rows = tuple(self._row(standing, is_worked_on) for standing in self._standings.values())
        under_way = {row.run for row in rows if row.state == "running"}
        self._followed = {run: one for run, one in self._followed.items() if run in under_way}
        return BatchView(self.batch.name, rows, is_worked_on, time.time())

    def with_turns(self, rows: Iterable[TaskRow]) -> list[TaskRow]:
        """The same rows with the turns of runs that have ended, each read once."""
        return [self._with_turns(row) for row in rows]

    def stored(self, run: str) -> StoredRun:
        """A run of the batch; there may be nothing of it here, if another machine does it."""
        return StoredRun(self.runs / run)

    @property
    def stamp(self) -> tuple[int, ...]:
        """What differs when the journal has grown, or somebody wants a task again."""
        found: list[int] = []
        for name in ("journal.jsonl", "again"):
            with contextlib.suppress(FileNotFoundError):
                stat = (self.batch.folder / name).stat()
                found += [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        return tuple(found)

    def _row(self, standing: Standing, is_worked_on: bool) -> TaskRow:
        task = standing.task
        if not standing.runs:
            return TaskRow(task.id, task.prompt, standing.state)
        run = standing.runs[-1]
        begin, end = standing.begins.get(run, {}), standing.ends.get(run, {})
        known, is_whole = standing.cost
        row = TaskRow(
            task.id,
            task.prompt,
            standing.state,
            runs=tuple(standing.runs),
            machine=str(begin.get("machine") or platform.node()),
            worker=None if (worker := begin.get("worker")) is None else str(worker),
            tokens=standing.tokens,
            cost=known if is_whole else None,
            known_cost=known,
            began=_moment(begin.get("began")),
            ended=_moment(end.get("ended")),
            cause=end.get("cause"),
            verified=end.get("verified"),
        )
        return row if end else self._under_way(row, standing, is_worked_on)

    def _under_way(self, row: TaskRow, standing: Standing, is_worked_on: bool) -> TaskRow:
        """A row of a run whose end the journal does not know, with what its own events or its worker say."""
        run = standing.runs[-1]
        stored, used = self.stored(run), standing.used.get(run)
        if (stored.folder / "events.jsonl").exists():
            if run not in self._followed:
                self._followed[run] = _Followed(stored)
            row = self._followed[run].added_to(row, list(standing.ends.values()))
            is_cut_off = not (is_worked_on or stored.is_running())
        else:  # it has not begun, or another machine does it
            turns, tokens = (None, None) if used is None else (used.get("calls"), _told(standing, used))
            row = dataclasses.replace(row, turns=turns, tokens=tokens)
            is_cut_off = not is_worked_on and row.machine == platform.node()
        return dataclasses.replace(row, state="cut off") if is_cut_off else row

    def _with_turns(self, row: TaskRow) -> TaskRow:
        if row.turns is not None or row.run is None or row.ended is None:
            return row
        if row.run not in self._turns:
            self._turns[row.run] = _turns_of(self.stored(row.run))
        return dataclasses.replace(row, turns=self._turns[row.run])


class _Followed:
    """A run under way: its events are folded as they come."""

    def __init__(self, run: StoredRun) -> None:
        self._file = EventFile(run.folder / "events.jsonl")
        self._fold = Fold(run.id)
        self._open: dict[str, str] = {}
        self._is_readable = True

    def added_to(self, row: TaskRow, ends: list[dict[str, Any]]) -> TaskRow:
        """The row with what the run has used until now, beside the runs that have ended before it."""
        self._read()
        if not self._is_readable:
            return dataclasses.replace(row, tokens=None)
        so_far = self._fold.result()
        before = sum(end["known_cost"] if end["cost"] is None else end["cost"] for end in ends)
        return dataclasses.replace(
            row,
            turns=len(so_far.calls),
            tokens=sum(int(end["tokens"]) for end in ends) + so_far.total.total,
            known_cost=before + so_far.known_cost,
            doing=next(reversed(self._open.values()), None),
        )

    def _read(self) -> None:
        try:
            for event in self._file:
                self._fold.feed([event])
                if event.name == "tool.started":
                    self._open[event.id] = str(event.data.get("name"))
                elif event.name == "tool.ended":
                    self._open.pop(event.id, None)
        except (ToolkitError, OSError, KeyError, TypeError, ValueError):
            self._is_readable = False  # damaged: what it used is not known


def _told(standing: Standing, used: dict[str, Any]) -> int:
    """The tokens of calls that have ended: what is booked for those under way is not used yet."""
    return sum(int(end["tokens"]) for end in standing.ends.values()) + int(used.get("tokens", 0))


def _turns_of(run: StoredRun) -> int | None:
    try:
        return len(run.result().calls)
    except (ToolkitError, OSError):  # it is on another machine, was removed, or is damaged
        return None


def _moment(said: Any) -> float | None:
    return float(said) if isinstance(said, int | float) else None
