"""A run as the text of a pull request: what, why, verified by whom, at what cost, and what to look at.

What was asked and what the model said is other people's text. It stands in fenced blocks,
where nobody is mentioned, nothing is linked or closed, and no markup counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from toolkit._base.words import cost_text, count_text, duration_text, safe_line, safe_name, safe_text, show_hidden
from toolkit.runs.delivery.deliver import UNKNOWN, verified_text

if TYPE_CHECKING:
    from toolkit.runs.outcome.result import RunResult
    from toolkit_workspace import Change, Changes

_MOST_FILES = 200
_MOST_TEXT = 8000
_WORDS = {"mode": "mode changed", "link": "link changed"}


def pull_request(facts: Mapping[str, Any], result: RunResult[Any], changes: Changes) -> str:
    """Markdown, as `gh pr create --body-file` takes it."""
    told = [change for change in changes if change.type != "folder" and not change.ignored]
    marked = [change for change in changes if change.suspicious and not (change.ignored and change.type == "folder")]
    return "\n".join(
        [
            "## What",
            "",
            *_fenced(result.text or "(the agent said nothing)"),
            "",
            "## Why",
            "",
            *_fenced(str(facts.get("prompt") or "(the prompt is not known)")),
            "",
            "## How it was done",
            "",
            *_table(facts, result),
            "",
            f"## Changed files ({len(told)})",
            "",
            *_files(told),
            "",
            "## Look twice",
            "",
            *(_marks(marked) or ["Nothing is marked."]),
            "",
        ]
    )


def _table(facts: Mapping[str, Any], result: RunResult[Any]) -> list[str]:
    rows = {
        "run": _code(str(facts.get("run", UNKNOWN))),
        "ended": f"{result.code}: {result.message}",
        "verified": verified_text(result.verified) + _by(facts, result),
        "model": _code(result.model or UNKNOWN),
        "cost": cost_text(result.cost, result.known_cost),
        "tokens": f"{result.total.total:,}",
        "took": duration_text(result.ms),
    }
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def _by(facts: Mapping[str, Any], result: RunResult[Any]) -> str:
    """What verified it, and how often it was asked."""
    if result.verified is None:
        return ""
    return f", by {_code(str(facts.get('verify') or UNKNOWN))}, {count_text(len(result.attempts), 'attempt')}"


def _files(changes: Iterable[Change]) -> list[str]:
    rows = []
    for change in changes:
        moved = f"{_code(change.old_path)} → " if change.old_path is not None else ""
        what = _WORDS.get(change.kind, change.kind)
        rows.append(f"- {moved}{_code(change.path)} {what}{', binary' if change.binary else ''}")
    more = [f"- … and {len(rows) - _MOST_FILES} more"] if len(rows) > _MOST_FILES else []
    return [*rows[:_MOST_FILES], *more] or ["None."]


def _marks(changes: Iterable[Change]) -> list[str]:
    rows = [f"- {_code(change.path)}: {_plain('; '.join(change.suspicious))}" for change in changes]
    more = [f"- … and {len(rows) - _MOST_FILES} more"] if len(rows) > _MOST_FILES else []
    return [*rows[:_MOST_FILES], *more]


def _fenced(text: str) -> list[str]:
    """A text in a block that it cannot end itself."""
    shown = safe_text(text)
    shown = shown if len(shown) <= _MOST_TEXT else f"{shown[:_MOST_TEXT]}\n… ({len(shown) - _MOST_TEXT:,} more)"
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", shown, fence]


def _code(text: str | None) -> str:
    """A name as code; it holds no backtick, since those are escaped, and no bar, which would end a table's cell."""
    return f"`{safe_name(text or '').replace('|', chr(92) + 'x7c')}`"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~@&])", r"\\\1", safe_line(show_hidden(text), 300))
