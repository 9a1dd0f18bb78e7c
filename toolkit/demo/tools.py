"""Two tools of our own for the demo's agent: typed functions, decorated, nothing more."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.tools import Toolbox, ToolContext, tool


@dataclass
class Todo:
    """A TODO comment."""

    path: str
    line: int
    text: str


@tool(read_only=True)
def find_todos(ctx: ToolContext) -> list[Todo]:
    """List the TODO comments of the project, in file order."""
    found = []
    for path in sorted(ctx.workspace.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := re.search(r"#\s*TODO:?\s*(.*)", line):
                found.append(Todo(str(path.relative_to(ctx.workspace)), number, match[1]))
    return found


@find_todos.renders
def _(todos: list[Todo]) -> str:
    return "\n".join(f"{todo.path}:{todo.line}  {todo.text}" for todo in todos) or "No TODOs."


@tool
def keep_decision(title: str, why: str) -> str:
    """Write a decision down for the people who review the change."""
    return f"kept: {title} ({why})"


box = Toolbox("shop", [find_todos, keep_decision])
