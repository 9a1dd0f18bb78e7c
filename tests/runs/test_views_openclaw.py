"""Runs in OpenClaw's words: the callbacks in their order, and the result of an embedded run."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from tests.runs.play import ADD, BOX, COMPACTING, COUNT, SOON, call, delegating, play, story
from toolkit.errors import RunError
from toolkit.runs import Limits, PendingCall, start
from toolkit.runs.views import openclaw
from toolkit.runs.views.openclaw import Called
from toolkit.testing import FakeCLI, Status, Turn, text, thinking

START, FLUSH = Called("onAssistantMessageStart"), Called("onBlockReplyFlush")


def agent(stream: str, **data: Any) -> Called:
    return Called("onAgentEvent", {"stream": stream, "data": data})


def said(text: str) -> list[Called]:
    return [Called("onPartialReply", {"text": text}), agent("assistant", delta=text)]


def block(text: str) -> Called:
    return Called("onBlockReply", {"text": text})


def tool(phase: str, id: str, name: str, **data: Any) -> Called:
    return agent("tool", phase=phase, name=name, toolCallId=id, **data)


def ended(id: str, name: str, text: str, *, error: bool = False) -> list[Called]:
    called = Called("onToolResult", {"text": text, "isError": error})
    return [called, tool("result", id, name, isError=error, result=text)]


async def test_callbacks_come_in_order_and_text_is_flushed_before_a_tool() -> None:
    events, _ = await story()
    refusal = "PreToolUse:Bash hook error: Bash is not offered in this run"
    half = {"done": 1, "total": 2, "message": "half"}
    assert openclaw.view(events) == [
        agent("lifecycle", phase="start", startedAt=0),
        START,
        Called("onReasoningStream", {"text": "Notes first."}),
        *said("Filing two."),
        block("Filing two."),
        FLUSH,
        tool("start", "toolu_1", ADD, args={"title": "a"}),
        FLUSH,
        tool("start", "toolu_2", ADD, args={"title": ""}),
        *ended("toolu_1", ADD, "added 'a'"),
        *ended("toolu_2", ADD, "a note needs a title", error=True),
        agent("lifecycle", phase="retry", attempt=1, delayMs=500),
        agent("compaction", phase="start"),
        agent("compaction", phase="end", willRetry=False),
        START,
        FLUSH,
        tool("start", "toolu_3", COUNT, args={}),
        FLUSH,
        tool("start", "toolu_4", "Bash", args={"command": "id"}),
        tool("update", "toolu_3", COUNT, partialResult=half),
        *ended("toolu_3", COUNT, "2"),
        *ended("toolu_4", "Bash", refusal, error=True),
        START,
        *said("All "),
        block("All "),
        *said("done."),
        block("done."),
        agent("lifecycle", phase="end", endedAt=1000 * (len(events) - 1), aborted=False),
    ]


async def test_with_message_end_a_message_is_one_block_unless_a_tool_comes_between() -> None:
    blocks = [text("One. "), text("Two."), call("toolu_1", ADD, title="a")]
    events, _ = await play(Turn(blocks), Turn([text("Three. "), thinking("hm"), text("Four.")]))
    names = ("onBlockReply", "onBlockReplyFlush", "onToolResult")
    calls = [called for called in openclaw.view(events, block_reply_break="message_end") if called.name in names]
    assert calls == [
        block("One. Two."),
        FLUSH,
        Called("onToolResult", {"text": "added 'a'", "isError": False}),
        block("Three. Four."),
    ]


@pytest.mark.parametrize(
    ("result", "output", "shown"),
    [
        (True, True, ["added 'a'", "added 'a'"]),
        (True, False, [ADD, None]),
        (False, True, ["added 'a'"]),
        (False, False, [None]),
    ],
)
async def test_the_switches_decide_what_is_shown_of_a_tool(result: bool, output: bool, shown: list[str | None]) -> None:
    events, _ = await play([call("toolu_1", ADD, title="a")], [text("ok")])
    switches = {"shouldEmitToolResult": lambda: result, "shouldEmitToolOutput": lambda: output}
    seen = []
    for called in openclaw.view(events, switches=switches):
        payload = called.payload or {}
        if called.name == "onToolResult":
            seen.append(payload["text"])
        elif payload.get("data", {}).get("phase") == "result":
            seen.append(payload["data"].get("result"))
    assert seen == shown


async def test_a_subagents_work_is_agent_events_only() -> None:
    events, _ = await play(cli=delegating(), native=["Agent"])
    calls = openclaw.view(events)
    assert "I am the subagent." not in str(calls)
    assert tool("start", "toolu_inner", "Read", parentToolCallId="toolu_agent", args={"file_path": "a"}) in calls
    names = [called.name for called in calls]
    assert (names.count("onBlockReplyFlush"), names.count("onToolResult")) == (1, 1)


async def test_a_live_runs_callbacks_are_awaited_in_order() -> None:
    heard: list[Any] = []

    async def on_block(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        heard.append(payload["text"])

    callbacks: dict[str, Any] = {
        "onAssistantMessageStart": lambda: heard.append("start"),
        "onBlockReply": on_block,
        "onBlockReplyFlush": lambda: heard.append("flush"),
        "onToolResult": lambda payload: heard.append(payload["text"]),
    }
    cli = FakeCLI([text("First."), call("toolu_1", ADD, title="a")], [text("Last.")], strict=False)
    async with start("Go.", transport=cli, tools=[BOX]) as live:
        live.bus.subscribe(openclaw.caller(callbacks))
        await live.result()
    assert heard == ["start", "First.", "flush", "added 'a'", "start", "Last."]


def test_a_misspelt_callback_or_mode_is_refused() -> None:
    with pytest.raises(RunError, match=r"there is no callback 'onBlockReplys'.*onBlockReply"):
        openclaw.caller({"onBlockReplys": print})
    with pytest.raises(RunError, match="text_end or message_end"):
        openclaw.view([], block_reply_break="never")  # type: ignore[arg-type]


async def test_the_result_has_the_payloads_and_the_meta_of_an_embedded_run() -> None:
    events, result = await story()
    usage = {"input": 117, "output": 28, "cacheRead": 50, "cacheWrite": 9, "total": 204}
    agent_meta = {"sessionId": result.session, "provider": "anthropic", "model": "claude-scripted-1", "usage": usage}
    assert openclaw.result(events, result) == {
        "payloads": [{"text": "Filing two."}, {"text": "All done."}],
        "meta": {"durationMs": result.ms, "agentMeta": agent_meta, "aborted": False, "stopReason": "end_turn"},
    }


async def test_a_deadline_is_aborted_with_what_was_said() -> None:
    events, result = await play(Turn([text("so far"), text("never")], stall_after=1), limits=Limits(seconds=SOON))
    told = openclaw.result(events, result)
    assert told["payloads"] == [{"text": "so far"}, {"text": result.message, "isError": True}]
    assert told["meta"]["aborted"]
    assert openclaw.view(events)[-1].payload == {
        "stream": "lifecycle",
        "data": {"phase": "error", "endedAt": 1000 * (len(events) - 1), "error": result.message},
    }


@pytest.mark.parametrize(
    ("steps", "kind"),
    [([Status(413)], "image_size"), ([Status(500)], None), ([Status(429)], None)],
    ids=["413", "500", "429"],
)
async def test_an_api_error_is_a_payload_and_an_error_where_there_is_a_kind(steps: list[Any], kind: str | None) -> None:
    events, result = await play(*steps)
    told = openclaw.result(events, result)
    assert told["payloads"] == [{"text": result.message, "isError": True}]
    assert told["meta"].get("error") == ({"kind": kind, "message": result.message} if kind else None)


async def test_an_overflow_while_compacting_is_a_compaction_failure() -> None:
    calm, result = await play([text("hi")])
    torn, _ = await play(COMPACTING, [text("hi")], run_id="run-2")
    overflow = dataclasses.replace(result, code="context_overflow")
    kinds = [openclaw.result(events, overflow)["meta"]["error"]["kind"] for events in (calm, torn)]
    assert kinds == ["context_overflow", "compaction_failure"]


async def test_a_call_that_waits_for_the_caller_is_pending_in_the_meta() -> None:
    events, result = await play([text("asking")])
    pending = dataclasses.replace(result, code="pending", pending=(PendingCall("toolu_1", "ask", {"q": 1}),))
    told = openclaw.result(events, pending)
    assert told["payloads"] == [{"text": "asking"}]
    assert told["meta"]["stopReason"] == "tool_calls"
    assert told["meta"]["pendingToolCalls"] == [{"id": "toolu_1", "name": "ask", "arguments": '{"q": 1}'}]
