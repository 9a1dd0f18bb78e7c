"""What serving relies on in mcp, each noticed here if a new release of mcp changes it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import mcp.server.runner
import pytest
from mcp import Client
from mcp.server import Server
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.serving._client import ENVELOPE, HANDSHAKE, HEADERS
from toolkit import Image, Resource, Text, Toolbox, ToolContext, tool
from toolkit_servers.build import ToolServer, build_server
from toolkit_servers.http import Login, Token, TokenFile, http_app
from toolkit_servers.http.app import HttpApp
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


@tool
async def held(state: str) -> str:
    """What the session's transport says of itself while a call of it runs."""
    return await LOOK[state]()


LOOK: dict[str, Callable[[], Awaitable[str]]] = {}


async def _post(app: HttpApp, method: str, params: dict[str, Any], **headers: str) -> httpx2.Response:
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    lower = {name.lower(): value for name, value in HEADERS.items()}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.post("/mcp", json=frame, headers={**lower, **headers})


async def test_a_quick_call_over_http_holds_its_session_as_mcps_own_way_does() -> None:
    server = build_server(Toolbox("held", [held]))
    app = http_app(server)
    seen = []
    async with server.session_manager.run():
        opened = await _post(app, "initialize", HANDSHAKE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        transport = server.session_manager._server_instances[session["mcp-session-id"]]

        async def look() -> str:
            assert transport.idle_scope is not None
            return f"{transport._requests_in_flight} {transport.idle_scope.deadline}"

        LOOK["now"] = look
        called = {"name": "held", "arguments": {"state": "now"}}
        for accept, kind in (("*/*", "application/json"), ("text/event-stream, application/json", "text/event-stream")):
            answer = await _post(app, "tools/call", called, **session, accept=accept)
            assert answer.headers["content-type"].startswith(kind)  # the quick way, then mcp's
            line = next(line for line in answer.text.splitlines() if "jsonrpc" in line).removeprefix("data: ")
            assert transport.idle_scope is not None
            left = transport.idle_scope.deadline - anyio.current_time()
            assert transport._idle_timeout is not None
            assert 0 < transport._idle_timeout - left < 60
            seen.append((json.loads(line)["result"]["content"][0]["text"], transport._requests_in_flight))
        assert seen == [("1 inf", 0)] * 2
        assert not transport.is_terminated
        await transport.terminate()
        assert transport.is_terminated
        assert (await _post(app, "tools/call", called, **session)).status_code == 404


async def test_the_owner_of_a_session_over_http_is_where_the_quick_way_looks() -> None:
    server = build_server(BOX)
    app = http_app(server, login=Login(TokenFile(None, [Token.of("a" * 32, "alice"), Token.of("b" * 32, "bob")])))
    async with server.session_manager.run():
        alice, bob = ({"authorization": f"Bearer {each * 32}"} for each in "ab")
        opened = await _post(app, "initialize", HANDSHAKE, **alice)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        assert server.session_manager._session_owners.keys() == {session["mcp-session-id"]}
        called = {"name": "cut", "arguments": {}}
        statuses = [(await _post(app, "tools/call", called, **session, **who)).status_code for who in (alice, bob)]
        assert statuses == [200, 404]


def test_what_traces_calls_in_mcp_is_known_by_its_class() -> None:
    """A server with this middleware and no other may answer the quick way."""
    assert [type(each) for each in Server("plain").middleware] == [OpenTelemetryMiddleware]
