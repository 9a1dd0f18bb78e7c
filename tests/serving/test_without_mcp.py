"""A stdio server answers what clients ask first and most without importing mcp, and mcp takes over unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import ENVELOPE, HANDSHAKE, Served, wait_until

TOOLS = """
import asyncio
import sys

@tool
def loaded() -> str:
    "Which of these this process has imported."
    return ",".join(name for name in ("mcp", "mcp_types", "claude_agent_sdk", "click", "anyio", "jsonschema") if name in sys.modules)

@tool
async def slow(ctx: ToolContext, seconds: float) -> str:
    "Work for a while and say how far it is."
    for step in range(10):
        ctx.progress(step, 10)
        await asyncio.sleep(seconds / 10)
    return "done"

@tool
async def endless(ctx: ToolContext) -> str:
    "Say on stderr when it is told to end."
    print("waiting", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("told", file=sys.stderr, flush=True)
        raise
    return ""

@tool
async def chatty(ctx: ToolContext) -> str:
    "Log something."
    ctx.log("quiet", "debug")
    ctx.log("loud", "error")
    return "said"

box = Toolbox("quick", [loaded, slow, endless, chatty])
"""


def _loaded(served: Served, **meta: Any) -> set[str]:
    result = served.request("tools/call", {"name": "loaded", "arguments": {}, **meta})
    return {name for block in result["content"] for name in block["text"].split(",")}


def test_a_handshake_client_is_served_without_mcp(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.initialize()
        served.request("ping")
        served.request("tools/list")
        served.request("logging/setLevel", {"level": "error"})
        assert served.call("slow", seconds=0.01) == "done"
        assert served.answer("prompts/list")["error"]["code"] == -32601
        served.send("tools/call", {"name": "endless", "arguments": {}}, request_id="x")
        served.send("notifications/cancelled", {"requestId": "x"})
        assert _loaded(served) == set()


def test_a_sessionless_client_is_served_without_mcp(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        assert served.request("server/discover", {"_meta": ENVELOPE})["supportedVersions"] == ["2026-07-28"]
        served.request("tools/list", {"_meta": ENVELOPE})
        assert _loaded(served, _meta=ENVELOPE) == set()


@pytest.mark.parametrize("options", [(), ("--reload",)], ids=["plain", "reload"])
def test_calls_in_flight_go_on_while_mcp_comes_and_a_cancel_still_reaches_them(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with Served(tmp_path, TOOLS, options=options) as served:
        served.initialize()
        call = {"name": "slow", "arguments": {"seconds": 1.5}, "_meta": {"progressToken": "p"}}
        served.send("tools/call", call, request_id="slow")
        served.send("tools/call", {"name": "endless", "arguments": {}}, request_id="endless")
        wait_until(lambda: "waiting" in served.stderr)
        served.send("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}, request_id="odd")
        served.send("notifications/cancelled", {"requestId": "endless"})
        served.send("ping", request_id="after")
        answers = [served.read() for _ in range(3)]
        assert {answer["id"] for answer in answers} == {"slow", "odd", "after"}
        assert next(a for a in answers if a["id"] == "odd")["error"]["code"] == -32602
        assert [note["params"]["progress"] for note in served.notifications] == list(range(10))
        wait_until(lambda: "told" in served.stderr)
        assert _loaded(served) >= {"mcp", "mcp_types"}


def test_mcp_is_told_what_was_agreed_before_it_came(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.request("initialize", {**HANDSHAKE, "protocolVersion": "2025-06-18"})
        served.send("notifications/initialized")
        served.request("logging/setLevel", {"level": "error"})
        # A key that mcp ignores and the kernel does not know: mcp runs the call.
        odd = {"name": "chatty", "arguments": {}, "more": 1}
        assert served.request("tools/call", odd)["content"][0]["text"] == "said"
        assert [note["params"]["data"] for note in served.notifications] == ["loud"]
        served.request("logging/setLevel", {"level": "alert"})
        served.request("tools/call", odd)
        assert len(served.notifications) == 1


def test_what_was_sent_before_the_end_of_file_is_answered_although_mcp_has_to_come_for_it(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.send("initialize", HANDSHAKE, request_id=1)
        served.send("completion/complete", {}, request_id=2)
        served.close_stdin()
        assert [served.read()["id"], served.read()["id"]] == [1, 2]
        assert served.wait() == 0


def test_a_tool_list_that_changes_is_announced_once_before_and_after_mcp_has_come(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS, options=("--reload",)) as served:
        served.initialize()
        for round_number in range(2):
            text = served.file.read_text("utf-8").replace("Log some", f"{round_number} Log some")
            served.file.write_text(text, "utf-8")
            wait_until(lambda done=round_number: served.stderr.count("reloaded quick") > done)  # type: ignore[misc]
            listing = json.dumps(served.request("tools/list"))
            assert f"{round_number} Log some" in listing
            assert [note["method"] for note in served.notifications] == ["notifications/tools/list_changed"]
            served.notifications.clear()
            assert "error" in served.answer("completion/complete", {})


def test_who_follows_their_tools_with_opentelemetry_gets_mcps_spans(tmp_path: Path) -> None:
    followed = """
    import sys
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(sys.stderr)))
    trace.set_tracer_provider(provider)

    @tool
    async def followed() -> str:
        "Nothing."
        return "done"

    box = Toolbox("followed", [followed])
    """
    with Served(tmp_path, followed) as served:
        served.initialize()
        assert served.call("followed") == "done"
        wait_until(lambda: "tools/call followed" in served.stderr)
