"""What `toolkit batch` says while it works: on a terminal the tasks under way, drawn anew every second; else lines.

It looks at the batch from outside, as `toolkit batch top` does, so that it is the same whoever does the runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import click

from toolkit._base.words import cost_text, count_text, safe_line
from toolkit.cli.batches.live.columns import clipped, cut, fitted
from toolkit.cli.batches.live.frame import age_text, dollars, short_count
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable, BatchView, TaskRow
    from toolkit.runs.batches import Batch, Task

_TICK = 1.0
_PLAIN_TICK = 60.0
_REST = 10.0
"""A look that took so long is followed by a rest of that many times as long: looking costs at most a tenth."""
_MOST_LINES = 8
_PATIENCE = 5.0


class Progress:
    """Says how far a batch is, between `with` and its end; `ended` is told of each result."""

    def __init__(self, batch: Batch, *, parallel: int | None = None) -> None:
        from toolkit.fleets.looking import BatchTable

        self._table: BatchTable = BatchTable(batch)
        self._parallel = parallel
        self._on_terminal = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._drawn = 0
        self._view: BatchView | None = None
        self._thread = threading.Thread(target=self._watch, name="batch progress", daemon=True)

    def __enter__(self) -> Self:
        self._view = self._table.look()
        counts = self._view.counts
        done = counts["ok"] + counts["failed"]
        parts = [count_text(len(self._view.rows), "task"), *([f"{done} done already"] if done else [])]
        parts += [f"{self._parallel} at a time"] if self._parallel is not None else []
        click.echo(f"{self._view.name}: {', '.join(parts)}", err=True)
        click.echo(f"Watch it from another terminal: toolkit batch top {self._view.name}", err=True)
        self._draw()
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._is_over.set()
        self._thread.join(_PATIENCE)
        with self._lock:
            self._clear()

    def ended(self, task: Task, result: Any) -> None:
        """Print a line for a task that has ended."""
        cost = cost_text(result.cost, result.known_cost)
        line = f"{result.code:<10} {task.id:<16} {cost:>10}  {safe_line(task.prompt, 60)}"
        self.say(f"{line}\n  {safe_line(result.cause, 200)}" if result.cause else line)

    def say(self, line: str) -> None:
        """Print a line of somebody else's, above what is drawn."""
        with self._lock:
            self._clear()
            click.echo(line, err=True)
        self._draw()

    def _watch(self) -> None:
        said = time.monotonic()
        rest = _TICK
        while not self._is_over.wait(rest):
            began = time.monotonic()
            with contextlib.suppress(ToolkitError, OSError):  # whoever works on it will say it
                self._view = self._table.look()
            if self._on_terminal:
                self._draw()
            elif began - said >= _PLAIN_TICK:
                said = began
                click.echo(self._summary(200), err=True)
            rest = max(_TICK, (time.monotonic() - began) * _REST)

    def _draw(self) -> None:
        if not self._on_terminal or self._view is None:
            return
        width, height = _size()
        running = [row for row in self._view.rows if row.group == "running"]
        room = max(0, min(_MOST_LINES, height // 3))
        lines = [_line(row, width) for row in running[:room]]
        lines += [f"  and {len(running) - room} more"] if len(running) > room else []
        lines.append(self._summary(width))
        with self._lock:
            if not self._is_over.is_set():
                self._clear()
                click.echo("\x1b[?7l" + "\n".join(lines) + "\x1b[?7h", err=True, nl=False)
                self._drawn = len(lines)

    def _clear(self) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            click.echo(f"\r{up}\x1b[J", err=True, nl=False)
            self._drawn = 0

    def _summary(self, width: int) -> str:
        view = self._view
        assert view is not None
        counts = view.counts
        parts = [f"{counts['ok'] + counts['failed']} of {len(view.rows)} done"]
        parts += [f"{counts[group]} {group}" for group in ("running", "failed", "waiting") if counts[group]]
        cost = dollars(view.cost, view.known_cost)
        parts += [f"cost {cost}" if cost == "unknown" else cost, f"{short_count(view.tokens)} tokens"]
        return cut(", ".join(parts), width)


def _line(row: TaskRow, width: int) -> str:
    age = row.age(time.time())
    told = f"  {fitted(row.task, 16)} {'' if age is None else age_text(age):>7} "
    tokens = "?" if row.tokens is None else short_count(row.tokens)
    told += f"{tokens:>6} tokens  "
    return told + clipped(row.prompt if row.doing is None else f"{row.doing}: {row.prompt}", max(0, width - len(told)))


def _size() -> tuple[int, int]:
    with contextlib.suppress(OSError):
        found = os.get_terminal_size(sys.stderr.fileno())
        if found.columns and found.lines:
            return found.columns, found.lines
    return 80, 24
