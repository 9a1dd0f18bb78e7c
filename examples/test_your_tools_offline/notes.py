"""A tool worth testing."""

from toolkit import Toolbox, ToolError, tool

kept: list[str] = []


@tool
def add(title: str) -> str:
    """Keep a note."""
    if not title.strip():
        raise ToolError("a note needs a title")
    kept.append(title)
    return f"added {title!r}"


box = Toolbox("notes", [add])
