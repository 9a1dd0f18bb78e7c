"""Calls answered without mcp's transports: the same answers as with them, and cancelled as they are."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import BOUND, ENVELOPE, ServedHttp
from toolkit import Toolbox, tool
from toolkit_servers.build import build_server
from toolkit_servers.http import http_app

SOURCE = """
import asyncio
from mcp.shared.exceptions import MCPError

@tool
def shout(text: str) -> str:
    "In capitals."
    return text.upper()

@tool(structured=True)
def measure(text: str) -> dict[str, int]:
    "Structured."
    return {"length": len(text)}

@tool
def fails(text: str) -> str:
    "Fail."
    raise ToolError(f"no {text}")

@tool
def breaks(text: str) -> str:
    "A protocol error."
    raise MCPError(-32042, "not that way", {"text": text})

@tool
async def forever(text: str) -> str:
    "Wait until nobody wants to know any more."
    print("waiting", text, flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        print("told", text, flush=True)
    return ""

box = Toolbox("quick", [shout, measure, fails, breaks, forever])
"""
SLOW_ACCEPT = {"Accept": "text/event-stream, application/json"}
"""Means the same as what clients send, and is not spelled so: such a request takes mcp's way."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    with ServedHttp(tmp_path_factory.mktemp("quick"), SOURCE) as served:
        yield served


def frame(name: str, arguments: Any, *, modern: bool, **more: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, **more, **({"_meta": ENVELOPE} if modern else {})}
    return {"jsonrpc": "2.0", "id": "a-7", "method": "tools/call", "params": params}


def modern_headers(name: str) -> dict[str, str]:
    return {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shout", {"text": "hey"}),
        ("shout", {"text": "é\u2028 \U0001f600"}),
        ("shout", {"text": 5}),
        ("shout", {}),
        ("shout", {"text": "x", "more": 1}),
        ("shout", None),
        ("shout", []),
        ("measure", {"text": "four"}),
        ("fails", {"text": "x"}),
        ("breaks", {"text": "x"}),
        ("nothing", {"text": "x"}),
    ],
)
def test_a_quick_answer_is_the_one_that_mcp_gives(served: ServedHttp, name: str, arguments: Any, modern: bool) -> None:
    served.session = {}
    if not modern:
        served.initialize()
    headers = modern_headers(name) if modern else {}
    asked = frame(name, arguments, modern=modern)
    quick = served.post(asked, headers)
    plain = served.post(asked, {**headers, **SLOW_ACCEPT})
    assert (quick[0], json.loads(quick[1])) == (plain[0], json.loads(plain[1]))


def test_the_two_ways_are_really_two(served: ServedHttp) -> None:
    served.session = {}
    served.initialize()
    asked = frame("shout", {"text": "hey"}, modern=False)
    served.post(asked)
    assert served.messages == []  # plain JSON
    served.post(asked, SLOW_ACCEPT)
    assert len(served.messages) == 1  # an event


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Name": "measure"},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Protocol-Version": "2099-01-01"},
        {"Accept": "text/html"},
        {"Content-Type": "text/plain"},
    ],
)
def test_headers_that_do_not_fit_are_refused_as_ever(served: ServedHttp, headers: dict[str, str]) -> None:
    served.session = {}
    status, _ = served.post(frame("shout", {"text": "x"}, modern=True), {**modern_headers("shout"), **headers})
    assert 400 <= status < 500


def test_a_session_that_does_not_exist_is_not_found(served: ServedHttp) -> None:
    served.session = {"Mcp-Session-Id": "0" * 32, "Mcp-Protocol-Version": "2025-11-25"}
    assert served.post(frame("shout", {"text": "x"}, modern=False))[0] == 404


def test_in_the_handshake_era_a_quick_call_is_cancelled_by_its_id(served: ServedHttp) -> None:
    served.session = {}
    served.initialize()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(served.post, frame("forever", {"text": "one"}, modern=False))
        served.wait_for_output("waiting one")
        served.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a-7"}})
        status, body = answer.result(BOUND)
    assert (status, json.loads(body)["error"]["code"]) == (200, -32800)
    served.wait_for_output("told one")


def test_another_session_cannot_cancel_it(served: ServedHttp) -> None:
    served.session = {}
    served.initialize()
    with served.started(frame("forever", {"text": "two"}, modern=False)):
        served.wait_for_output("waiting two")
        mine = served.session
        served.session = {}
        served.initialize()
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a-7"}}
        assert served.post(told)[0] == 202
        assert json.loads(served.post(frame("shout", {"text": "x"}, modern=False))[1])["result"]
        assert "told two" not in served.output
        served.session = mine
        served.post(told)
        served.wait_for_output("told two")


def test_in_2026_07_28_closing_the_connection_cancels_a_quick_call(served: ServedHttp) -> None:
    body = json.dumps(frame("forever", {"text": "three"}, modern=True)).encode()
    lines = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
        **modern_headers("forever"),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
        client.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        served.wait_for_output("waiting three")
    served.wait_for_output("told three")


async def test_a_middleware_of_yours_sees_every_call() -> None:
    @tool
    def plain() -> str:
        """Plain."""
        return "x"

    seen: list[str] = []

    async def mine(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    server = build_server(Toolbox("mine", [plain]))
    app = http_app(server)
    server.middleware.append(mine)
    assert app.exchanges.quick is not None
    scope = {"type": "http", "headers": [], "extensions": {}}
    assert app.exchanges.quick.match(scope, frame("plain", {}, modern=True)) is None


def test_a_call_that_takes_long_sends_signs_of_life(tmp_path: Path) -> None:
    source = """
import asyncio
import toolkit_servers.http.quick
toolkit_servers.http.quick.PING_SECONDS = 0.05

@tool
async def slow() -> str:
    "Take a while."
    await asyncio.sleep(0.3)
    return "done"

box = Toolbox("long", [slow])
"""
    with ServedHttp(tmp_path, source) as served:
        served.initialize()
        status, body = served.post(frame("slow", {}, modern=False))
        assert (status, json.loads(body)["result"]["content"][0]["text"]) == (200, "done")
        assert b": ping" in served.body
