"""One task as lines for a screen: what it was asked, its runs, and what its latest run has done, as it happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from toolkit._base.words import duration_text, safe_line, safe_text
from toolkit.cli.batches.live.columns import clipped, cut
from toolkit.cli.batches.live.frame import dollars, short_count, styled
from toolkit.cli.terminal.display import Display, ending
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable, TaskRow
    from toolkit.runs.storage import EventFile

_MOST_PROMPT = 6
KEYS = "Esc back  Up/Down scroll  b report in the browser  i interrupt  r retry  q quit"


class Details:
    """One task; its latest run is followed, and a new one taken up when it begins."""

    def __init__(self, table: BatchTable, task: str) -> None:
        self.task = task
        self.scroll = 0
        """Lines that were scrolled up from the end."""
        self._table = table
        self._run: str | None = None
        self._file: EventFile | None = None
        self._lines: list[str] = []
        self._display: Display | None = None
        self._told_end = False

    def lines(self, row: TaskRow, width: int, height: int, *, foot: str) -> list[str]:
        """The whole screen."""
        self._follow(row)
        head = self._head(row, width)
        room = max(1, height - len(head) - 2)
        self.scroll = max(0, min(self.scroll, len(self._lines) - room))
        last = len(self._lines) - self.scroll
        body = [cut(line, width) for line in self._lines[max(0, last - room) : last]]
        lines = [*head[: max(1, height - 2)], "", *body]
        lines += [""] * (height - 1 - len(lines))
        return [*lines[: height - 1], styled(cut(foot, width), dim=True)]

    def _head(self, row: TaskRow, width: int) -> list[str]:
        lines = [styled(clipped(f"{row.task}: {row.state}", width), bold=True)]
        prompt = safe_text(row.prompt).splitlines()
        lines += [cut(f"  {line.expandtabs(4)}", width) for line in prompt[:_MOST_PROMPT]]
        lines += [f"  … {len(prompt) - _MOST_PROMPT} more lines"] if len(prompt) > _MOST_PROMPT else []
        if not row.runs:
            return [*lines, clipped("It has not begun.", width)]
        tokens = "unknown" if row.tokens is None else short_count(row.tokens)
        facts = [f"{tokens} tokens", dollars(row.cost, row.known_cost), f"on {row.machine}"]
        age = row.age(time.time())
        facts += [duration_text(age * 1000)] if age is not None else []
        lines.append(clipped(", ".join(facts), width))
        lines.append(clipped(f"Runs: {', '.join(row.runs)}", width))
        lines += [clipped(row.cause, width)] if row.cause else []
        return lines

    def _follow(self, row: TaskRow) -> None:
        from toolkit.runs.storage import EventFile

        if row.run is None:
            return
        stored = self._table.stored(row.run)
        if row.run != self._run:
            self._run, self._file, self._lines = row.run, EventFile(stored.folder / "events.jsonl"), []
            self._display = Display(terminal=False, say=self._say)
            self._told_end = False
            if not stored.folder.is_dir():
                self._lines = ["There is nothing of its run on this machine yet."]
        assert self._file is not None
        assert self._display is not None
        try:
            for event in self._file:
                self._display.show(event)
            if row.ended is not None and not self._told_end and stored.folder.is_dir():
                self._told_end = True
                result = stored.result()
                words = [line.expandtabs(4) for line in safe_text(result.text).splitlines()]
                self._lines += ["", *ending(result), *words]
        except (ToolkitError, OSError, KeyError, TypeError, ValueError) as error:
            said = error.what if isinstance(error, ToolkitError) else type(error).__name__
            self._lines.append(f"its events cannot be read: {safe_line(said, 200)}")
            self._told_end = True

    def _say(self, text: str) -> None:
        self._lines += [line.expandtabs(4) for line in click.unstyle(text).splitlines()]
