"""One Toolbox, three ways to serve it, two protocol eras: a client reads the same."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge
from mcp import Client, MCPError

from tests.serving._client import ENVELOPE, HANDSHAKE, PRELUDE, Served, ServedHttp
from toolkit import Toolbox

SOURCE = """
from dataclasses import dataclass
from typing import Annotated
from toolkit import Image, Text, Tool

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

@tool(structured=True)
def mean(values: list[float]) -> float | None:
    "Null where there is none."
    return sum(values) / len(values) if values else float("nan")

@tool(structured=True)
def ratio(of: float) -> float:
    "A number, and nothing else."
    return float("inf") if of == 0 else 1 / of

@tool
def locked(data: bytes) -> dict[str, bytes]:
    "Bytes in and out."
    return {"again": data}

@tool
def refuses(how: str = "") -> str:
    "Answer with a protocol error."
    from mcp import MCPError
    raise MCPError(-32042, "see \\udce9 the page", {"url": "https://example.test", "what": float("nan")} if how else None)

@tool
async def refuses_later(ctx: ToolContext) -> str:
    "The same in the event loop, from a class of its own."
    from mcp import UrlElicitationRequiredError
    ctx.log("about to refuse")
    raise UrlElicitationRequiredError([], "sign in first")

async def carry_out(arguments: dict[str, object]) -> dict[str, object]:
    return {"sum": sum(arguments["of"])}

add = Tool.from_schema(
    name="add",
    description="Add numbers.",
    input_schema={
        "type": "object",
        "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "required": ["of"],
        "$defs": {"n": {"type": ["integer", "number"], "exclusiveMaximum": 9.5}},
    },
    output_schema={"type": "object", "properties": {"sum": {"type": "number"}}},
    call=carry_out,
    render=lambda value: f"It is {value['sum']}.",
    annotations={"readOnlyHint": True},
    meta={"catalogue/id": 7},
)

tools = [add, move, measure, picture, long, fails, odd, numbers, mean, ratio, locked, refuses, refuses_later]
box = Toolbox("ways", tools, version="3.2.1", instructions="Use them.")
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
    ("tools/call", {"name": "add", "arguments": {"of": [1, 2.5]}}),
    ("tools/call", {"name": "add", "arguments": {"of": [1, 10]}}),
    ("tools/call", {"name": "mean", "arguments": {"values": [1, 2]}}),
    ("tools/call", {"name": "mean", "arguments": {"values": []}}),
    ("tools/call", {"name": "ratio", "arguments": {"of": 0}}),
    ("tools/call", {"name": "locked", "arguments": {"data": "_-8="}}),
    ("tools/call", {"name": "refuses", "arguments": {}}),
    ("tools/call", {"name": "refuses", "arguments": {"how": "in detail"}}),
    ("tools/call", {"name": "refuses_later", "arguments": {}}),
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


def _without_id(answer: dict[str, Any] | None) -> str:
    """A result, or an error, as text."""
    assert answer is not None
    return json.dumps(answer["result"] if "result" in answer else {"error": answer["error"]})


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
            results.append(_without_id(await bridge.handle(frame)))
        return results
    finally:
        await bridge.aclose()


def _over_stdio(folder: Path, era: str) -> list[str]:
    with Served(folder, SOURCE) as served:
        if era == "handshake":
            served.initialize()
        return [_without_id(served.answer(method, {**params, **ERAS[era]})) for method, params in REQUESTS]


def _over_http(served: ServedHttp, era: str) -> list[str]:
    served.session = {}
    if era == "handshake":
        served.initialize()
    return [_without_id(served.answer(method, {**params, **ERAS[era]})) for method, params in REQUESTS]


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
        if "error" in before:
            assert after == before
            continue
        stamp = after["_meta"].pop("io.modelcontextprotocol/serverInfo")
        assert stamp == {"name": "ways", "version": "3.2.1"}
        rest = {key: value for key, value in after.items() if key not in added and value != {}}
        assert rest == before


async def test_what_a_client_reads_is_what_the_toolbox_gives() -> None:
    box = _box()
    results = [json.loads(result) for result in await _in_process("handshake")]
    assert results[0] == {"tools": box.listing()}
    for (_, params), result in zip(REQUESTS[1:], results[1:], strict=True):
        if "error" not in result:
            reply = (await box.call(params["name"], params.get("arguments"))).wire()
            assert result == json.loads(json.dumps(reply, allow_nan=False))
            continue
        with pytest.raises(MCPError) as caught:
            await box.call(params["name"], params.get("arguments"))
        assert result["error"]["code"] == caught.value.code
        assert result["error"]["message"] == caught.value.message.replace("\udce9", "\ufffd")


async def test_a_tool_can_answer_with_a_protocol_error() -> None:
    refused = [json.loads(result).get("error") for result in await _in_process("handshake")][-3:]
    assert refused == [
        {"code": -32042, "message": "see \ufffd the page"},
        {"code": -32042, "message": "see \ufffd the page", "data": {"url": "https://example.test", "what": None}},
        {"code": -32042, "message": "sign in first", "data": {"elicitations": []}},
    ]


async def test_a_number_that_json_does_not_have_is_null_or_an_error_by_the_schema() -> None:
    given, nothing, infinite = [json.loads(result) for result in await _in_process("handshake")][-7:-4]
    assert given["structuredContent"] == {"result": 1.5}
    assert nothing["structuredContent"] == {"result": None}
    assert infinite["isError"]
    assert "structuredContent" not in infinite
    assert "NaN or infinity" in infinite["content"][0]["text"]


async def test_bytes_are_taken_in_both_alphabets_and_given_in_the_standard_one() -> None:
    box = _box()
    for text in ("_-8=", "/+8="):
        assert (await box.call("locked", {"data": text})).text == '{"again":"/+8="}'


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_mcps_own_client_lists_and_calls(mode: Any) -> None:
    async with Client(_box().server(), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["add", "move"]
        result = await client.call_tool("measure", {"point": {"x": 2, "label": "b"}})
        assert result.structured_content == {"x": 2.0, "label": "b"}
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("ways", "3.2.1")
        assert client.instructions == "Use them."
