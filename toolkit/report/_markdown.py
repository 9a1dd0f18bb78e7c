"""A stored run as a page of Markdown: what was asked, each step with its result, and the sums.

What a run holds is hostile. It stands in fenced blocks whose fence is longer than any inside,
or as code in a line; nothing of it becomes markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolkit._base.words import cost_text, duration_text, safe_line, safe_text

if TYPE_CHECKING:
    from toolkit.runs import Event, StoredRun

_MOST_OF_A_RESULT = 4_000


def as_markdown(run: StoredRun) -> str:
    """The whole run, in the order in which it happened."""
    lines = [f"# Run {run.id}", ""]
    for event in run.events():
        lines += _told(event)
    result = run.so_far() if run.is_running() else run.result()
    lines += ["## Sums", "", "| what | |", "|---|---|", f"| ended | {result.code} |"]
    lines += [f"| model | {_code(result.model)} |"] if result.model else []
    lines += [f"| tokens | {result.total.total:,} |", f"| cost | {cost_text(result.cost, result.known_cost)} |"]
    half = run.unfinished_apply
    lines += [] if half is None else [f"| apply | {_code(f'{half.what}. {half.fix}')} |"]
    files = [one for one in run.changed_files() or [] if not one.get("quiet")]
    if files:
        lines += ["", "## Changed files", "", *(f"- {_code(str(one.get('path')))}" for one in files)]
    return "\n".join(lines)


def _told(event: Event) -> Iterator[str]:
    data = event.data
    if event.name == "lifecycle.started":
        yield from ("## Asked", "", *_fenced(str(data.get("prompt", ""))), "")
    elif event.name == "assistant.block" and data.get("type") == "text":
        yield from ("## Said", "", *_fenced(str(data["text"])), "")
    elif event.name == "tool.started":
        yield from (f"## Tool {_code(str(data['name']))}", "")
        yield from (*_fenced(json.dumps(data.get("arguments"), ensure_ascii=False, indent=1), "json"), "")
    elif event.name == "tool.ended":
        ends = ("denied", "refused"), ("interrupted", "stopped"), ("deferred", "waits")
        how = "ok" if data["ok"] else next((word for name, word in ends if data.get(name)), "failed")
        yield from (f"{_code(str(data['name']))}: {how}, {duration_text(data['ms'])}", "")
        if data.get("text"):
            yield from (*_fenced(str(data["text"])[:_MOST_OF_A_RESULT]), "")
    elif event.name == "gate.refused":
        yield from (f"The gate refused {_code(str(data.get('what')))}: {_code(str(data.get('why')))}", "")
    elif event.name == "lifecycle.finished":
        yield from (f"## Ended: {data['code']}", "", str(data["message"]) if not data["ok"] else "", "")


def _code(text: str) -> str:
    """Text on one line as code, whatever it holds."""
    line = safe_line(text, 200)
    fence = "`" * (1 + _longest(line))
    space = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{space}{line}{space}{fence}".replace("|", "\\|")


def _fenced(text: str, language: str = "") -> list[str]:
    safe = safe_text(text)
    fence = "`" * max(3, 1 + _longest(safe))
    return [fence + language, *safe.splitlines(), fence]


def _longest(text: str) -> int:
    """The longest row of backquotes."""
    return max((len(found) for found in re.findall("`+", text)), default=0)
