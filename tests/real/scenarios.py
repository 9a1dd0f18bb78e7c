"""The scenarios that are played through the real CLI and the fake one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from claude_agent_sdk import (
    ClaudeSDKClient,
    HookMatcher,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
)
from mcp.server import Server

from toolkit.runs.turn.controls import ask
from toolkit.testing import Status, Turn, text, thinking, tool_use

MODEL = "claude-sonnet-4-5"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
ANSWER = {"type": "json_schema", "schema": SCHEMA}

STARTED: list[asyncio.Event] = []
"""Set, for the latest server, when its tool `wait` runs."""


def notes_server() -> dict[str, Any]:
    """A server below any framework, so that every odd result can be sent exactly as it is."""

    started = asyncio.Event()
    STARTED.append(started)

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        meta = {"anthropic/alwaysLoad": True}
        names = ("add", "fail", "structured", "two", "nothing", "resource", "wait")
        reads = types.ToolAnnotations(read_only_hint=True)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=name,
                    input_schema={"type": "object"},
                    annotations=reads if name == "two" else None,
                    _meta=meta,
                )
                for name in names
            ]
        )

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        said = types.TextContent(type="text", text=f"{params.name} {sorted((params.arguments or {}).items())}")
        match params.name:
            case "fail":
                return types.CallToolResult(content=[said, said], is_error=True)
            case "structured":
                return types.CallToolResult(content=[said], structured_content={"b": "ü", "a": [1, 2]})
            case "two":
                return types.CallToolResult(content=[said, said])
            case "nothing":
                return types.CallToolResult(content=[])
            case "resource":
                body = types.TextResourceContents(uri="file:///a.txt", text="body", mime_type="text/plain")
                return types.CallToolResult(content=[types.EmbeddedResource(type="resource", resource=body)])
            case "wait":
                started.set()
                await asyncio.sleep(60)
        return types.CallToolResult(content=[said])

    server: Any = Server("notes", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    return {"notes": {"type": "sdk", "name": "notes", "instance": server}}


async def allow(name: str, arguments: dict[str, Any], context: Any) -> PermissionResultAllow:
    return PermissionResultAllow(updated_input={"title": "allowed"})


async def deny(name: str, arguments: dict[str, Any], context: Any) -> PermissionResultDeny:
    return PermissionResultDeny(message="not today")


async def deny_and_interrupt(name: str, arguments: dict[str, Any], context: Any) -> PermissionResultDeny:
    return PermissionResultDeny(message="stop", interrupt=True)


async def broken(name: str, arguments: dict[str, Any], context: Any) -> PermissionResultAllow:
    raise RuntimeError("the callback is broken")


def hooks(event: str, answer: Any, **matcher: Any) -> dict[str, Any]:
    async def hook(data: Any, call_id: Any, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return {event: [HookMatcher(hooks=[hook], **matcher)]}


def once(event: str, answer: dict[str, Any]) -> dict[str, Any]:
    """A hook that objects the first time it is asked in a run."""
    asked: list[str] = []

    async def hook(data: Any, call_id: Any, context: Any) -> Any:
        asked.append(data["session_id"])
        return answer if asked.count(data["session_id"]) == 1 else {}

    return {event: [HookMatcher(hooks=[hook])]}


def decision(kind: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": kind, **more}}


def replaced(also: Mapping[str, Any] = {}, **by: Any) -> dict[str, Any]:
    """A hook that replaces what a tool gave."""
    return hooks("PostToolUse", {**also, "hookSpecificOutput": {"hookEventName": "PostToolUse", **by}})


async def _no_more(client: ClaudeSDKClient) -> list[Message]:
    return [message async for message in client.receive_response()]


async def interrupt_when_heard(client: ClaudeSDKClient) -> list[Message]:
    """Interrupt after the first block, then go on with a second prompt."""
    heard: list[Message] = []
    await client.query("go")
    async for message in client.receive_messages():
        heard.append(message)
        if type(message).__name__ == "AssistantMessage":
            await client.interrupt()
        if isinstance(message, ResultMessage):
            break
    await client.query("again")
    return heard + await _no_more(client)


async def interrupt_when_running(client: ClaudeSDKClient) -> list[Message]:
    """Interrupt when the message has ended and its tool runs, then go on with a second prompt."""
    heard: list[Message] = []
    await client.query("go")
    async for message in client.receive_messages():
        heard.append(message)
        if isinstance(message, StreamEvent) and message.event["type"] == "message_stop":
            await asyncio.wait_for(STARTED[-1].wait(), 60)
            await client.interrupt()
        if isinstance(message, ResultMessage):
            break
    await client.query("again")
    return heard + await _no_more(client)


async def change_everything(client: ClaudeSDKClient) -> list[Message]:
    """Two prompts in one process with the controls used between them."""
    await client.query("one")
    heard = await _no_more(client)
    assert [server["name"] for server in (await client.get_mcp_status())["mcpServers"]] == ["notes"]
    await client.set_model("claude-haiku-4-5")
    await client.set_permission_mode("plan")
    await client.query("two")
    return heard + await _no_more(client)


async def two_prompts(client: ClaudeSDKClient) -> list[Message]:
    await client.query("one")
    heard = await _no_more(client)
    await client.query("two")
    return heard + await _no_more(client)


async def _answers(client: ClaudeSDKClient, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    """What the CLI answers to control requests."""
    told: list[dict[str, Any]] = []
    for request in requests:
        try:
            told.append({"asked": request, "answer": await ask(client, request)})
        except Exception as error:
            told.append({"asked": request, "error": str(error)})
    return told


async def think_less(client: ClaudeSDKClient) -> list[Any]:
    """Set the tokens for thinking before every prompt."""
    heard: list[Any] = []
    for tokens in (2000, 0, 7, 10**6, None):
        heard += await _answers(client, {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens})
        await client.query("go")
        heard += await _no_more(client)
    return heard


async def set_every_mode(client: ClaudeSDKClient) -> list[Any]:
    await client.query("one")
    heard: list[Any] = await _no_more(client)
    modes = ("plan", "default", "dontAsk", "auto", "bypassPermissions", "acceptEdits", "delegate")
    heard += await _answers(client, *({"subtype": "set_permission_mode", "mode": mode} for mode in modes))
    await client.query("two")
    return heard + await _no_more(client)


async def take_the_servers_away(client: ClaudeSDKClient) -> list[Any]:
    """The servers that are not listed go, and come back when they are."""
    notes = {"notes": {"type": "sdk", "name": "notes"}}
    await client.query("one")
    heard: list[Any] = await _no_more(client)
    heard += await _answers(client, _servers({}), {"subtype": "mcp_status"})
    await client.query("two")
    heard += await _no_more(client)
    heard += await _answers(client, _servers(notes), _servers(notes))
    await client.query("three")
    return heard + await _no_more(client)


def _servers(servers: Mapping[str, Any]) -> dict[str, Any]:
    return {"subtype": "mcp_set_servers", "servers": dict(servers)}


async def rewind(client: ClaudeSDKClient) -> list[Any]:
    """Go back to a prompt that was sent with an id, and to one that was not sent."""
    known, unknown = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"

    async def frames() -> AsyncIterator[dict[str, Any]]:
        message = {"role": "user", "content": "one"}
        yield {"type": "user", "uuid": known, "message": message, "parent_tool_use_id": None, "session_id": ""}

    requests = [
        {"subtype": "rewind_files", "user_message_id": message, "dry_run": dry_run}
        for message in (known, unknown)
        for dry_run in (True, False)
    ]
    heard: list[Any] = await _answers(client, *requests)
    await client.query(frames())
    heard += await _no_more(client)
    return heard + await _answers(client, *requests)


@dataclass(frozen=True)
class Scenario:
    turns: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    conversation: Callable[[ClaudeSDKClient], Any] | None = None
    stand_ins: dict[str, Any] = field(default_factory=dict)
    """What the fake CLI has for the CLI's own tools."""


def _call(name: str = "add", **arguments: Any) -> dict[str, Any]:
    return tool_use(f"mcp__notes__{name}", **(arguments or {"title": "hi"}))


_ADD = [text("filing"), _call()]
_ASK = {"permission_mode": "default"}
_LONG = "prompt is too long: 250000 tokens > 200000 maximum"
_BIG = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"
_WIDE = "messages.0.content.1: At least one of the image dimensions exceed max allowed size: 8000 pixels"


def _refused(*blocks: dict[str, Any]) -> Turn:
    return Turn(blocks or [text("no")], stop_reason="refusal")


def _cut(*blocks: dict[str, Any]) -> Turn:
    return Turn(blocks or [text("and so")], stop_reason="max_tokens")


_KEEPS_BACK: dict[str, Any] = {
    "stops": {"continue_": False, "stopReason": "enough"},
    "stops without a reason": {"continue_": False},
    "stops and blocks": {"continue_": False, "decision": "block", "reason": "no"},
    "blocks without a reason": {"decision": "block"},
    "blocks, and the prompt is not repeated": {
        "decision": "block",
        "reason": "no",
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": True},
    },
    "fails": RuntimeError("broken"),
    "says nothing": None,
    "says what cannot be read": "yes",
    "misspells a decision": {"decision": "blok"},
    "is about another event": {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "more"}},
    "allows": {"decision": "approve"},
}
_AT_THE_END: dict[str, Any] = {
    "stops": {"continue_": False},
    "stops and objects": {"continue_": False, "decision": "block", "reason": "more"},
    "fails": RuntimeError("broken"),
    "misspells a decision": {"decision": "blok"},
}

SCENARIOS: dict[str, Scenario] = {
    "text and thinking": Scenario([[thinking("hm"), text("hello"), text("again")]]),
    "a streamed tool call": Scenario([Turn(_ADD, chunk=3), [text("done")]], {"include_partial_messages": True}),
    "every shape of result": Scenario(
        [[_call(n) for n in ("add", "fail", "structured", "two", "two", "nothing", "resource")], [text("done")]]
    ),
    "a tool that is not there": Scenario([[_call("gone")], [text("done")]]),
    "usage": Scenario(
        [
            Turn([_call()], usage={"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 40}),
            Turn([text("done")], usage={"input_tokens": 30, "output_tokens": 2, "cache_creation_input_tokens": 9}),
        ]
    ),
    "approval": Scenario([_ADD, [text("done")]], {**_ASK, "can_use_tool": allow}),
    "refusal": Scenario([_ADD, [text("done")]], {**_ASK, "can_use_tool": deny}),
    "refusal that interrupts": Scenario([_ADD], {**_ASK, "can_use_tool": deny_and_interrupt}),
    "approval that fails": Scenario([_ADD, [text("done")]], {**_ASK, "can_use_tool": broken}),
    "nobody to ask": Scenario([_ADD, [text("done")]], _ASK),
    "never asks": Scenario([_ADD, [text("done")]], {"permission_mode": "dontAsk"}),
    "allowed by rule": Scenario([_ADD, [text("done")]], {**_ASK, "allowed_tools": ["mcp__notes"]}),
    "disallowed by rule": Scenario([_ADD, [text("done")]], {"disallowed_tools": ["mcp__notes__add"]}),
    "hook denies": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PreToolUse", decision("deny", permissionDecisionReason="no"))}
    ),
    "one hook denies and one allows": Scenario(
        [_ADD, [text("done")]],
        {
            "hooks": {
                "PreToolUse": [
                    *hooks("PreToolUse", decision("deny", permissionDecisionReason="no"))["PreToolUse"],
                    *hooks("PreToolUse", decision("allow"))["PreToolUse"],
                ]
            }
        },
    ),
    "hook blocks the old way": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PreToolUse", {"decision": "block", "reason": "no"})}
    ),
    "hook approves the old way": Scenario(
        [_ADD, [text("done")]],
        {"permission_mode": "dontAsk", "hooks": hooks("PreToolUse", {"decision": "approve", "reason": "fine"})},
    ),
    "one hook blocks the old way and one approves": Scenario(
        [_ADD, [text("done")]],
        {
            "hooks": {
                "PreToolUse": [
                    *hooks("PreToolUse", {"decision": "block", "reason": "no"})["PreToolUse"],
                    *hooks("PreToolUse", {"decision": "approve"})["PreToolUse"],
                ]
            }
        },
    ),
    "hook wants a person": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PreToolUse", decision("ask", permissionDecisionReason="sure?"))}
    ),
    "hook rewrites": Scenario(
        [_ADD, [text("done")]],
        {**_ASK, "hooks": hooks("PreToolUse", decision("allow", updatedInput={"title": "hook"}))},
    ),
    "hook stops": Scenario(
        [_ADD], {"hooks": hooks("PreToolUse", {"continue_": False, **decision("deny", permissionDecisionReason="no")})}
    ),
    "hook stops without a decision": Scenario([_ADD], {"hooks": hooks("PreToolUse", {"continue_": False})}),
    "hook fails": Scenario([_ADD, [text("done")]], {"hooks": hooks("PreToolUse", RuntimeError("broken"))}),
    "hook fails closed": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PreToolUse", RuntimeError("broken"), on_failure="block")}
    ),
    "hook for another tool": Scenario(
        [_ADD, [text("done")]],
        {"hooks": hooks("PreToolUse", decision("deny", permissionDecisionReason="no"), matcher="Bash|Write")},
    ),
    **{
        f"hook with the matcher {matcher!r}": Scenario(
            [_ADD, [text("done")]],
            {"hooks": hooks("PreToolUse", decision("deny", permissionDecisionReason="no"), matcher=matcher)},
        )
        for matcher in ("Bash, mcp__notes__add", "mcp__notes", "mcp__notes__.*", "(")
    },
    "hook before the prompt with a matcher": Scenario(
        [], {"hooks": hooks("UserPromptSubmit", {"decision": "block", "reason": "no"}, matcher="Bash")}
    ),
    "hook stops afterwards": Scenario([_ADD], {"hooks": hooks("PostToolUse", {"continue_": False})}),
    "hook replaces a result": Scenario([_ADD, [text("done")]], {"hooks": replaced(updatedMCPToolOutput="other")}),
    "hook replaces a result by blocks": Scenario(
        [_ADD, [text("done")]], {"hooks": replaced(updatedToolOutput=[{"type": "text", "text": "other"}])}
    ),
    "hook replaces a result by nothing": Scenario([_ADD, [text("done")]], {"hooks": replaced(updatedToolOutput="")}),
    "hook replaces a structured result": Scenario(
        [[_call("structured")], [text("done")]], {"hooks": replaced(updatedToolOutput="other")}
    ),
    "hook replaces a result and objects": Scenario(
        [_ADD, [text("done")]],
        {"hooks": replaced({"decision": "block", "reason": "no"}, updatedToolOutput="other", updatedMCPToolOutput="x")},
    ),
    "hook wants more": Scenario(
        [[text("one")], [text("two")]], {"hooks": once("Stop", {"decision": "block", "reason": "more"})}
    ),
    **{
        f"hook before the prompt {what}": Scenario(
            [[text("done")]] * (what == "allows"), {"hooks": hooks("UserPromptSubmit", answer, on_failure="block")}
        )
        for what, answer in _KEEPS_BACK.items()
    },
    "hook before the prompt fails, and that counts for nothing": Scenario(
        [[text("done")]], {"hooks": hooks("UserPromptSubmit", RuntimeError("broken"))}
    ),
    "two hooks before the prompt, the first one decides": Scenario(
        [],
        {
            "hooks": {
                "UserPromptSubmit": [
                    *hooks("UserPromptSubmit", {"continue_": False})["UserPromptSubmit"],
                    *hooks("UserPromptSubmit", {"decision": "block", "reason": "no"})["UserPromptSubmit"],
                ]
            }
        },
    ),
    **{
        f"hook at the end {what}": Scenario([[text("done")]], {"hooks": hooks("Stop", answer, on_failure="block")})
        for what, answer in _AT_THE_END.items()
    },
    "hook at the end stops before there is an output": Scenario(
        [[text("done")]], {"hooks": hooks("Stop", {"continue_": False}), "output_format": ANSWER}
    ),
    "hook before the prompt stops the first of two": Scenario(
        [[text("done")]], {"hooks": once("UserPromptSubmit", {"continue_": False})}, two_prompts
    ),
    "hook misspells a decision afterwards": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PostToolUse", {"decision": "blok"}, on_failure="block")}
    ),
    "hook before a tool is about another event": Scenario(
        [_ADD, [text("done")]],
        {"hooks": hooks("PreToolUse", {"hookSpecificOutput": {"hookEventName": "Stop"}}, on_failure="block")},
    ),
    "hook before a tool misspells what it permits": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PreToolUse", decision("alow"), on_failure="block")}
    ),
    "prompt blocked": Scenario([], {"hooks": hooks("UserPromptSubmit", {"decision": "block", "reason": "no"})}),
    "turn limit": Scenario([_ADD], {"max_turns": 1}),
    "budget": Scenario([Turn(_ADD, usage={"input_tokens": 10**6, "output_tokens": 10**5})], {"max_budget_usd": 0.01}),
    "structured output": Scenario([[tool_use("StructuredOutput", answer=3)]], {"output_format": ANSWER}),
    "structured output missing": Scenario([[text("no")], [text("still no")]], {"output_format": ANSWER}),
    "structured output wrong": Scenario([[tool_use("StructuredOutput", answer="x")]] * 5, {"output_format": ANSWER}),
    "throttled": Scenario([Status(429, message="slow down")]),
    "overloaded": Scenario([Status(529)]),
    "bad request": Scenario([Status(400)]),
    "forbidden": Scenario([Status(403)]),
    "no such model": Scenario([Status(404)]),
    "server error": Scenario([Status(500)]),
    "no key": Scenario([Status(401)]),
    "too large": Scenario([Status(413)]),
    "interrupted while it speaks": Scenario(
        [Turn([text("hello"), text("never")], stall_after=1), [text("second")]], conversation=interrupt_when_heard
    ),
    "interrupted while it streams": Scenario(
        [Turn([text("hello"), text("never")], stall_after=1), [text("second")]],
        {"include_partial_messages": True},
        interrupt_when_heard,
    ),
    "interrupted while a tool runs": Scenario(
        [[_call("wait")], [text("second")]], {"include_partial_messages": True}, interrupt_when_running
    ),
    "no such session": Scenario([], {"resume": "00000000-0000-4000-8000-000000000000"}),
    "controls": Scenario([_ADD, [text("one")], [text("two")]], conversation=change_everything),
    "a refusal": Scenario([_refused(), [text("instead")]], {"include_partial_messages": True}),
    "two refusals": Scenario([_refused(), _ADD, _refused()], {"include_partial_messages": True}),
    "two refusals by a model nobody knows": Scenario([_refused(), _refused()], {"model": "claude-scripted-1"}),
    "a refusal in each of two prompts": Scenario(
        [_refused(), [text("one")], _refused(thinking("hm")), [text("two")]], conversation=two_prompts
    ),
    "a refusal in the middle of tools": Scenario([_refused(text("a"), _call(), _call()), [text("instead")]]),
    "a refusal while somebody would be asked": Scenario(
        [_refused(_call()), [text("instead")]], {**_ASK, "can_use_tool": allow}
    ),
    "cut off": Scenario([_cut(), _cut(thinking("hm")), [text("done")]], {"include_partial_messages": True}),
    "cut off too often": Scenario([_cut(), _cut(), _ADD, _cut(), _cut(), _cut(), _cut()]),
    "cut off after a tool call": Scenario([_cut(*_ADD), [text("done")]]),
    "cut off within a turn limit": Scenario([_cut(), _cut(), _ADD], {"max_turns": 1}),
    "cut off over budget": Scenario(
        [Turn([text("x")], stop_reason="max_tokens", usage={"input_tokens": 10**6})], {"max_budget_usd": 0.01}
    ),
    "cut off without output": Scenario([_cut(), [tool_use("StructuredOutput", answer=3)]], {"output_format": ANSWER}),
    "stop reasons that end it": Scenario(
        [Turn([text("one")], stop_reason="pause_turn"), Turn([text("two")], stop_reason="stop_sequence")],
        conversation=two_prompts,
    ),
    "prompt too long": Scenario([Status(400, message=_LONG)]),
    "prompt too long by nobody knows how much": Scenario([Status(400, message="prompt is too long")]),
    "image too large": Scenario([Status(400, message=_BIG)]),
    "image too wide": Scenario([Status(400, message=_WIDE)]),
    "hook defers": Scenario([_ADD], {"hooks": hooks("PreToolUse", decision("defer"))}),
    "hook defers one of two": Scenario(
        [[_call(), _call("fail")]], {"hooks": hooks("PreToolUse", decision("defer"), matcher="mcp__notes__add")}
    ),
    "hook defers two": Scenario(
        [[_call("two"), _call("two")]],
        {"include_partial_messages": True, "hooks": hooks("PreToolUse", decision("defer"))},
    ),
    "hook defers, then a prompt": Scenario(
        [_ADD, [text("done")]], {"hooks": hooks("PreToolUse", decision("defer"))}, two_prompts
    ),
    "one hook defers and one allows": Scenario(
        [_ADD],
        {
            "hooks": {
                "PreToolUse": [
                    *hooks("PreToolUse", decision("allow"))["PreToolUse"],
                    *hooks("PreToolUse", decision("defer"))["PreToolUse"],
                    *hooks("PreToolUse", decision("ask"))["PreToolUse"],
                ]
            }
        },
    ),
    "hook defers and stops": Scenario(
        [_ADD], {"hooks": hooks("PreToolUse", {"continue_": False, **decision("defer")})}
    ),
    "no tools of the CLI's own": Scenario(
        [[tool_use("Bash", command="true"), _call()], [text("done")]], {"tools": []}, stand_ins={"Bash": ""}
    ),
    "some tools of the CLI's own": Scenario(
        [[tool_use("Write", file_path="x", content="y"), tool_use("Edit", file_path="x")], [text("done")]],
        {"tools": ["Read", "Bash", "Nope"]},
        stand_ins={"Read": "", "Write": "", "Bash": ""},
    ),
    "a tool of the CLI's own that is disallowed": Scenario(
        [[tool_use("Write", file_path="x", content="y")], [text("done")]], {"disallowed_tools": ["Write"]}
    ),
    "tokens for thinking": Scenario([[text("done")]] * 5, conversation=think_less),
    "every permission mode": Scenario([[text("one")], _ADD, [text("two")]], conversation=set_every_mode),
    "servers come and go": Scenario(
        [[text("one")], _ADD, [text("two")], _ADD, [text("three")]], conversation=take_the_servers_away
    ),
    "rewind": Scenario([[text("one")]], {"enable_file_checkpointing": True}, rewind),
    "rewind without checkpoints": Scenario([[text("one")]], conversation=rewind),
}
