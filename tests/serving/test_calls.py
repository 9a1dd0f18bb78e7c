"""A call over the wire: its id, its reports, its cancellation, and what a client may get wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving._client import ENVELOPE, Served

TOOLS = """
import asyncio
import threading
import time

told = threading.Event()

@tool
def who(ctx: ToolContext) -> str:
    "Say which call this is."
    return ctx.call_id

@tool
def count(ctx: ToolContext, to: int) -> str:
    "Count in a thread, reporting each step."
    for step in range(1, to + 1):
        ctx.progress(step, to, f"step {step}")
        ctx.log(f"did {step}", "warning" if step % 2 else "debug", {"step": step})
    return "counted"

@tool
async def count_async(ctx: ToolContext, to: int) -> str:
    "Count on the event loop, without a pause."
    for step in range(1, to + 1):
        ctx.progress(step)
    return "counted"

@tool
def wait(ctx: ToolContext) -> str:
    "Work until told that nobody waits."
    ctx.progress(0)
    while not ctx.cancelled:
        time.sleep(0.01)
    told.set()
    ctx.progress(1)
    return "too late"

@tool
async def wait_async() -> str:
    "Wait for ever."
    try:
        await asyncio.Event().wait()
    finally:
        told.set()
    return ""

@tool
def was_told() -> bool:
    "Whether a cancelled tool heard of it."
    heard = told.wait(60)
    told.clear()
    return heard

@tool
def leaves() -> str:
    "Call sys.exit."
    raise SystemExit(3)

box = Toolbox("calls", [who, count, count_async, wait, wait_async, was_told, leaves])
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("calls"), TOOLS) as served:
        served.initialize()
        yield served


@pytest.fixture(scope="module")
def modern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("modern"), TOOLS) as served:
        yield served


def _heard(served: Served, method: str) -> list[dict[str, Any]]:
    """The notifications of a kind since the last time, which are forgotten now."""
    heard = [note["params"] for note in served.notifications if note["method"] == f"notifications/{method}"]
    served.notifications = [note for note in served.notifications if note["method"] != f"notifications/{method}"]
    return heard


def test_the_call_id_is_the_one_claude_code_gives_or_else_that_of_the_request(served: Served) -> None:
    named = served.request("tools/call", {"name": "who", "arguments": {}, "_meta": {"claudecode/toolUseId": "toolu_7"}})
    assert named["content"][0]["text"] == "toolu_7"
    served.send("tools/call", {"name": "who", "arguments": {}}, request_id="mine")
    assert served.read()["result"]["content"][0]["text"] == "mine"


@pytest.mark.parametrize("tool", ["count", "count_async"])
def test_progress_arrives_in_order_and_before_the_result(served: Served, tool: str) -> None:
    meta = {"progressToken": "t"}
    result = served.request("tools/call", {"name": tool, "arguments": {"to": 20}, "_meta": meta})
    assert result["content"][0]["text"] == "counted"
    assert [note["progress"] for note in _heard(served, "progress")] == list(range(1, 21))


def test_progress_carries_token_total_and_message(served: Served) -> None:
    served.request("tools/call", {"name": "count", "arguments": {"to": 1}, "_meta": {"progressToken": 9}})
    assert _heard(served, "progress") == [{"progressToken": 9, "progress": 1, "total": 1, "message": "step 1"}]


def test_nobody_who_did_not_ask_gets_progress(served: Served) -> None:
    served.request("tools/call", {"name": "count", "arguments": {"to": 3}})
    assert _heard(served, "progress") == []


def test_log_messages_arrive_from_the_level_the_client_sets(served: Served) -> None:
    _heard(served, "message")
    served.request("tools/call", {"name": "count", "arguments": {"to": 2}})
    assert [note["level"] for note in _heard(served, "message")] == ["warning", "debug"]
    served.request("logging/setLevel", {"level": "warning"})
    served.request("tools/call", {"name": "count", "arguments": {"to": 2}})
    assert _heard(served, "message") == [{"level": "warning", "data": {"message": "did 1", "data": {"step": 1}}}]


def test_in_2026_07_28_a_request_asks_for_its_own_reports(modern: Served) -> None:
    call = {"name": "count", "arguments": {"to": 2}}
    modern.request("tools/call", {**call, "_meta": ENVELOPE})
    assert modern.notifications == []
    asks = {**ENVELOPE, "io.modelcontextprotocol/logLevel": "warning", "progressToken": "p"}
    modern.request("tools/call", {**call, "_meta": asks})
    assert [note["level"] for note in _heard(modern, "message")] == ["warning"]
    assert [note["progress"] for note in _heard(modern, "progress")] == [1, 2]


@pytest.mark.parametrize("tool", ["wait", "wait_async"])
def test_a_cancelled_call_is_told_and_not_answered(served: Served, tool: str) -> None:
    served.send("tools/call", {"name": tool, "arguments": {}, "_meta": {"progressToken": "w"}}, request_id="gone")
    served.send("notifications/cancelled", {"requestId": "gone", "reason": "changed my mind"})
    # The next answer is that of the next call: it is not delayed, and no other comes before it.
    assert served.call("was_told") == "true"
    assert all(note["progress"] == 0 for note in _heard(served, "progress"))


def test_hundreds_of_cancelled_calls_do_not_delay_the_next(served: Served) -> None:
    for number in range(300):
        served.send("tools/call", {"name": "wait", "arguments": {}}, request_id=f"gone-{number}")
        served.send("notifications/cancelled", {"requestId": f"gone-{number}"})
    assert served.call("who") != ""


def test_a_tool_that_leaves_python_is_an_error_and_the_server_goes_on(served: Served) -> None:
    result = served.request("tools/call", {"name": "leaves", "arguments": {}})
    assert result["isError"] is True
    assert "SystemExit" in result["content"][0]["text"]
    assert served.call("who") != ""


def test_a_tool_that_does_not_exist_is_an_error_result_the_model_can_read(served: Served) -> None:
    result = served.request("tools/call", {"name": "whom", "arguments": {}})
    assert result["isError"] is True
    assert "whom" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"arguments": {}}, -32602),
        ("tools/call", {"name": 5, "arguments": {}}, -32602),
        ("tools/call", {"name": "who", "arguments": []}, -32602),
        ("tools/call", {"name": "who", "_meta": 5}, -32602),
        ("tools/call", {"name": "who", "_meta": ENVELOPE}, -32600),
        ("tools/list", {"_meta": 5}, -32602),
        ("tools/list", {"_meta": ENVELOPE}, -32600),
        ("tools/list", {"cursor": 5}, -32602),
        ("resources/list", None, -32601),
        ("no/such/method", None, -32601),
    ],
)
def test_a_malformed_request_gets_mcps_own_error(
    served: Served, method: str, params: dict[str, Any] | None, code: int
) -> None:
    served.send(method, params, request_id="wrong")
    assert served.read()["error"]["code"] == code


def test_a_malformed_envelope_is_refused(modern: Served) -> None:
    broken = {**ENVELOPE, "io.modelcontextprotocol/logLevel": "loud"}
    modern.send("tools/call", {"name": "who", "arguments": {}, "_meta": broken}, request_id="wrong")
    assert modern.read()["error"]["code"] == -32602
    modern.send("initialize", {}, request_id="late")
    assert modern.read()["error"]["code"] == -32022
