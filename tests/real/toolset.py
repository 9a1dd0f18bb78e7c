"""Tools that give every kind of result, served in-process and as `toolkit serve toolset.py`."""

from __future__ import annotations

import asyncio
import base64

from toolkit import Image, Text, Toolbox, ToolContext, ToolError, tool

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@tool
def words(text: str, times: int = 1) -> str:
    """Repeat a text.

    Args:
        text: What to repeat.
    """
    return " ".join([text] * times)


@tool
def record(name: str) -> dict[str, object]:
    """A record with umlauts, for JSON."""
    return {"name": name, "tags": ["ä", "ß"], "size": 2.5, "none": None}


@tool
def refuse() -> str:
    """Refuse in plain words."""
    raise ToolError("no folder 'srcs'; the workspace has: src, tests")


@tool
def crash() -> str:
    """Fail by accident."""
    raise ZeroDivisionError("division by zero")


@tool
def picture() -> list[object]:
    """A caption and an image."""
    return [Text("one pixel"), Image(PIXEL)]


@tool
def nothing() -> None:
    """Return nothing."""


@tool(structured=True)
def figures() -> dict[str, int]:
    """Structured figures, with a text beside them."""
    return {"b": 1, "a": 2}


@tool(always_load=False)
def rarely(text: str) -> str:
    """A tool that is looked up before it is used."""
    return text[::-1]


@tool(read_only=True)
async def which_call(label: str, context: ToolContext) -> str:
    """Say which call this is, after all three of them have begun."""
    _begun.append(label)
    for _ in range(500):
        if len(_begun) >= 3:
            break
        await asyncio.sleep(0.01)
    return f"{label} {context.call_id} {len(_begun)}"


_begun: list[str] = []

box = Toolbox("set", [words, record, refuse, crash, picture, nothing, figures, rarely, which_call])
