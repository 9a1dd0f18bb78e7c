"""Over HTTP: on loopback, for this machine's own names only, and clear when the port is taken."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.serving._client import BOUND, HANDSHAKE, SERVE, STUCK, ServedHttp
from toolkit.errors import ToolkitError
from toolkit_servers.http import HostGuard, serve_http

SOURCE = """
import asyncio

@tool
def shout(text: str) -> str:
    "In capitals."
    return text.upper()

@tool
async def count(ctx: ToolContext, to: int) -> str:
    "Count, reporting each step."
    for step in range(to):
        ctx.progress(step + 1, to)
    ctx.log(f"counted {to}")
    return "counted"

@tool
def session(ctx: ToolContext) -> str:
    "The session of this call."
    return str(ctx.session)

@tool
def repeat(times: int) -> str:
    "A long text."
    return "x" * times

@tool
def repeat_in_touch(ctx: ToolContext, times: int) -> str:
    "A long text, from a tool that could report."
    return "x" * times

@tool
async def forever() -> str:
    "Wait until nobody wants to know any more."
    print("waiting", flush=True)
    await asyncio.sleep(600)
    return ""

box = Toolbox("web", [shout, count, session, repeat, repeat_in_touch, forever])
"""
PING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    with ServedHttp(tmp_path_factory.mktemp("web"), SOURCE) as served:
        yield served


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_mcps_own_client_calls_over_http_with_progress(served: ServedHttp, mode: Any) -> None:
    steps: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with Client(served.url, mode=mode) as client:
        result = await client.call_tool("shout", {"text": "hey"})
        assert result.content[0].model_dump()["text"] == "HEY"
        await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
    assert steps == [1, 2, 3]


async def test_each_client_has_a_session_of_its_own(served: ServedHttp) -> None:
    async with Client(served.url, mode="legacy") as one, Client(served.url, mode="legacy") as two:
        asked = [await client.call_tool("session", {}) for client in (one, one, two)]
    first, again, other = (result.content[0].model_dump()["text"] for result in asked)
    assert first == again != other
    assert "None" not in (first, other)


def test_in_the_handshake_era_a_cancelled_call_is_answered_with_an_error(served: ServedHttp) -> None:
    served.initialize()
    asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "forever", "arguments": {}}}
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(served.post, asked)
        served.wait_for_output("waiting")
        served.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        status, body = answer.result(BOUND)
    assert (status, json.loads(body)["error"]["code"]) == (200, -32800)


async def test_a_result_above_a_mebibyte_is_sent_whole_and_mcps_client_takes_it_in_2026_07_28(
    served: ServedHttp,
) -> None:
    served.session = {}
    served.initialize()
    result = served.request("tools/call", {"name": "repeat", "arguments": {"times": 1_500_000}})
    assert len(result["content"][0]["text"]) == 1_500_000
    async with Client(served.url) as client:
        called = await client.call_tool("repeat", {"times": 1_500_000})
        assert len(called.content[0].model_dump()["text"]) == 1_500_000


async def test_in_the_handshake_era_mcps_client_takes_one_event_of_a_mebibyte_unless_told_otherwise(
    served: ServedHttp,
) -> None:
    wide = streamable_http_client(served.url, max_sse_event_size=None)
    async with Client(wide, mode="legacy") as client:
        called = await client.call_tool("repeat_in_touch", {"times": 1_500_000})
        assert len(called.content[0].model_dump()["text"]) == 1_500_000
    with pytest.raises(BaseExceptionGroup):
        async with Client(served.url, mode="legacy") as client:
            await client.call_tool("repeat_in_touch", {"times": 1_500_000})


async def test_the_result_of_a_tool_that_takes_no_context_is_no_event_and_has_no_such_limit(
    served: ServedHttp,
) -> None:
    async with Client(served.url, mode="legacy") as client:
        called = await client.call_tool("repeat", {"times": 1_500_000})
        assert len(called.content[0].model_dump()["text"]) == 1_500_000


def test_it_listens_on_loopback_only(served: ServedHttp) -> None:
    # Of this process alone: others may listen on the same port of another address.
    own = {str(file.readlink()) for file in Path(f"/proc/{served.process.pid}/fd").iterdir()}
    tables = [Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    assert listening == [f"0100007F:{served.port:04X}"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "10.0.0.9", "", "[::1", "::"]
)
def test_a_request_for_another_host_is_refused(served: ServedHttp, host: str) -> None:
    assert served.post(PING, {"Host": host})[0] == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://10.0.0.9:8000", "file://"])
def test_a_page_from_elsewhere_is_refused(served: ServedHttp, origin: str) -> None:
    assert served.post(PING, {"Origin": origin})[0] == 403


@pytest.mark.parametrize("headers", [{"Host": "localhost"}, {"Host": "[::1]:80"}, {"Origin": "http://localhost:3000"}])
def test_this_machines_own_names_and_pages_are_served(served: ServedHttp, headers: dict[str, str]) -> None:
    assert served.post(PING, headers)[0] == 200


def test_a_large_argument_passes(served: ServedHttp) -> None:
    served.initialize()
    result = served.request("tools/call", {"name": "shout", "arguments": {"text": "x" * 10_000_000}})
    assert len(result["content"][0]["text"]) == 10_000_000


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("0.0.0.0", "192.168.1.5:8000", 200),
        ("0.0.0.0", "tools.internal", 200),
        ("0.0.0.0", "evil.example", 421),
        ("127.0.0.1", "tools.internal", 200),
        ("127.0.0.1", "192.168.1.5", 421),
    ],
)
async def test_a_name_is_answered_to_when_it_is_allowed_or_cannot_be_rebound(
    bound: str, host: str, status: int
) -> None:
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(200)

    async def send(message: Any) -> None:
        seen.extend([message["status"]] if "status" in message else [])

    async def receive() -> Any:
        raise AssertionError("nothing to receive")

    guard = HostGuard(app, bound, allowed_hosts=["tools.internal"])
    await guard({"type": "http", "headers": [(b"host", host.encode())]}, receive, send)
    assert seen == [status]


def test_a_port_in_use_is_said_with_the_way_out(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text("from toolkit import tool\n@tool\ndef f() -> str:\n    'F.'\n    return ''\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        argv = [*SERVE, "--http", "--port", str(port), str(tools)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 1
    assert done.stderr == (
        f"port {port} is in use\n"
        f"  127.0.0.1:{port}\n"
        f"  Stop the program that listens there, or choose another port: --port {port + 1}\n"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_said(host: str) -> None:
    from toolkit import Toolbox, tool

    @tool
    def nothing() -> str:
        """Nothing."""
        return ""

    with pytest.raises(ToolkitError) as caught:
        serve_http(Toolbox("t", [nothing]), host=host, port=0, no_auth=True)
    assert caught.value.where == (f"{host}:0",)


@pytest.mark.parametrize(("tool", "number"), [("stubborn", signal.SIGINT), ("hogging", signal.SIGTERM)])
def test_a_signal_ends_it_whatever_the_tools_do(tmp_path: Path, tool: str, number: signal.Signals) -> None:
    with ServedHttp(tmp_path, STUCK) as served:
        served.initialize()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        with served.started(call):
            served.wait_for_output("running")
            served.process.send_signal(number)
            assert served.process.wait(BOUND) != 0


def test_sessions_do_not_share_log_levels(served: ServedHttp) -> None:
    call = ("tools/call", {"name": "count", "arguments": {"to": 1}})
    heard = []
    for level in ("error", "debug"):
        served.session = {}
        served.initialize()
        if level == "error":
            served.request("logging/setLevel", {"level": level})
        served.request(*call)
        heard.append([message["params"]["data"] for message in served.messages if message.get("method")])
    assert heard == [[], ["counted 1"]]
