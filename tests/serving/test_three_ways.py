"""One Toolbox, three ways to serve it, two protocol eras: a client reads the same."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge
from mcp import Client

from tests.serving._client import ENVELOPE, HANDSHAKE, PRELUDE, Served, ServedHttp
from toolkit import Toolbox

SOURCE = """
from dataclasses import dataclass
from typing import Annotated
from toolkit import Image, Text

@dataclass
class Point:
    x: float
    label: str | None = None

@tool(title="Move it", read_only=True)
def move(point: Point, by: Annotated[float, "how far"] = 1.0, note: str | None = None) -> Point:
    "Move a point. Ünïcode – “quoted”."
    return Point(point.x + by, note)

@tool(structured=True)
async def measure(point: Point) -> Point:
    "Give the point back, as data too."
    return point

@tool
def picture() -> list[object]:
    "Several blocks."
    return [Text("a"), Image(bytes.fromhex("89504e470d0a1a0a"), "image/png")]

@tool(max_chars=100)
def long() -> str:
    "More than fits."
    return "line of text\\n" * 100

@tool
def fails() -> str:
    "Fail."
    raise ToolError("no folder 'srcs'; the workspace has: src")

@tool
def odd() -> str:
    "Text that is not valid UTF-8, and numbers that are not JSON."
    return "caf\\udce9 \\x00 \\u2028"

@tool
def numbers() -> list[float]:
    "Not a number."
    return [1.5, float("nan"), float("inf"), 10**30]

box = Toolbox("ways", [move, measure, picture, long, fails, odd, numbers], version="3.2.1", instructions="Use them.")
"""

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "move", "arguments": {"point": {"x": 1}, "note": "né"}}),
    ("tools/call", {"name": "move", "arguments": {"point": {"x": "one"}, "pint": 1}}),
    ("tools/call", {"name": "measure", "arguments": {"point": {"x": 2}}}),
    ("tools/call", {"name": "picture"}),
    ("tools/call", {"name": "long", "arguments": {}}),
    ("tools/call", {"name": "fails", "arguments": {}}),
    ("tools/call", {"name": "odd", "arguments": {}}),
    ("tools/call", {"name": "numbers", "arguments": {}}),
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
]
ERAS = {"handshake": {}, "2026-07-28": {"_meta": ENVELOPE}}

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
AskAsync = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways")


@pytest.fixture(scope="module")
def over_http(folder: Path) -> Iterator[ServedHttp]:
    with ServedHttp(folder, SOURCE) as served:
        yield served


def _box() -> Toolbox:
    names: dict[str, Any] = {"__name__": "ways"}
    exec(compile(PRELUDE + SOURCE, "ways.py", "exec", dont_inherit=True), names)
    box = names["box"]
    assert isinstance(box, Toolbox)
    return box


async def _in_process(era: str) -> list[str]:
    """The results through the bridge that carries the CLI's messages."""
    config = _box().in_process()
    bridge = SdkMcpBridge(config["name"], config["instance"])
    try:
        if era == "handshake":
            await bridge.handle({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE})
            await bridge.handle({"jsonrpc": "2.0", "method": "notifications/initialized"})
        results = []
        for number, (method, params) in enumerate(REQUESTS, start=1):
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **ERAS[era]}}
            answer = await bridge.handle(frame)
            assert answer is not None
            results.append(json.dumps(answer["result"]))
        return results
    finally:
        await bridge.aclose()


def _over_stdio(folder: Path, era: str) -> list[str]:
    with Served(folder, SOURCE) as served:
        if era == "handshake":
            served.initialize()
        return [json.dumps(served.request(method, {**params, **ERAS[era]})) for method, params in REQUESTS]


def _over_http(served: ServedHttp, era: str) -> list[str]:
    served.session = {}
    if era == "handshake":
        served.initialize()
    return [json.dumps(served.request(method, {**params, **ERAS[era]})) for method, params in REQUESTS]


@pytest.mark.parametrize("era", ERAS)
async def test_results_are_the_same_in_process_over_stdio_and_over_http(
    folder: Path, over_http: ServedHttp, era: str
) -> None:
    in_process = await _in_process(era)
    assert _over_stdio(folder, era) == in_process
    assert _over_http(over_http, era) == in_process


async def test_the_eras_differ_only_in_what_the_protocol_adds() -> None:
    old, new = [[json.loads(result) for result in await _in_process(era)] for era in ERAS]
    added = {"resultType", "ttlMs", "cacheScope"}
    for before, after in zip(old, new, strict=True):
        stamp = after["_meta"].pop("io.modelcontextprotocol/serverInfo")
        assert stamp == {"name": "ways", "version": "3.2.1"}
        rest = {key: value for key, value in after.items() if key not in added and value != {}}
        assert rest == before


async def test_what_a_client_reads_is_what_the_toolbox_gives() -> None:
    box = _box()
    results = [json.loads(result) for result in await _in_process("handshake")]
    assert results[0] == {"tools": box.listing()}
    for (_, params), result in zip(REQUESTS[1:], results[1:], strict=True):
        reply = (await box.call(params["name"], params.get("arguments"))).wire()
        assert result == json.loads(json.dumps(reply).replace("\\udce9", "\\ufffd"))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_mcps_own_client_lists_and_calls(mode: Any) -> None:
    async with Client(_box().server(), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["move", "measure"]
        result = await client.call_tool("measure", {"point": {"x": 2, "label": "b"}})
        assert result.structured_content == {"x": 2.0, "label": "b"}
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("ways", "3.2.1")
        assert client.instructions == "Use them."
