"""What serving relies on in mcp, each noticed here if a new release of mcp changes it."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp.server.runner
import pytest
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.serving._client import ENVELOPE, HANDSHAKE
from toolkit import Image, Resource, Text, Toolbox, ToolContext, tool
from toolkit_servers.build import ToolServer, build_server
from toolkit_servers.protocol.wire import JsonList, result_line


@tool(structured=True)
def every_block(times: int = 1) -> dict[str, int | None]:
    """Structured."""
    return {"times": times, "none": None}


@tool
def blocks() -> list[object]:
    """Every kind of content."""
    return [
        Text("é"),
        Image(b"\x89PNG\r\n\x1a\n", "image/png"),
        Resource("file:///a.txt", data="text", mime="text/plain"),
    ]


@tool(max_chars=20)
def cut() -> str:
    """Cut."""
    return "a line\n" * 20


@tool
def fails() -> str:
    """Fail."""
    raise ValueError("no")


BOX = Toolbox("seams", [every_block, blocks, cut, fails])


async def _ask(server: ToolServer, version: str, requests: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The results as mcp hands them to a transport."""
    modern = version in MODERN_PROTOCOL_VERSIONS
    results: list[dict[str, Any]] = []
    async with create_client_server_memory_streams() as (client, streams), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, *streams, server.create_initialization_options())
        reading, writing = client
        if not modern:
            requests = [("initialize", {**HANDSHAKE, "protocolVersion": version}), *requests]
        for number, (method, params) in enumerate(requests):
            given = {**params, "_meta": ENVELOPE} if modern else params
            frame = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=given)
            await writing.send(SessionMessage(frame))
            answer = await reading.receive()
            assert isinstance(answer, SessionMessage)
            assert isinstance(answer.message, JSONRPCResponse)
            results.append(answer.message.result)
            if method == "initialize":
                ready = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
                await writing.send(SessionMessage(ready))
        tasks.cancel_scope.cancel()
    return results if modern else results[1:]


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS])
async def test_the_shortcut_gives_what_mcps_own_way_gives(version: str) -> None:
    requests = [("tools/list", {}), *(("tools/call", {"name": name, "arguments": {}}) for name in [*BOX.tools, "none"])]
    short, long = build_server(BOX), build_server(BOX)
    long.middleware.remove(long._shortcut)
    assert await _ask(short, version, requests) == await _ask(long, version, requests)


async def test_the_shortcut_is_taken() -> None:
    server = build_server(BOX)
    del server._request_handlers["tools/call"], server._request_handlers["tools/list"]
    requests = [("tools/list", {}), ("tools/call", {"name": "fails", "arguments": {}})]
    assert [result.keys() for result in await _ask(server, "2025-11-25", requests)] == [
        {"tools"},
        {"content", "isError"},
    ]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_the_list_of_tools_reaches_the_transport_with_its_json(version: str) -> None:
    (result,) = await _ask(build_server(BOX), version, [("tools/list", {})])
    assert type(result["tools"]) is JsonList
    line = result_line('a"tools":0', result)
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 'a"tools":0', "result": {**result, "tools": BOX.listing()}}
    assert line.count(b"\n") == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_server_runs_under_either_event_loop(backend: str) -> None:
    steps: list[float] = []

    @tool
    async def count(ctx: ToolContext) -> str:
        """Count."""
        for step in range(3):
            ctx.progress(step)
        return "counted"

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def main() -> str:
        async with Client(Toolbox("either", [count]).server()) as client:
            result = await client.call_tool("count", {}, progress_callback=on_progress)
        text: str = result.content[0].model_dump()["text"]
        return text

    assert anyio.run(main, backend=backend) == "counted"
    assert steps == [0, 1, 2]


def test_the_loops_that_serve_a_pair_of_streams_are_public() -> None:
    assert {"serve_loop", "serve_dual_era_loop"} <= set(mcp.server.runner.__all__)


async def test_in_process_promises_no_reports() -> None:
    server = BOX.in_process()["instance"]
    assert isinstance(server, ToolServer)
    options = server.create_initialization_options()
    assert options.capabilities.logging is None
    assert options.capabilities.tools is not None
    assert options.capabilities.tools.list_changed is False
