"""What the CLI says of one model call, and which of its numbers can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ResultError,
    ResultMessage,
    StreamEvent,
    UserMessage,
    create_sdk_mcp_server,
    tool,
)

from tests.real.scenarios import notes_server
from toolkit.testing import RealCLI, ScriptedAPI, Turn, text, thinking, tool_use

MODEL = "claude-sonnet-4-5"
Start = Callable[..., ScriptedAPI]


async def run(cli: RealCLI, **options: Any) -> list[Any]:
    return [message async for message in cli.query("go", model=MODEL, **options)]


async def test_one_call_is_one_message_per_block_and_only_the_stream_has_its_output_tokens(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    usage = {"input_tokens": 100, "output_tokens": 77, "cache_read_input_tokens": 40}
    scripted_api(Turn([thinking("hm"), text("one"), text("two")], id="msg_x", usage=usage))
    heard = await run(real_cli, include_partial_messages=True)

    blocks = [message for message in heard if isinstance(message, AssistantMessage)]
    assert [len(message.content) for message in blocks] == [1, 1, 1]
    assert {message.message_id for message in blocks} == {"msg_x"}
    assert [(message.usage or {})["input_tokens"] for message in blocks] == [100, 100, 100]
    assert {(message.usage or {})["output_tokens"] for message in blocks} == {1}
    events = [message.event for message in heard if isinstance(message, StreamEvent)]
    started = next(event for event in events if event["type"] == "message_start")
    ended = next(event for event in events if event["type"] == "message_delta")
    assert started["message"]["id"] == "msg_x"
    assert ended["usage"]["output_tokens"] == 77
    assert heard[-1].usage["output_tokens"] == 77


async def test_the_results_usage_is_per_prompt_but_model_usage_and_cost_add_up_over_the_process(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api([text("one")], [text("two")])
    results = []
    async with real_cli.client(model=MODEL) as client:
        for prompt in ("one", "two"):
            await client.query(prompt)
            results += [m async for m in client.receive_response() if isinstance(m, ResultMessage)]

    first, second = results
    assert first.usage is not None
    assert second.usage is not None
    assert first.model_usage is not None
    assert second.model_usage is not None
    assert (first.usage["input_tokens"], second.usage["input_tokens"]) == (10, 10)
    assert (first.model_usage[MODEL]["inputTokens"], second.model_usage[MODEL]["inputTokens"]) == (10, 20)
    assert second.total_cost_usd == 2 * (first.total_cost_usd or 0)


async def test_a_subagents_calls_are_missing_from_usage_and_from_the_stream_but_not_from_model_usage(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    helper = {"description": "help", "prompt": "HELPER PROMPT", "subagent_type": "general-purpose"}
    api = scripted_api(
        Turn([text("the helper's answer")], id="msg_helper", when=lambda request: request.prompt == "HELPER PROMPT"),
        [tool_use("Agent", helper, run_in_background=False)],
        [text("done")],
    )
    heard = await run(real_cli, include_partial_messages=True)

    result = heard[-1]
    assert len(api.requests) == 3
    assert result.usage["input_tokens"] == 20
    assert sum(used["inputTokens"] for used in result.model_usage.values()) == 30
    starts = [
        m.event["message"]["id"] for m in heard if isinstance(m, StreamEvent) and m.event["type"] == "message_start"
    ]
    assert "msg_helper" not in starts
    assert len(starts) == 2
    assert "the helper's answer" in str(api.tool_results()[-1])


async def test_a_tool_has_run_before_the_message_that_asked_for_it_has_ended(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    order: list[str] = []

    @tool("note", "Note", {})
    async def note(arguments: dict[str, Any]) -> dict[str, Any]:
        order.append("tool")
        return {"content": [text("noted")]}

    slow = Turn([tool_use("mcp__n__note"), text("a long text " * 20)], pace=0.05)
    scripted_api(slow, [text("done")])
    servers = {"n": create_sdk_mcp_server("n", tools=[note])}
    async for message in real_cli.query("go", include_partial_messages=True, mcp_servers=servers):
        if isinstance(message, StreamEvent) and message.event["type"] == "message_stop":
            order.append("message ended")
    assert order[:2] == ["tool", "message ended"]


async def test_a_budget_that_is_used_up_leaves_zeros_in_usage_but_not_in_model_usage(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api(Turn([tool_use("Bash", command="true")], usage={"input_tokens": 10**6}), [text("never")], strict=False)
    heard: list[Any] = []

    async def listen() -> None:
        async for message in real_cli.query("go", model=MODEL, max_budget_usd=0.01):
            heard.append(message)

    with pytest.raises(ResultError, match="maximum budget"):
        await listen()
    assert heard[-1].subtype == "error_max_budget_usd"
    assert heard[-1].usage["input_tokens"] == 0
    assert heard[-1].model_usage[MODEL]["inputTokens"] == 10**6


async def test_text_next_to_structured_content_is_dropped(scripted_api: Start, real_cli: RealCLI) -> None:
    api = scripted_api([tool_use("mcp__notes__structured")], [text("done")])
    heard = await run(real_cli, mcp_servers=notes_server())
    assert api.tool_results() == ['{"b":"ü","a":[1,2]}']
    assert "structured []" not in str(heard)
    results = [message for message in heard if isinstance(message, UserMessage)]
    assert len(results) == 1
