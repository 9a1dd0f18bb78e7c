"""A tool that asks its client, or tries to, gets the same answer from the kernel as from mcp."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.serving._client import ENVELOPE, HANDSHAKE
from tests.serving.parity._pair import both
from toolkit import Toolbox, ToolContext, tool


@tool
async def asks(ctx: ToolContext) -> str:
    """Ask for a name."""
    return str(await ctx.ask("Name?", str))


@tool
async def asks_if_it_can(ctx: ToolContext) -> str:
    """Ask for a name, or do without."""
    return str(await ctx.ask("Name?", str, default="nobody"))


@tool
async def looks(ctx: ToolContext) -> str:
    """Ask for the client's folders."""
    return str(await ctx.roots())


BOX = Toolbox("asking", [asks, asks_if_it_can, looks])
EVERYTHING: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}


@pytest.mark.parametrize("capabilities", [{}, EVERYTHING], ids=["mute", "askable"])
@pytest.mark.parametrize("era", ["handshake", "sessionless"])
async def test_a_client_is_asked_or_not_as_mcp_does_it(era: str, capabilities: dict[str, Any]) -> None:
    stream: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    if era == "handshake":
        greeting = {**HANDSHAKE, "capabilities": capabilities}
        stream = [{"id": "first", "method": "initialize", "params": greeting}, {"method": "notifications/initialized"}]
    else:
        params = {"_meta": {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": capabilities}}
    stream += [
        {"id": number, "method": "tools/call", "params": {"name": name, **params}}
        for number, name in enumerate(BOX.tools)
    ]
    kernel, judge = await both(BOX, [json.dumps({"jsonrpc": "2.0", **frame}).encode() for frame in stream])
    assert _without_seals(kernel) == _without_seals(judge)
    assert sum(map(len, kernel)) >= len(BOX.tools)


def _without_seals(said: list[list[str]]) -> list[list[str]]:
    """What was said without the state that mcp seals anew each time."""
    return [[re.sub(r'"requestState": "[^"]*"', '"requestState": "…"', line) for line in lines] for lines in said]
