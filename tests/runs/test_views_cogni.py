"""Runs in Cogni's words: AiEvents in order, exact usage facts, one GraphFinal."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from tests.runs.play import ADD, COUNT, SOON, call, delegating, play, story
from toolkit.runs import Code, Event, Limits, start
from toolkit.runs.views import cogni, listener
from toolkit.testing import FakeCLI, Status, Turn, text


def fact(id: str, tokens: tuple[int, int, int, int], **more: Any) -> dict[str, Any]:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    return {
        "usageUnitId": id,
        "runId": "run-1",
        "attempt": 0,
        "source": "anthropic_sdk",
        "executorType": "claude_sdk",
        "model": "claude-scripted-1",
        **dict(zip(names, tokens, strict=True)),
        "costUsd": None,
        **more,
    }


async def test_a_run_is_deltas_calls_and_usage_then_final_and_done() -> None:
    events, _ = await story()
    refusal = "PreToolUse:Bash hook error: Bash is not offered in this run"
    assert cogni.view(events) == [
        {"type": "text_delta", "delta": "Filing two."},
        {"type": "tool_call_start", "toolCallId": "toolu_1", "toolName": ADD, "args": {"title": "a"}},
        {"type": "tool_call_start", "toolCallId": "toolu_2", "toolName": ADD, "args": {"title": ""}},
        {"type": "usage_report", "fact": fact("msg_1", (100, 20, 50, 0))},
        {"type": "tool_call_result", "toolCallId": "toolu_1", "result": "added 'a'", "isError": False},
        {"type": "tool_call_result", "toolCallId": "toolu_2", "result": "a note needs a title", "isError": True},
        {"type": "tool_call_start", "toolCallId": "toolu_3", "toolName": COUNT, "args": {}},
        {"type": "tool_call_start", "toolCallId": "toolu_4", "toolName": "Bash", "args": {"command": "id"}},
        {"type": "usage_report", "fact": fact("msg_2", (10, 5, 0, 0))},
        {"type": "tool_call_result", "toolCallId": "toolu_3", "result": "2", "isError": False},
        {"type": "tool_call_result", "toolCallId": "toolu_4", "result": refusal, "isError": True},
        {"type": "text_delta", "delta": "All "},
        {"type": "text_delta", "delta": "done."},
        {"type": "usage_report", "fact": fact("msg_3", (7, 3, 0, 9))},
        {"type": "assistant_final", "content": "All done."},
        {"type": "done"},
    ]


async def test_the_final_has_the_whole_runs_usage() -> None:
    events, _ = await story()
    assert cogni.final(events, request_id="req-1") == {
        "ok": True,
        "runId": "run-1",
        "requestId": "req-1",
        "content": "All done.",
        "usage": {"promptTokens": 176, "completionTokens": 28},
        "finishReason": "end_turn",
    }
    assert cogni.final(events[:-1]) is None


async def test_a_message_of_four_blocks_is_one_usage_report() -> None:
    blocks = [text("a"), text("b"), call("toolu_1", ADD, title="x"), call("toolu_2", ADD, title="y")]
    events, result = await play(Turn(blocks, id="msg_1", usage={"input_tokens": 40, "output_tokens": 8}), [text("c")])
    facts = [event["fact"] for event in cogni.view(events) if event["type"] == "usage_report"]
    assert (len(facts), facts[0]["usageUnitId"]) == (2, "msg_1")
    assert sum(fact["outputTokens"] for fact in facts) == result.total.output


async def test_facts_add_up_to_the_tokens_and_the_cost_of_the_run() -> None:
    events, result = await story()
    facts = cogni.usage_facts(events)
    assert sum(fact["costUsd"] for fact in facts) == pytest.approx(result.cost)
    assert [cogni.idempotency_key(fact) for fact in facts] == [call.key for call in result.calls]
    assert facts[0]["costUsd"] > facts[1]["costUsd"] > 0


async def test_what_no_call_explains_is_a_report_of_its_own() -> None:
    events, _ = await play(Turn([text("hi")], id="msg_1", usage={"input_tokens": 10, "output_tokens": 2}))
    *before, finished = events
    more = {"unattributed": {"input": 30, "output": 4, "cache_read": 0, "cache_write": 0}, "cost": 0.2}
    told = [*before, dataclasses.replace(finished, data={**finished.data, **more})]

    reports = [event["fact"] for event in cogni.view(told) if event["type"] == "usage_report"]
    assert reports == [fact("msg_1", (10, 2, 0, 0)), fact("unattributed-1", (30, 4, 0, 0), model=None)]
    facts = cogni.usage_facts(told)
    assert [cogni.idempotency_key(fact) for fact in facts] == ["run-1/0/msg_1", "run-1/0/unattributed-1"]
    assert sum(fact["costUsd"] for fact in facts) == pytest.approx(0.2)


async def test_a_subagents_words_are_not_the_assistants_and_its_calls_have_a_parent() -> None:
    events, _ = await play(cli=delegating(), native=["Agent"])
    said = cogni.view(events)
    assert [event["delta"] for event in said if event["type"] == "text_delta"] == ["It looked."]
    inner = [event for event in said if event.get("toolCallId") == "toolu_inner"]
    assert [(event["type"], event["parentToolCallId"]) for event in inner] == [
        ("tool_call_start", "toolu_agent"),
        ("tool_call_result", "toolu_agent"),
    ]


async def test_a_message_that_did_not_stream_is_not_lost() -> None:
    events, _ = await play(Turn([text("half")], cut_after=0), Turn([text("whole "), text("answer")], id="msg_2"))
    deltas = [event["delta"] for event in cogni.view(events) if event["type"] == "text_delta"]
    assert deltas == ["whole ", "answer"]


@pytest.mark.parametrize(
    ("steps", "options", "code"),
    [
        ([Status(429)], {}, "rate_limit"),
        ([Status(500)], {}, "internal"),
        ([Turn([call("toolu_1", ADD, title="a")])], {"limits": Limits(turns=1)}, "timeout"),
        ([Turn([text("so far"), text("x")], stall_after=1)], {"limits": Limits(seconds=SOON)}, "timeout"),
        ([Turn([call("t", ADD, title="a")], usage={"output_tokens": 900_000}), [text("x")]], {"limits": Limits(usd=0.01)}, "rate_limit"),
    ],
    ids=["throttled", "api_error", "turn_limit", "deadline", "budget"],
)  # fmt: skip
async def test_a_failed_run_has_an_error_code_and_no_text_of_the_sdks(
    steps: list[Any], options: dict[str, Any], code: str
) -> None:
    events, result = await play(*steps, **options)
    final = cogni.final(events)
    assert final is not None
    assert (final["ok"], final["error"], final["content"]) == (False, code, result.text)
    assert [event["type"] for event in cogni.view(events)][-2:] == ["assistant_final", "done"]
    assert "scripted error" not in str(cogni.view(events)) + str(final)


def test_every_end_that_is_not_ok_has_a_code() -> None:
    codes = {code: cogni.error_of(code) for code in get_args(Code)}
    assert codes.pop("ok") is None
    assert {code for code, alias in codes.items() if alias == "timeout"} == {"deadline", "turn_limit"}
    assert {code for code, alias in codes.items() if alias == "rate_limit"} == {"budget", "throttled"}
    assert set(codes.values()) == {"timeout", "rate_limit", "internal"}


async def test_a_live_run_says_the_same_as_its_events_afterwards() -> None:
    heard: list[dict[str, Any]] = []
    cli = FakeCLI([text("one"), call("toolu_1", ADD, title="a")], [text("two")], strict=False)
    async with start("Go.", transport=cli) as live:
        live.bus.subscribe(listener(cogni.Cogni(), heard.append))
        await live.result()
    events: list[Event] = [event async for event in live]
    assert heard == cogni.view(events)
    assert heard[-1] == {"type": "done"}


async def test_a_handler_that_raises_gets_the_next_one_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def handle(event: dict[str, Any]) -> None:
        heard.append(event["type"])
        if event["type"] == "assistant_final":
            raise ValueError("no")

    async with start("Go.", transport=FakeCLI([text("hi")])) as live:
        live.bus.subscribe(listener(cogni.Cogni(), handle))
        await live.result()
    assert heard == ["text_delta", "usage_report", "assistant_final", "done"]
    assert "a handler failed on lifecycle.finished" in caplog.text
