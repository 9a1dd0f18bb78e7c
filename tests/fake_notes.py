"""A small server and the turns that call it, for tests of the fake CLI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from claude_agent_sdk import (
    ClaudeSDKClient,
    create_sdk_mcp_server,
    tool,
)

from toolkit.testing import FakeCLI, text, tool_use

ADD = [text("filing"), tool_use("mcp__notes__add", title="hi") | {"id": "toolu_1"}]
DONE = [text("done")]


@tool("add", "Add a note", {"title": str})
async def add(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [text(f"added {arguments['title']!r}")]}


def notes(*more: Any) -> dict[str, Any]:
    return {"notes": create_sdk_mcp_server("notes", tools=[add, *more])}


async def messages(cli: FakeCLI, prompt: str = "go", **options: Any) -> list[Any]:
    async with asyncio.timeout(60):
        return [message async for message in cli.query(prompt, **options)]


async def response(client: ClaudeSDKClient) -> list[Any]:
    return [message async for message in client.receive_response()]


async def collect(running: AsyncIterator[Any], heard: list[Any]) -> None:
    """Keep what was heard even if the run ends with an error."""
    async for message in running:
        heard.append(message)
