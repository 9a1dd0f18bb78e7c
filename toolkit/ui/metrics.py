"""All runs as Prometheus text: how many, by how they ended, their tokens and their cost. No names, no contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def metrics_text(rows: Iterable[dict[str, Any]]) -> str:
    """The figures of the rows."""
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
    return "\n".join(lines) + "\n"
