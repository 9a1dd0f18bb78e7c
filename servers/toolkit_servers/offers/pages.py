"""A list that is too long for one answer, page by page."""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

PAGE = 200
"""Entries in one answer."""


def page(key: str, entries: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    """One page of a list, and the cursor of the next.

    Raises:
        MCPError: the cursor is none of ours.
    """
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10 and 0 < int(cursor) <= len(entries)):
            raise MCPError(INVALID_PARAMS, f"no page begins at {cursor[:40]!r}; ask for the list from its beginning")
        start = int(cursor)
    end = start + PAGE
    more = {"nextCursor": str(end)} if end < len(entries) else {}
    return {key: entries[start:end], **more}
