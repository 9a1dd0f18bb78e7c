"""Tools for any MCP client. Try: toolkit inspect tools.py"""

import datetime
from pathlib import Path
from typing import Literal

from toolkit import ToolError, tool


@tool(read_only=True)
def word_count(text: str) -> int:
    """Count the words in a text."""
    return len(text.split())


@tool(read_only=True)
def tail(path: Path, lines: int = 10) -> str:
    """Show the last lines of a text file.

    Args:
        path: The file, relative to where the server was started.
        lines: How many lines.
    """
    if not path.is_file():
        raise ToolError(f"there is no file '{path}'")
    return "\n".join(path.read_text(encoding="utf-8").splitlines()[-lines:])


@tool(read_only=True)
def days_until(day: datetime.date, unit: Literal["days", "weeks"] = "days") -> str:
    """Say how long it is until a day."""
    days = (day - datetime.date.today()).days
    return f"{days} days" if unit == "days" else f"{days / 7:.1f} weeks"
