"""stdio: whatever bytes a client sends, and however it reads, the server answers and goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving._client import HANDSHAKE, Served

TOOLS = """
import asyncio

@tool
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@tool
def echo(text: str) -> str:
    "Give the text back."
    return text

@tool
async def later(number: int, seconds: float) -> str:
    "Answer after a while."
    await asyncio.sleep(seconds)
    return f"number {number}"

@tool
def repeat(text: str, times: int) -> str:
    "Repeat a text."
    return text * times

@tool(max_chars=20_000_000)
def big(size: int) -> str:
    "A large result."
    return "x" * size

box = Toolbox("wire", [add, echo, later, repeat, big])
"""


@pytest.fixture(scope="module", params=["pipes", "sockets"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests here: each must leave it working for the next."""
    with Served(tmp_path_factory.mktemp("wire"), TOOLS, sockets=request.param == "sockets") as served:
        served.initialize()
        yield served


@pytest.mark.parametrize(
    "garbage",
    [
        b"not json",
        b'{"jsonrpc": "2.0", "id": 1, "method"',
        b"\xff\xfe\x00\x80binary\x01",
        b'"\xc3\x28"',
        b'{"a":' * 5000,
    ],
)
def test_what_is_not_json_gets_a_parse_error_and_the_connection_goes_on(served: Served, garbage: bytes) -> None:
    served.send_bytes(garbage + b"\n")
    answer = served.read()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert served.call("add", a=1, b=2) == "3"


@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        ("[]", None),
        ("5", None),
        ("{}", None),
        ('{"a": "\\ud800"}', None),
        ('{"id": 7, "jsonrpc": "2.0"}', 7),
        ('{"id": 7, "method": "ping"}', 7),
        ('{"id": true, "jsonrpc": "2.0", "method": "ping"}', None),
        ('{"id": "a", "jsonrpc": "2.0", "method": "ping", "params": [1]}', "a"),
    ],
)
def test_json_that_is_no_message_gets_an_invalid_request_error(
    served: Served, frame: str, request_id: int | str | None
) -> None:
    served.send_bytes(frame.encode() + b"\n")
    answer = served.read()
    assert (answer["id"], answer["error"]["code"]) == (request_id, -32600)
    assert served.call("add", a=1, b=2) == "3"


def test_a_text_cut_within_a_letter_is_a_call_like_any_other(served: Served) -> None:
    call = '{"jsonrpc":"2.0","id":"cut","method":"tools/call","params":{"name":"echo","arguments":{"text":"a\\ud83d"}}}'
    served.send_bytes(call.encode() + b"\n")
    answer = served.read()
    assert answer["id"] == "cut"
    assert answer["result"]["content"][0]["text"] == "a\ufffd"


def test_a_message_that_arrives_byte_by_byte_is_read_whole(served: Served) -> None:
    frame = {
        "jsonrpc": "2.0",
        "id": "é",
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "žluťoučký 🐎"}},
    }
    for byte in json.dumps(frame, ensure_ascii=False).encode() + b"\r\n\n  \n":
        served.send_bytes(bytes([byte]))
    answer = served.read()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("é", "žluťoučký 🐎")


def test_ten_megabytes_go_in_and_out(served: Served) -> None:
    assert served.call("echo", text="é" * 10) == "é" * 10
    assert len(served.call("big", size=10_000_000)) == 10_000_000
    frame = {
        "jsonrpc": "2.0",
        "id": 99,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2, "pad": "x" * 10_000_000}},
    }
    served.send_bytes(json.dumps(frame).encode() + b"\n")
    assert served.read()["id"] == 99
    assert served.call("add", a=1, b=2) == "3"


def test_a_line_without_end_is_refused_and_skipped(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.initialize()
        block = b"x" * 1_000_000
        for _ in range(70):
            served.send_bytes(block)
        assert served.read()["error"]["code"] == -32600
        served.send_bytes(b"rest of it\n")
        assert served.call("add", a=1, b=2) == "3"


def test_sixty_four_calls_in_flight_keep_their_own_results(served: Served) -> None:
    for number in range(64):
        arguments = {"number": number, "seconds": (64 - number) / 500}
        served.send("tools/call", {"name": "later", "arguments": arguments}, request_id=f"call-{number}")
    answers = [served.read() for _ in range(64)]
    assert {a["id"]: a["result"]["content"][0]["text"] for a in answers} == {
        f"call-{number}": f"number {number}" for number in range(64)
    }
    assert [a["id"] for a in answers] != [f"call-{number}" for number in range(64)]


def test_a_client_that_stops_reading_costs_bounded_memory_and_loses_nothing(served: Served) -> None:
    before = served.rss
    call = {"name": "repeat", "arguments": {"text": "x" * 1000, "times": 20}}
    sent = served.flood(
        b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": ' + json.dumps(call).encode() + b"}\n"
    )
    assert served.rss - before < 40_000_000
    ids = [served.read()["id"] for _ in range(sent)]
    assert sorted(ids) == list(range(sent))
    served.send_bytes(served.unsent)
    assert served.read()["id"] == sent
    assert served.call("add", a=1, b=2) == "3"


def test_no_mutation_of_a_message_stops_the_server(served: Served) -> None:
    chance = random.Random(20)
    seeds = [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1],"reason":null}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":"x"}}',
        b'{"jsonrpc":"2.0","id":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":"x"}}',
        b'{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":7}}',
        b'{"jsonrpc":"2.0","id":6,"method":"initialize","params":null}',
        b'{"jsonrpc":"2.0","id":9999999999999999999999,"method":"tools/list","params":{"cursor":3}}',
        b"[" * 5000,
    ]
    for seed in seeds * 40:
        frame = bytearray(seed)
        for _ in range(chance.randrange(4)):
            frame[chance.randrange(len(frame))] = chance.choice(b'{}[]",:0a\\ \xff')
        served.send_bytes(bytes(frame).replace(b"\n", b" ") + b"\n")
    served.send("tools/call", {"name": "echo", "arguments": {"text": "alive"}}, request_id="last")
    while (answer := served.read())["id"] != "last":
        assert "error" in answer or "result" in answer
    assert answer["result"]["content"][0]["text"] == "alive"


def test_requests_sent_before_the_first_answer_are_all_answered(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.send("initialize", HANDSHAKE, request_id=1)
        served.send("notifications/initialized")
        served.send("tools/list", request_id=2)
        served.send("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, request_id=3)
        assert {served.read()["id"] for _ in range(3)} == {1, 2, 3}


def test_a_call_before_the_handshake_is_refused(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.send("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, request_id=1)
        assert served.read()["error"]["code"] == -32602
