"""Runs in Lace's words: tokens and usage as they come, approval requests that can be answered, one response."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.play import ADD, BOX, COUNT, SOON, call, delegating, play, story
from toolkit.errors import RunError
from toolkit.runs import Limits, load_run, start
from toolkit.runs.views import lace, listener
from toolkit.runs.views.lace import Emitted
from toolkit.testing import FakeCLI, Status, Turn, text


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"usage": {"promptTokens": prompt, "completionTokens": completion, "totalTokens": prompt + completion}}


async def test_a_run_is_tokens_and_growing_usage_then_complete() -> None:
    events, _ = await story()
    response = {
        "content": "Filing two.\n\nAll done.",
        "toolCalls": [
            {"id": "toolu_1", "name": ADD, "arguments": {"title": "a"}},
            {"id": "toolu_2", "name": ADD, "arguments": {"title": ""}},
            {"id": "toolu_3", "name": COUNT, "arguments": {}},
            {"id": "toolu_4", "name": "Bash", "arguments": {"command": "id"}},
        ],
        "stopReason": "stop",
        **usage(176, 28),
    }
    assert lace.view(events) == [
        Emitted("token", {"token": "Filing two."}),
        Emitted("token_usage_update", usage(150, 20)),
        Emitted("token_usage_update", usage(160, 25)),
        Emitted("token", {"token": "All "}),
        Emitted("token", {"token": "done."}),
        Emitted("token_usage_update", usage(176, 28)),
        Emitted("token_usage_update", usage(176, 28)),
        Emitted("complete", {"response": response}),
    ]
    assert lace.response(events) == response
    assert lace.response(events[:-1]) is None


async def test_a_subagents_words_and_calls_are_not_in_the_response() -> None:
    events, _ = await play(cli=delegating(), native=["Agent"])
    response = lace.response(events)
    assert response is not None
    assert (response["content"], [made["id"] for made in response["toolCalls"]]) == ("It looked.", ["toolu_agent"])


async def test_a_message_that_broke_off_and_was_asked_for_again_counts_once() -> None:
    message = {"id": "msg_0", "model": "m", "usage": {"input_tokens": 3}}
    parts: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half of"}},
    ]
    frames = [{"type": "stream_event", "event": part, "session_id": "s", "uuid": "u"} for part in parts]
    events, _ = await play(*frames, Turn([text("Half of it, and the rest.")], id="msg_1"))
    response = lace.response(events)
    assert response is not None
    assert response["content"] == "Half of it, and the rest."


async def test_each_turn_has_a_response_of_its_own() -> None:
    cli = FakeCLI(Turn([text("one")], id="msg_1"), Turn([text("two")], id="msg_2"))
    async with start("Go.", transport=cli) as live:
        await live.result()
        await live.send("Again.")
    events = load_run(live.id).events()
    responses = [said.payload["response"]["content"] for said in lace.view(events) if said.name == "complete"]
    assert responses == ["one", "two"]


@pytest.mark.parametrize(
    ("step", "options", "code", "content"),
    [
        (Status(529), {}, "throttled", ""),
        (Turn([text("so far"), text("never")], stall_after=1), {"limits": Limits(seconds=SOON)}, "deadline", "so far"),
    ],
    ids=["throttled", "deadline"],
)
async def test_a_failed_run_completes_with_an_error_and_what_was_said(
    step: Any, options: dict[str, Any], code: str, content: str
) -> None:
    events, _ = await play(step, **options)
    response = lace.response(events)
    assert response is not None
    assert (response["stopReason"], response["content"]) == ("error", content)
    with pytest.raises(RunError, match=f"^SDK execution failed: {code}$"):
        lace.response(events, throws=True)


@pytest.mark.parametrize(("decision", "result"), [("ALLOW_ONCE", "added 'x'"), ("DENY", None)])
async def test_an_approval_request_is_answered_by_its_resolve(decision: Any, result: str | None) -> None:
    requests: list[dict[str, Any]] = []
    cli = FakeCLI([call("toolu_1", ADD, title="x")], [text("ok")])

    def handle(emitted: Emitted) -> None:
        if emitted.name == "approval_request":
            requests.append(emitted.payload)
            emitted.payload["resolve"](decision)

    async with start("Go.", tools=[BOX], transport=cli, policy={"mcp__notes__*": "ask"}, approve="wait") as live:
        live.bus.subscribe(listener(lace.Lace(live.approvals), handle))
        await live.result()

    [request] = requests
    assert {name: request[name] for name in ("toolName", "input", "isReadOnly")} == {
        "toolName": ADD,
        "input": {"title": "x"},
        "isReadOnly": False,
    }
    assert request["requestId"]
    assert (cli.tool_results() == [result]) is (result is not None)
