"""Call a toolbox as a client does, and insist on how it went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit import Toolbox, ToolContext


async def said(box: Toolbox, name: str, /, context: ToolContext | None = None, **arguments: Any) -> str:
    """The text of a reply that is no error."""
    reply = await box.call(name, arguments, context)
    assert not reply.is_error, reply.text
    return reply.text


async def refused(box: Toolbox, name: str, /, context: ToolContext | None = None, **arguments: Any) -> str:
    """The text of an error reply, one that was meant: not an exception that slipped through."""
    reply = await box.call(name, arguments, context)
    assert reply.is_error, reply.text
    assert "Error:" not in reply.text, reply.text
    return reply.text


def names_in(folder: Path) -> list[str]:
    """What is in a folder, by name."""
    return sorted(entry.name for entry in folder.iterdir())
