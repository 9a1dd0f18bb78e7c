"""What the page knows of a batch, as plain values. Long texts are cut, and the page says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolkit.fleets.looking import failures_of
from toolkit.runs.outcome import MESSAGES

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable, TaskRow

Link = Callable[[str], str | None]
"""Where the report of a run is; None where there is none."""
_MOST_PROMPT = 2_000
_MOST_CAUSE = 1_000
_MOST_DECISIONS = 4_000
_DECISION = ("at", "why", "base", "ceiling", "pause", "status", "retry_after", "machine")


def batch_data(table: BatchTable, link: Link) -> dict[str, Any]:
    """Everything the page shows of a batch.

    Raises:
        RunError: the batch cannot be read.
    """
    view = table.look()
    rows = table.with_turns(view.rows)
    sums = {name: value for name, value in view.to_json().items() if name != "tasks"}
    return {
        **sums,
        "tasks": [_task(row, link) for row in rows],
        "failures": [
            {
                "state": group.state,
                "message": next((text for code, text in MESSAGES.items() if code == group.state), ""),
                "cause": _cut(group.cause, _MOST_CAUSE),
                "tasks": [row.task for row in group.rows],
            }
            for group in failures_of(rows)
        ],
        "rate": _rate(table.batch.rate_history),
    }


def _task(row: TaskRow, link: Link) -> dict[str, Any]:
    plain = row.to_json()
    plain["prompt"] = _cut(row.prompt, _MOST_PROMPT)
    plain["cause"] = _cut(row.cause, _MOST_CAUSE)
    plain["runs"] = [{"id": run, "report": link(run)} for run in row.runs]
    return plain


def _rate(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The decisions about the rate; of very many, every so many-th and all that lowered it, as far as there is room."""
    kept = [{name: said.get(name) for name in _DECISION} for said in history]
    step = -(-len(kept) // _MOST_DECISIONS)
    if step <= 1:
        return kept
    return [said for place, said in enumerate(kept) if place % step == 0 or said["why"] == "lowered"]


def _cut(text: str | None, most: int) -> str | None:
    return text if text is None or len(text) <= most else text[: most - 1] + "…"
