"""`toolkit inspect`: the tools of a target as a table, or as a client's `tools/list` has them."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

import click

from toolkit.cli._help import CommandWithExample
from toolkit.cli._results import as_json, take_stdout, write_result

EXAMPLE = """
$ toolkit inspect tools.py
TOOL        ARGUMENTS                            HINTS
find_todos  folder: string, limit: integer = 20  read-only
            List TODO comments, oldest first.
"""

_HINTS = {
    "readOnlyHint": ("read-only", ""),
    "destructiveHint": ("destructive", "not destructive"),
    "idempotentHint": ("idempotent", ""),
    "openWorldHint": ("open world", "closed world"),
}


@click.command(cls=CommandWithExample, example=EXAMPLE)
@click.argument("target")
@click.option("--json", "wants_json", is_flag=True, help="Print the tools/list entries as JSON.")
def inspect(target: str, wants_json: bool) -> None:
    """Show the tools in TARGET as a client sees them.

    TARGET is a file (tools.py), a file and a name (tools.py:box), or a module
    (my_app.tools:box).
    """
    stdout = take_stdout()
    from toolkit_servers.target import load_target

    listing = load_target(target).toolbox.listing()
    width = shutil.get_terminal_size((100, 24)).columns
    write_result(stdout, as_json({"tools": listing}) if wants_json else _table(listing, width))


def _table(listing: list[dict[str, Any]], width: int) -> str:
    from toolkit_servers.target import describe_arguments

    rows = [(entry["name"], describe_arguments(entry["inputSchema"]) or ["none"], _hints(entry)) for entry in listing]
    names = max(4, *(len(name) for name, _, _ in rows))
    hints = max(5, *(len(hint) for _, _, hint in rows))
    longest = max(9, *(len(", ".join(described)) for _, described, _ in rows))
    arguments = max(min(longest, width - names - hints - 4), 30)
    lines = [f"{'TOOL':<{names}}  {'ARGUMENTS':<{arguments}}  HINTS"]
    for (name, described, hint), entry in zip(rows, listing, strict=True):
        first, *rest = _wrapped(described, arguments)
        lines.append(f"{name:<{names}}  {first:<{arguments}}  {hint}".rstrip())
        lines += [f"{'':<{names}}  {line}" for line in rest]
        summary = (entry.get("description") or "").strip().partition("\n")[0]
        if summary:
            lines.append(f"{'':<{names}}  {summary}")
    return "\n".join(lines)


def _wrapped(described: list[str], width: int) -> list[str]:
    """The arguments in lines that end between two of them."""
    whole = ", ".join(part.replace(" ", "\xa0") for part in described)
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _hints(entry: dict[str, Any]) -> str:
    given = entry.get("annotations") or {}
    words = [yes if given[key] else no for key, (yes, no) in _HINTS.items() if isinstance(given.get(key), bool)]
    return ", ".join(word for word in words if word)
