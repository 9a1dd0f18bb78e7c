"""A batch as lines for a screen: the sums on top, a row for each task, what keys do at the bottom. Draws nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import count_text
from toolkit.cli.batches.live.columns import clipped, cut, fitted, width_of

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchView, TaskRow

_COLOURS = {"ok": "green", "failed": "red", "running": "cyan", "waiting": None}
_ORDER = {"running": 0, "failed": 1, "waiting": 2, "ok": 3}
_REVERSED = "\x1b[7m"
FILTERS = ("all", "running", "failed", "waiting", "ok")
KEYS = "Up/Down choose  Enter open  i interrupt  r retry  f filter  q quit"
LEAST_WIDTH, LEAST_HEIGHT = 30, 6


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    title: str
    width: int
    right: bool = False


_STATE, _TASK, _MACHINE = Column("state", 11), Column("task", 16), Column("machine", 14)
_TURN, _TOKENS = Column("turn", 4, right=True), Column("tokens", 7, right=True)
_DOLLARS, _AGE = Column("dollars", 9, right=True), Column("age", 7, right=True)
_ALL = (_STATE, _TASK, _MACHINE, _TURN, _TOKENS, _DOLLARS, _AGE)
_LEFT_OUT = (_MACHINE, _TURN, _TOKENS, _AGE, _DOLLARS)
"""What is left out where the terminal is narrow, in this order."""


def ordered(rows: Sequence[TaskRow], chosen: str) -> list[TaskRow]:
    """The rows to be shown: what runs first, then what failed, what waits, what is done; the latest first."""
    some = [row for row in rows if chosen in ("all", row.group)]
    return sorted(some, key=lambda row: (_ORDER[row.group], -(row.ended or 0.0), row.began or 0.0))


def table_lines(
    view: BatchView, rows: Sequence[TaskRow], selected: str | None, width: int, height: int, *, foot: str
) -> list[str]:
    """The whole screen: `rows` are those that fit, see `room_for`."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return [cut("too small", width)][:height]
    columns = _columns(width, rows)
    lines = [*sums(view, width), styled(_titles(columns, width), bold=True)]
    lines += [_row(row, columns, width, view.at, is_selected=row.task == selected) for row in rows]
    lines += [""] * (height - 1 - len(lines))
    return [*lines, styled(cut(foot, width), dim=True)]


def plain_lines(view: BatchView, rows: Sequence[TaskRow], width: int) -> list[str]:
    """The same for a file or a pipe: the sums, and every row, without colours."""
    columns = _columns(width, rows)
    head = [click.unstyle(line).rstrip() for line in sums(view, width)]
    lines = [_titles(columns, width), *(_row(row, columns, width, view.at, is_selected=False) for row in rows)]
    return [*(line for line in head if line), *(click.unstyle(line).rstrip() for line in lines)]


def room_for(height: int) -> int:
    """How many rows fit on a screen."""
    return max(0, height - 5)


def sums(view: BatchView, width: int) -> list[str]:
    """Three lines on top: how far it is, as a bar, and who works on it."""
    counts = view.counts
    done = counts["ok"] + counts["failed"]
    parts = [view.name, f"{done} of {count_text(len(view.rows), 'task')} done"]
    parts += [f"{counts[group]} {group}" for group in ("running", "failed", "waiting") if counts[group]]
    parts += [f"{dollars(view.cost, view.known_cost)}", f"{short_count(view.tokens)} tokens"]
    if view.began is not None:
        parts.append(age_text((view.ended or view.at) - view.began))
    return [cut("   ".join(parts), width), _bar(counts, width), _worked_on(view, width)]


def _bar(counts: Mapping[str, int], width: int) -> str:
    total = max(1, sum(counts.values()))
    pieces, used, so_far = [], 0, 0
    for group, mark in (("ok", "#"), ("failed", "x"), ("running", ">"), ("waiting", ".")):
        so_far += counts[group]
        length = round(so_far / total * (width - 2)) - used
        used += length
        pieces.append(styled(mark * length, fg=_COLOURS[group]))
    return f"[{''.join(pieces)}]"


def _worked_on(view: BatchView, width: int) -> str:
    if view.is_worked_on:
        return ""
    if view.ended is not None:
        return cut("All tasks are done.", width)
    return cut(f"Nobody works on it. To go on: toolkit batch TASKS --name {view.name} --resume", width)


def _columns(width: int, rows: Sequence[TaskRow]) -> list[Column]:
    shown = list(_ALL)
    for column in _LEFT_OUT:
        if sum(one.width + 2 for one in shown) + 12 <= width:
            break
        shown.remove(column)
    needed = {"task": [row.task for row in rows], "machine": [row.machine or "" for row in rows]}
    return [_narrowed(one, needed[one.title]) if one.title in needed else one for one in shown]


def _narrowed(column: Column, texts: list[str]) -> Column:
    """The column as wide as its texts need it, and not wider than it was."""
    longest = max((width_of(text) for text in [*texts, column.title]), default=0)
    return replace(column, width=min(column.width, longest))


def _titles(columns: list[Column], width: int) -> str:
    titles = "  ".join(fitted(one.title, one.width, right=one.right) for one in columns)
    return cut(f"{titles}  prompt", width)


def _row(row: TaskRow, columns: list[Column], width: int, now: float, *, is_selected: bool) -> str:
    texts = {
        "state": row.state,
        "task": row.task,
        "machine": row.machine or "",
        "turn": "" if row.turns is None else str(row.turns),
        "tokens": "" if not row.runs else "?" if row.tokens is None else short_count(row.tokens),
        "dollars": dollars(row.cost, row.known_cost) if row.runs else "",
        "age": "" if (age := row.age(now)) is None else age_text(age),
    }
    cells = [fitted(texts[one.title], one.width, right=one.right) for one in columns]
    rest = clipped(row.prompt if row.doing is None else f"{row.doing}: {row.prompt}", _left(columns, width))
    if is_selected:
        return _REVERSED + fitted_plain("  ".join([*cells, rest]), width)
    cells[0] = styled(cells[0], fg=_COLOURS[row.group])
    return "  ".join([*cells, rest])


def _left(columns: list[Column], width: int) -> int:
    return max(0, width - sum(one.width + 2 for one in columns))


def fitted_plain(line: str, width: int) -> str:
    """A line that is safe already, filled up to the width so that its background is whole."""
    return line + " " * max(0, width - width_of(line))


def styled(text: str, **style: Any) -> str:
    """The text in a colour, where colours are wanted."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def short_count(count: int) -> str:
    """A number in at most five characters: 950, 9.5k, 120k, 1.2M."""
    if count < 1000:
        return str(count)
    if count < 999_500:
        return f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"
    return f"{count / 1e6:.1f}M"


def dollars(cost: float | None, known: float) -> str:
    """Dollars in few characters; a plus where more is to come or not known, `unknown` where nothing is."""
    if cost is not None:
        return f"${cost:.4f}" if cost < 100 else f"${cost:.2f}"
    return (f"${known:.4f}+" if known < 100 else f"${known:.1f}+") if known else "unknown"


def age_text(seconds: float) -> str:
    """A length of time in at most seven characters."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m" if whole < 360_000 else f"{whole // 86400}d"
