"""A form at a terminal: its fields as lines, and a person's answers to them, one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolkit._base.words import safe_line
from toolkit.errors import RunError
from toolkit.runs import Decision
from toolkit.tools.asking import filled, hint_of

_TRIES = 5
REFUSAL = "-"
"""What is typed to give no answer at all."""


def form_lines(form: Mapping[str, Any]) -> list[str]:
    """A line for each field: what it is called, what it may be, and its default."""
    return [f"{safe_line(name, 60)}: {_told(field)}" for name, field in form["properties"].items()]


async def fill_in(
    form: Mapping[str, Any], say: Callable[[str], None], read: Callable[[], Awaitable[str | None]]
) -> Decision:
    """Ask for each field; an empty line takes the default. `read` gives None when nobody types any more."""
    say(f"  An empty line takes what is in brackets; {REFUSAL} refuses to answer.\n")
    typed: dict[str, str] = {}
    for name, field in form["properties"].items():
        for _ in range(_TRIES):
            say(f"  {safe_line(name, 60)} ({_told(field)}) ")
            line = await read()
            if line is None or line.strip() == REFUSAL:
                return Decision.DENY
            try:
                filled(
                    {"type": "object", "properties": {name: field}, "required": [name]}, {name: line} if line else {}
                )
            except RunError as error:
                say(f"  {error.what}\n")
                continue
            typed |= {name: line} if line else {}
            break
        else:
            return Decision.DENY
    return Decision.allow(filled(form, typed))


def _told(field: Mapping[str, Any]) -> str:
    words = [safe_line(str(field["description"]), 200)] if field.get("description") else []
    words += [safe_line(hint_of(field), 300)]
    default = field.get("default")
    if default is not None:
        shown = {True: "yes", False: "no"}[default] if isinstance(default, bool) else default
        shown = ",".join(map(str, shown)) if isinstance(shown, list) else shown
        words += [f"[{safe_line(str(shown), 80)}]"]
    return "; ".join(words)
