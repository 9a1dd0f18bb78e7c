"""The scenarios that are played through the real CLI and the fake one, and how two runs are compared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import mcp_types as types
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookMatcher,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
)
from mcp.server import Server

from toolkit.testing import FakeCLI, RealCLI, Status, Turn, record, text, thinking, tool_use

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


def hooks(event: str, answer: dict[str, Any] | Exception, **matcher: Any) -> dict[str, Any]:
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
            await asyncio.wait_for(STARTED[-1].wait(), 20)
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


@dataclass(frozen=True)
class Scenario:
    turns: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    conversation: Callable[[ClaudeSDKClient], Any] | None = None


def _call(name: str = "add", **arguments: Any) -> dict[str, Any]:
    return tool_use(f"mcp__notes__{name}", **(arguments or {"title": "hi"}))


_ADD = [text("filing"), _call()]
_ASK = {"permission_mode": "default"}

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
    "hook stops afterwards": Scenario([_ADD], {"hooks": hooks("PostToolUse", {"continue_": False})}),
    "hook wants more": Scenario(
        [[text("one")], [text("two")]], {"hooks": once("Stop", {"decision": "block", "reason": "more"})}
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
}


class Recorded:
    """A real CLI whose one run is written to a cassette."""

    def __init__(self, cli: RealCLI, path: Path) -> None:
        self._cli = cli
        self._path = path
        self._stack = ExitStack()

    def query(self, prompt: Any, **options: Any) -> AsyncIterator[Message]:
        return self._cli.query(prompt, self._recording(options))

    def client(self, **options: Any) -> AbstractAsyncContextManager[ClaudeSDKClient]:
        return self._cli.client(self._recording(options))

    def _recording(self, options: dict[str, Any]) -> ClaudeAgentOptions:
        return self._stack.enter_context(record(self._path, self._cli.options(**options)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


async def play(scenario: Scenario, cli: RealCLI | FakeCLI | Recorded) -> list[dict[str, Any]]:
    """Play a scenario and return what the SDK's user saw, made comparable."""
    options = {"mcp_servers": notes_server(), "model": MODEL, **scenario.options}
    heard: list[Message] = []
    error: ClaudeSDKError | None = None
    try:
        if scenario.conversation is None:
            async for message in cli.query(_prompt(options), **options):
                heard.append(message)
        else:
            async with cli.client(**options) as client:
                heard.extend(await scenario.conversation(client))
    except ClaudeSDKError as raised:
        error = raised
    seen = [entry for message in heard if (entry := _comparable(message)) is not None]
    return [*_renamed(seen), {"raised": type(error).__name__ if error else None}]


def _prompt(options: dict[str, Any]) -> Any:
    """The SDK wants a stream of prompts where a callback is asked for permission."""

    async def stream() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

    return stream() if "can_use_tool" in options else "go"


_TIMES_AND_IDS = {"uuid", "session_id", "duration_ms", "duration_api_ms", "total_cost_usd", "timestamp"}
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MODEL_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
# Estimates and hints for a person at a terminal; the fake CLI has neither.
_ONLY_REAL = {"thinking_tokens", "notification"}


def _comparable(message: Message) -> dict[str, Any] | None:
    seen = {key: value for key, value in asdict(message).items() if key not in _TIMES_AND_IDS}
    seen["kind"] = type(message).__name__
    if seen["kind"] == "SystemMessage":
        return _system(seen)
    if seen.get("usage"):
        seen["usage"] = {name: seen["usage"].get(name, 0) for name in _COUNTS}
    if seen.get("model_usage") is not None:
        used = seen["model_usage"].items()
        seen["model_usage"] = {model: [counts[name] for name in _MODEL_COUNTS] for model, counts in used}
    event = seen.get("event")
    if event and event["type"] == "message_delta":
        event["usage"] = {"output_tokens": event["usage"]["output_tokens"]}
    for name in ("errors", "result", "content"):
        if seen.get(name):
            seen[name] = re.sub(r"127\.0\.0\.1:\d+", "HOST", repr(seen[name]))
    return seen


def _system(seen: dict[str, Any]) -> dict[str, Any] | None:
    data = seen["data"]
    if data["subtype"] in _ONLY_REAL:
        return None
    kept = ("subtype", "permissionMode", "model", "mcp_servers", "status", "content", "tag", "tool_name", "message")
    told = {name: data[name] for name in kept if name in data}
    if data["subtype"] == "init":
        told["tools"] = [name for name in data["tools"] if name.startswith("mcp__")]
    return {"kind": "SystemMessage", **told}


def _renamed(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace made-up ids by their number in the run."""
    names: dict[str, str] = {}

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            pattern = r"(toolu_scripted|msg_scripted)_\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
            return re.sub(pattern, lambda found: names.setdefault(found[0], f"{found[1]}#{len(names)}"), value)
        if isinstance(value, list):
            return [rename(item) for item in value]
        if isinstance(value, dict):
            return {key: rename(item) for key, item in value.items()}
        return value

    return [rename(entry) for entry in seen]
