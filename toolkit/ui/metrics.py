"""All runs as Prometheus text: how many, by how they ended, their tokens and their cost. No names, no contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def metrics_text(rows: Iterable[dict[str, Any]], batches: Iterable[dict[str, Any]] = ()) -> str:
    """The figures of the rows, and of the lines of batches."""
    ends, tokens, cost, unknown = Counter[str](), 0, 0.0, 0
    questions = 0
    for row in rows:
        ends[str(row.get("code") or row["state"])] += 1
        tokens += row.get("tokens") or 0
        cost += row.get("known_cost") or row.get("cost") or 0.0
        unknown += row["state"] == "finished" and row.get("cost") is None
        questions += len(row["questions"])
    lines = ["# HELP toolkit_runs Stored runs by how they ended, or running.", "# TYPE toolkit_runs gauge"]
    lines += [f'toolkit_runs{{state="{state}"}} {count}' for state, count in sorted(ends.items())]
    for name, about, value in (
        ("toolkit_runs_tokens", "Tokens of all stored runs.", tokens),
        ("toolkit_runs_known_cost_usd", "The cost that is known of all stored runs.", cost),
        ("toolkit_runs_cost_unknown", "Ended runs of which some cost is not known.", unknown),
        ("toolkit_runs_questions", "Questions that wait for an answer.", questions),
    ):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value}"]
    return "\n".join([*lines, *_batch_lines(list(batches))]) + "\n"


def _batch_lines(batches: list[dict[str, Any]]) -> list[str]:
    """How long the queue is, and how quickly the model API may be asked, of the batches that are worked on."""
    worked_on = [line for line in batches if line["worked_on"]]
    lines = ["# HELP toolkit_batch_tasks Tasks of batches that are worked on.", "# TYPE toolkit_batch_tasks gauge"]
    for group in ("waiting", "running", "ok", "failed"):
        count = sum(line["counts"].get(group, 0) for line in worked_on)
        lines.append(f'toolkit_batch_tasks{{state="{group}"}} {count}')
    rate = sum(line["rate"] for line in worked_on if isinstance(line.get("rate"), int | float))
    refused = sum(line.get("refused") or 0 for line in batches)
    for name, kind, about, value in (
        ("toolkit_batches_worked_on", "gauge", "Batches that are worked on.", len(worked_on)),
        ("toolkit_batch_rate_requests", "gauge", "Requests a second that these allow themselves.", rate),
        ("toolkit_batch_rate_lowered_total", "counter", "How often batches slowed down after a refusal.", refused),
    ):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value}"]
    return lines
