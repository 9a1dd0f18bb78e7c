"""In-process calls through the SDK's own bridge, against the SDK's `create_sdk_mcp_server`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server, tool as sdk_tool
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge

from tests.bench._common import Row, interleave_calls
from tests.bench.bench_stdio import ORDER
from tests.bench.small_tools import box

SMALL = {"name": "add", "arguments": {"a": 1, "b": 2}}
NESTED = {"name": "total", "arguments": {"order": ORDER}}
_GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}

Call = Callable[[], Awaitable[object]]


def _their_tools() -> list[Any]:
    """The same tools with the same schemas, in the SDK's own way."""
    schemas = {entry["name"]: entry["inputSchema"] for entry in box.listing()}

    @sdk_tool("add", "Add two numbers.", schemas["add"])
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    @sdk_tool("total", "Count the items of an order.", schemas["total"])
    async def total(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(sum(item["quantity"] for item in given["order"]["items"]))}]}

    return [add, total]


def main() -> Iterator[Row]:
    return iter(asyncio.run(_measure()))


async def _measure() -> list[Row]:
    ours = SdkMcpBridge("small", box.in_process()["instance"])
    theirs = SdkMcpBridge("small", create_sdk_mcp_server("small", tools=_their_tools())["instance"])
    rows = []
    for bridge in (ours, theirs):
        await bridge.handle({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _GREETING})
        await bridge.handle({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for name, params, bound, calls in (("small", SMALL, 0.25, 60), ("2 KB nested dataclass", NESTED, 0.1, 20)):
        answers = [await _call(bridge, params)() for bridge in (ours, theirs)]
        assert answers[0]["result"] == answers[1]["result"], answers
        pair = await interleave_calls(_call(ours, params), _call(theirs, params), batches=10, calls=calls, warmup=10)
        rows.append(pair.row(f"in-process, SDK bridge: {name}, p50", bound, unit="us"))
    for bridge in (ours, theirs):
        await bridge.aclose()
    return rows


def _call(bridge: SdkMcpBridge, params: dict[str, Any]) -> Callable[[], Awaitable[Any]]:
    frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return lambda: bridge.handle(frame)
