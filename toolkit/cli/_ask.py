"""Ask the person at the terminal about one tool call, showing what is about to happen."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from toolkit.runs import Decision, Question

_KEYS = {"y": "ALLOW_ONCE", "n": "DENY", "s": "ALLOW_SESSION", "p": "ALLOW_PROJECT", "a": "ALLOW_ALWAYS"}
_MOST_LINES = 40


async def ask_on_terminal(question: Question) -> Decision:
    """The person's decision; the run goes on meanwhile."""
    return await asyncio.to_thread(_ask, question)


def _ask(question: Question) -> Decision:
    from toolkit.runs import Decision

    click.echo(f"\n{question.tool} ({question.reason})", err=True)
    for line in about_to_happen(question.tool, question.input)[:_MOST_LINES]:
        click.echo(f"  {line}", err=True)
    choice = click.prompt(
        f"Run it? y = once, s = all {question.subject} in this session, p = in this project, a = always, n = no",
        type=click.Choice(list(_KEYS)),
        show_choices=False,
        default="n",
        err=True,
    )
    return Decision(_KEYS[choice])  # type: ignore[arg-type]


def about_to_happen(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """What a call would do, in lines safe to print: the command, the diff, or the arguments."""
    if tool == "Bash":
        lines = str(arguments.get("command", "")).splitlines()
    elif tool == "Edit":
        old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
        diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:]
        lines = [str(arguments.get("file_path", "")), *diff]
    elif tool == "Write":
        lines = [
            str(arguments.get("file_path", "")),
            *(f"+{line}" for line in str(arguments.get("content", "")).splitlines()),
        ]
    else:
        lines = json.dumps(dict(arguments), indent=1, ensure_ascii=False, default=str).splitlines()
    return ["".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line) for line in lines]
