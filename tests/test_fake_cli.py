"""The fake CLI speaks the whole control protocol with the SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    ResultError,
    ResultMessage,
    SystemMessage,
    ToolPermissionContext,
    UserMessage,
    query,
    tool,
)
from mcp_types import ToolAnnotations

from tests.fake_notes import ADD, DONE, messages, notes, response
from toolkit.testing import FakeCLI, text, tool_use


async def test_a_tool_is_called_and_the_model_reads_its_result(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli(ADD, DONE)
    heard = await messages(cli, mcp_servers=notes())

    assert cli.tool_results() == ["added 'hi'"]
    assert [type(message).__name__ for message in heard] == [
        "SystemMessage",
        "AssistantMessage",
        "AssistantMessage",
        "UserMessage",
        "AssistantMessage",
        "ResultMessage",
    ]
    assert heard[-1].result == "done"
    assert cli.requests[0].prompt == "go"
    assert "mcp__notes__add" in cli.tools()


async def test_a_server_may_have_two_underscores_in_front(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli([tool_use("mcp____lace-tools__add", {"title": "hi"})], DONE)
    await messages(cli, mcp_servers={"__lace-tools": notes()["notes"]})
    assert cli.tool_results() == ["added 'hi'"]


async def test_a_prompt_goes_in_the_order_of_the_protocol(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli(ADD, DONE)
    await messages(cli, mcp_servers=notes())

    wrote = [frame["request"]["subtype"] if "request" in frame else frame["type"] for frame in cli.received]
    methods = [
        frame["request"]["message"]["method"]
        for frame in cli.sent
        if frame["type"] == "control_request" and frame["request"]["subtype"] == "mcp_message"
    ]
    assert [kind for kind in wrote if kind != "control_response"] == ["initialize", "user"]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert cli.sent[-1]["state"] == "idle"


async def test_it_is_a_plain_transport_for_the_sdk() -> None:
    options = ClaudeAgentOptions(mcp_servers=notes(), permission_mode="bypassPermissions")
    for given in (options, None):  # without options it learns of a server from the names of its tools
        with FakeCLI(ADD, [tool_use("mcp__nobody__add")], DONE, options=given) as cli:
            heard = [message async for message in query(prompt="go", options=options, transport=cli)]
        assert isinstance(heard[-1], ResultMessage)
        assert cli.tool_results()[0] == "added 'hi'"
        assert "No such tool available: mcp__nobody__add" in cli.tool_results()[1]


async def test_hooks_and_the_permission_callback_get_what_the_cli_sends(fake_cli: Callable[..., FakeCLI]) -> None:
    seen: dict[str, Any] = {}

    async def hook(data: Any, call_id: str | None, context: Any) -> Any:
        seen[data["hook_event_name"]] = (data, call_id)
        return {}

    async def permit(name: str, arguments: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        seen["permission"] = (name, arguments, context)
        return PermissionResultAllow(updated_input={"title": "ho"})

    events: Any = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop")
    hooks: Any = {event: [HookMatcher(hooks=[hook])] for event in events}
    cli = fake_cli(ADD, DONE)
    async with (
        asyncio.timeout(60),
        cli.client(mcp_servers=notes(), hooks=hooks, can_use_tool=permit, permission_mode="default") as client,
    ):
        await client.query("go")
        heard = await response(client)

    assert cli.tool_results() == ["added 'ho'"]
    assert set(seen) == {"UserPromptSubmit", "PreToolUse", "permission", "PostToolUse", "Stop"}
    assert seen["UserPromptSubmit"][0]["prompt"] == "go"
    assert seen["PreToolUse"][0]["tool_input"] == {"title": "hi"}
    assert seen["PreToolUse"][1] == "toolu_1"
    assert {"session_id", "transcript_path", "cwd", "permission_mode"} <= set(seen["PreToolUse"][0])
    assert seen["PostToolUse"][0]["tool_response"] == [text("added 'ho'")]
    assert seen["Stop"][0]["last_assistant_message"] == "done"
    assert seen["permission"][:2] == ("mcp__notes__add", {"title": "hi"})
    assert seen["permission"][2].tool_use_id == "toolu_1"
    assert heard[-1].permission_denials == []


async def test_a_failing_tool_fires_its_own_hook(fake_cli: Callable[..., FakeCLI]) -> None:
    fired: list[str] = []

    async def hook(data: Any, call_id: str | None, context: Any) -> Any:
        fired.append(f"{data['hook_event_name']}: {data.get('error')}")
        return {}

    @tool("boom", "Fail", {})
    async def boom(arguments: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("bad luck")

    hooks: Any = {event: [HookMatcher(hooks=[hook])] for event in ("PostToolUse", "PostToolUseFailure")}
    cli = fake_cli([tool_use("mcp__notes__boom")], DONE)
    await messages(cli, mcp_servers=notes(boom), hooks=hooks)

    assert fired == ["PostToolUseFailure: bad luck"]
    assert cli.tool_result_blocks()[0]["is_error"] is True


async def test_an_interrupt_takes_a_pending_approval_back(fake_cli: Callable[..., FakeCLI]) -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def never(name: str, arguments: dict[str, Any], context: Any) -> PermissionResultAllow:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return PermissionResultAllow()

    cli = fake_cli(ADD)
    async with (
        asyncio.timeout(60),
        cli.client(mcp_servers=notes(), can_use_tool=never, permission_mode="default") as client,
    ):
        await client.query("go")
        await asked.wait()
        await client.interrupt()
        heard = await response(client)
        await cancelled.wait()

    assert heard[-1].subtype == "error_during_execution"
    assert heard[-1].terminal_reason == "aborted_tools"
    assert "control_cancel_request" in [frame["type"] for frame in cli.sent]


async def test_an_interrupt_tells_the_tool_that_runs(fake_cli: Callable[..., FakeCLI]) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @tool("wait", "Wait", {})
    async def wait(arguments: dict[str, Any]) -> dict[str, Any]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    cli = fake_cli([tool_use("mcp__notes__wait")], DONE)
    async with asyncio.timeout(60), cli.client(mcp_servers=notes(wait)) as client:
        await client.query("go")
        await started.wait()
        await client.interrupt()
        await cancelled.wait()
        first = await response(client)
        await client.query("again")
        second = await response(client)

    assert first[-1].terminal_reason == "aborted_tools"
    assert second[-1].result == "done"
    assert second[-1].session_id == first[-1].session_id


async def test_the_controls_of_a_session_work(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli([text("one")], [text("two")], answers={"get_context_usage": {"totalTokens": 7}})
    echoing = {"replay-user-messages": None}
    async with (
        asyncio.timeout(60),
        cli.client(mcp_servers=notes(), enable_file_checkpointing=True, extra_args=echoing) as client,
    ):
        info = await client.get_server_info()
        assert info is not None
        assert info["current_permission_mode"] == "bypassPermissions"
        assert (await client.get_mcp_status())["mcpServers"] == []
        await client.query("one")
        first = await response(client)
        echo = next(message for message in first if isinstance(message, UserMessage))
        assert echo.content == "one"
        assert echo.uuid is not None
        await client.rewind_files(echo.uuid)
        with pytest.raises(Exception, match="No file checkpoint"):
            await client.rewind_files("no such message")
        assert (await client.get_mcp_status())["mcpServers"][0]["tools"][0]["name"] == "add"
        await client.set_model("claude-next")
        await client.set_permission_mode("plan")
        mode: Any = "delegate"
        with pytest.raises(Exception, match="must be one of acceptEdits"):
            await client.set_permission_mode(mode)
        usage: Any = await client.get_context_usage()
        assert usage == {"totalTokens": 7}
        with pytest.raises(Exception, match="Unsupported control request subtype: stop_task"):
            await client.stop_task("t1")
        await client.query("two")
        second = await response(client)

    opening = next(m for m in second if isinstance(m, SystemMessage) and m.subtype == "init")
    assert (opening.data["model"], opening.data["permissionMode"]) == ("claude-next", "plan")
    assert [request["model"] for request in cli.requests] == ["claude-scripted-1", "claude-next"]


async def test_keep_alives_and_unknown_frames_change_nothing(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli(
        {"type": "keep_alive"},
        ADD,
        {"type": "tool_progress", "tool_use_id": "toolu_1", "elapsed_time_seconds": 3},
        {"type": "made_up_tomorrow", "x": 1},
        DONE,
        {"type": "auth_status", "isAuthenticating": False},
    )
    heard = await messages(cli, mcp_servers=notes())

    assert [type(message).__name__ for message in heard].count("AssistantMessage") == 3
    assert heard[-1].result == "done"
    assert {"keep_alive", "tool_progress", "made_up_tomorrow", "auth_status"} <= {f["type"] for f in cli.sent}
    assert not any(frame["type"] == "keep_alive" for frame in cli.received)


async def test_a_step_can_talk_to_the_sdk_by_hand(fake_cli: Callable[..., FakeCLI]) -> None:
    answers: list[Any] = []

    async def ask_for_nonsense(cli: FakeCLI) -> None:
        answers.append(await cli.ask({"subtype": "made_up"}))

    async def ask_and_take_back(cli: FakeCLI) -> None:
        pending = asyncio.ensure_future(cli.ask({"subtype": "hook_callback", "callback_id": "hook_0", "input": {}}))
        await asyncio.sleep(0)
        pending.cancel()
        await asyncio.wait([pending])

    async def hook(data: Any, call_id: Any, context: Any) -> Any:
        if not data:
            await asyncio.Event().wait()
        return {}

    hooks: Any = {"Stop": [HookMatcher(hooks=[hook])]}
    cli = fake_cli(ask_for_nonsense, ask_and_take_back, DONE)
    heard = await messages(cli, hooks=hooks)

    assert answers[0]["subtype"] == "error"
    assert "made_up" in answers[0]["error"]
    assert heard[-1].result == "done"


async def test_a_session_can_be_resumed_and_forked_and_a_missing_one_is_an_error() -> None:
    cli = FakeCLI([text("one")], [text("two")], [text("three")])
    first = (await messages(cli, "first"))[-1].session_id
    second = (await messages(cli, "second", resume=first))[-1].session_id
    forked = (await messages(cli, "third", resume=first, fork_session=True))[-1].session_id

    assert second == first != forked
    assert [len(request["messages"]) for request in cli.requests] == [1, 3, 5]
    with pytest.raises(ResultError, match="No conversation found"):
        await messages(cli, "fourth", resume="lost")


async def test_tools_that_only_read_run_side_by_side_and_others_one_after_the_other(
    fake_cli: Callable[..., FakeCLI],
) -> None:
    running: list[str] = []
    most: dict[str, int] = {"look": 0, "touch": 0}
    together = asyncio.Event()

    async def work(name: str) -> dict[str, Any]:
        running.append(name)
        most[name] = max(most[name], len(running))
        if name == "look" and len(running) == 3:
            together.set()
        if name == "look":
            await together.wait()
        await asyncio.sleep(0)
        running.remove(name)
        return {"content": [text(name)]}

    @tool("look", "Look", {}, annotations=ToolAnnotations(read_only_hint=True))
    async def look(arguments: dict[str, Any]) -> dict[str, Any]:
        return await work("look")

    @tool("touch", "Touch", {})
    async def touch(arguments: dict[str, Any]) -> dict[str, Any]:
        return await work("touch")

    calls = [tool_use(f"mcp__notes__{name}") for name in ("look", "look", "look", "touch", "touch")]
    cli = fake_cli(calls, DONE)
    await messages(cli, mcp_servers=notes(look, touch))
    assert most == {"look": 3, "touch": 1}
    assert cli.tool_results() == ["look"] * 3 + ["touch"] * 2


def _answers_to(request_id: str, cli: FakeCLI) -> list[Any]:
    responses = [frame["response"] for frame in cli.sent if frame["type"] == "control_response"]
    return [response for response in responses if response["request_id"] == request_id]


async def test_the_host_can_send_a_message_to_its_own_server(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli(strict=False)
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}
    request = {"subtype": "mcp_message", "server_name": "notes", "message": message}
    async with asyncio.timeout(60), cli.client(mcp_servers=notes()):
        await cli.write(json.dumps({"type": "control_request", "request_id": "mine", "request": request}) + "\n")
        while not (answers := _answers_to("mine", cli)):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert answers[0]["response"]["mcp_response"]["result"]["tools"][0]["name"] == "add"


async def test_built_in_tools_exist_as_the_stand_ins_the_test_gives(fake_cli: Callable[..., FakeCLI]) -> None:
    def read(arguments: dict[str, Any]) -> str:
        raise FileNotFoundError(arguments["file_path"])

    cli = fake_cli(
        [tool_use("Bash", command="ls"), tool_use("Read", file_path="x"), tool_use("Write")],
        DONE,
        tools={"Bash": "a.txt", "Read": read},
    )
    await messages(cli)
    nope = "<tool_use_error>Error: No such tool available: Write</tool_use_error>"
    assert cli.tool_results() == ["a.txt", "x", nope]
