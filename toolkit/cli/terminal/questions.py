"""A question of a run at a terminal: which it is, and what would happen if it was allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit._base.words import safe_text


def question_lines(asked: Mapping[str, Any], most: int | None = None) -> list[str]:
    """A question with its id and reason, and below it the form or what the call would do, in `most` lines at most."""
    from toolkit.cli.terminal.forms import form_lines

    lines = form_lines(asked["form"]) if asked.get("form") else about_to_happen(asked["tool"], asked["input"])
    if most is not None and len(lines) > most:
        lines = [*lines[:most], f"… {len(lines) - most} more lines"]
    head = safe_text(f"{asked['id']}  {asked['tool']}  {asked['reason']}").replace("\n", " ")
    return [head, *(f"    {line}" for line in lines)]


def about_to_happen(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """What a call would do, in lines safe to print: the command, the diff, or the arguments."""
    if tool == "Bash":
        lines = str(arguments.get("command", "")).split("\n")
    elif tool == "Edit":
        import difflib

        old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
        diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:]
        everywhere = " (everywhere in it)" if arguments.get("replace_all") else ""
        lines = [f"{arguments.get('file_path', '')}{everywhere}", *diff]
    elif tool == "Write":
        content = str(arguments.get("content", "")).split("\n")
        lines = [str(arguments.get("file_path", "")), *(f"+{line}" for line in content)]
    else:
        lines = json.dumps(dict(arguments), indent=1, ensure_ascii=False, default=str).split("\n")
    return [safe_text(line).replace("\n", "\\n") for line in lines]
