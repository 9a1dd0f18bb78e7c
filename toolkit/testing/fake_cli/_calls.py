"""One tool call of the fake CLI, from the model's wish to what the model reads.

Hooks first, then permission, then the tool itself (an in-process MCP tool, one
of the stand-ins the test gave, or structured output), then the hooks for its
end: in the order, and with the words, of the real CLI.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.testing.fake_cli import _frames
from toolkit.testing.fake_cli._channel import Channel
from toolkit.testing.fake_cli._frames import Frame
from toolkit.testing.fake_cli._host import Hooks, Servers, Settings

StandIn = str | Callable[[dict[str, Any]], Any]

STRUCTURED = "StructuredOutput"
_SERVER_AND_TOOL = re.compile(r"mcp__((?:__)?.+?)__(.+)")
_READS = frozenset({"Glob", "Grep", "Read", "ToolSearch", STRUCTURED})
_FILES = frozenset({"Edit", "Glob", "Grep", "NotebookEdit", "Read", "Write"})
_NATIVE = _FILES | {"Agent", "Bash", "KillShell", "Monitor", "Skill", "Task", "TodoWrite", "WebFetch", "WebSearch"}
"""The CLI's own tools, as far as it says of one that it is switched off."""
_NEVER_ASKS = (
    " has been denied because Claude Code is running in don't ask mode. IMPORTANT: You *may* attempt to accomplish "
    "this action using other tools that might naturally be used to accomplish this goal, e.g. using head instead of "
    "cat. But you *should not* attempt to work around this denial in malicious ways, e.g. do not use your ability to "
    "run tests to execute non-test actions. You should only try to work around this restriction in reasonable ways "
    "that do not attempt to bypass the intent behind this denial. If you believe this capability is essential to "
    "complete the user's request, STOP and explain to the user what you were trying to do and why you need this "
    "permission. Let the user decide how to proceed."
)


@dataclass(slots=True)
class ToolCall:
    """A tool call and how far it has come."""

    id: str
    name: str
    input: dict[str, Any]
    stage: str = "waiting"
    """waiting, asking (for permission), running, done, deferred, or interrupted (by who was asked)."""
    block: Frame | None = None
    """The `tool_result` block."""
    for_host: Any = None
    """The result as the host gets it beside the block."""
    error: str | None = None
    """What the model reads, if the tool failed or did not run."""
    denied: bool = False
    stops: bool = False
    """A hook ends the run after this call."""
    structured: Any = None
    told: bool = False
    """The host has been told of the result."""

    def fail(self, error: str, *, for_host: str | None = None, denied: bool = False) -> None:
        """End the call with an error; `denied` if it was not allowed to run."""
        self.block = {"type": "tool_result", "content": error, "is_error": True, "tool_use_id": self.id}
        self.for_host = for_host or f"Error: {error}"
        self.error = error
        self.denied = denied
        self.stage = "done"

    def succeed(self, content: Any, for_host: Any) -> None:
        """End the call with a result."""
        self.block = {"tool_use_id": self.id, "type": "tool_result", "content": content}
        self.for_host = for_host
        self.stage = "done"


@dataclass(slots=True)
class Caller:
    """Runs tool calls for one connection."""

    channel: Channel
    settings: Settings
    hooks: Hooks
    servers: Servers
    stand_ins: Mapping[str, StandIn]

    def offered(self) -> dict[str, Frame]:
        """The tools the model may call, by name."""
        tools: dict[str, Frame] = {name: {"name": name} for name in self.stand_ins if self.settings.offers(name)}
        if self.settings.schema is not None:
            tools[STRUCTURED] = {"name": STRUCTURED, "inputSchema": dict(self.settings.schema)}
        tools |= self.servers.known()
        banned = self.settings.given.disallowed_tools
        return {name: tool for name, tool in tools.items() if not any(_names_tool(rule, name) for rule in banned)}

    def reads_only(self, call: ToolCall) -> bool:
        """Whether the call may run beside others."""
        annotations = self.offered().get(call.name, {}).get("annotations") or {}
        return bool(annotations.get("readOnlyHint"))

    async def run(self, call: ToolCall) -> None:
        """Carry a call through to its result."""
        if call.block is not None:
            return
        if not self.settings.knows_servers and (parts := _SERVER_AND_TOOL.fullmatch(call.name)):
            await self.servers.list_tools(parts[1])
        if call.name not in self.offered():
            self._lack(call)
            return
        if not await self._may_run(call):
            return
        call.stage = "running"
        await self._execute(call)
        if call.error is None:
            answer = await self._hook("PostToolUse", call, tool_response=call.for_host)
            _replace_result(call, answer.get("hookSpecificOutput", {}))
        else:
            answer = await self._hook("PostToolUseFailure", call, error=call.error, is_interrupt=False)
        call.stops = call.stops or answer.get("continue") is False

    def refuses_at_once(self, call: ToolCall, *, only_if_missing: bool = False) -> bool:
        """Refuse a call for which nobody has to be asked: there is no such tool, or no way to be allowed it."""
        if not self.settings.knows_servers:
            return False
        if call.name not in self.offered():
            self._lack(call)
        elif only_if_missing:
            return False
        elif not self.settings.may_ask and not self.is_allowed(call) and not self.hooks.has("PreToolUse", call.name):
            self._deny(call, None)
        return call.block is not None

    def _lack(self, call: ToolCall) -> None:
        words = f"Error: No such tool available: {call.name}{self._why_not(call.name)}"
        call.fail(f"<tool_use_error>{words}</tool_use_error>", for_host=words)

    def _why_not(self, name: str) -> str:
        """What the CLI adds where it knows why there is no such tool."""
        if name in self.servers.gone:
            return ". No MCP server in this session provides it; continue without this tool."
        is_off = not self.settings.offers(name) or name in self.settings.given.disallowed_tools
        if name not in _NATIVE or not is_off:
            return ""
        also = "" if name in ("Glob", "Grep") else ", in subagents as well as here"
        return f". {name} is disabled for this session{also}."

    def is_allowed(self, call: ToolCall) -> bool:
        """Whether the call may run without anybody being asked."""
        if self.settings.mode == "bypassPermissions" or call.name in _READS:
            return True
        return any(_names_tool(rule, call.name) for rule in self.settings.given.allowed_tools)

    async def _hook(self, event: str, call: ToolCall, **more: Any) -> Frame:
        details = {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}
        return await self.hooks.run(event, {**details, **more})

    async def _may_run(self, call: ToolCall) -> bool:
        answer = await self._hook("PreToolUse", call)
        special = answer.get("hookSpecificOutput", {})
        decision = special.get("permissionDecision")
        call.stops = answer.get("continue") is False
        # A stop alone refuses nothing: the CLI runs the tool and ends the run after it.
        if decision == "deny":
            reason = special.get("permissionDecisionReason") or ""
            call.fail(f"PreToolUse:{call.name} hook error: {reason}", denied=True)
            return False
        if decision == "defer":
            call.stage, call.stops = "deferred", False
            return False
        call.input = dict(special.get("updatedInput") or call.input)
        if decision == "allow" or (decision != "ask" and self.is_allowed(call)):
            return True
        # A hook that wants a person gets one also in the mode that asks nobody.
        if not (self.settings.asks if decision == "ask" else self.settings.may_ask):
            self._deny(call, special.get("permissionDecisionReason") if decision == "ask" else None)
            allowed = False
        else:
            allowed = await self._ask(call)
        call.stops = call.stops and allowed
        return allowed

    def _deny(self, call: ToolCall, why: str | None) -> None:
        """Refuse a call that somebody would have to allow, where nobody is asked."""
        never = self.settings.mode == "dontAsk"
        reason = f"Claude requested permissions to use {call.name}, but you haven't granted it yet."
        reason = why or (f"Permission to use {call.name}{_NEVER_ASKS}" if never else reason)
        frame = {"type": "system", "subtype": "permission_denied", "tool_name": call.name, "tool_use_id": call.id}
        self.channel.say({**frame, "message": reason})
        call.fail(reason, denied=True)

    async def _ask(self, call: ToolCall) -> bool:
        call.stage = "asking"
        self.channel.say(_frames.activity("requires_action"))
        rule = {"type": "addRules", "rules": [{"toolName": call.name}], "behavior": "allow"}
        answer = await self.channel.ask(
            {
                "subtype": "can_use_tool",
                "tool_name": call.name,
                "display_name": call.name.rpartition("__")[2].capitalize(),
                "input": call.input,
                "permission_suggestions": [{**rule, "destination": "localSettings"}],
                "tool_use_id": call.id,
            }
        )
        self.channel.say(_frames.activity("running"))
        given = answer.get("response") or {}
        if answer["subtype"] == "success" and given.get("behavior") == "allow":
            call.input = dict(given.get("updatedInput") or call.input)
            return True
        if given.get("interrupt"):
            call.fail(_frames.REJECTED, for_host="User rejected tool use", denied=True)
            call.stage = "interrupted"
        elif answer["subtype"] == "error":
            call.fail(f"Tool permission request failed: Error: {answer.get('error')}", denied=True)
        else:
            call.fail(str(given.get("message")), denied=True)
        return False

    async def _execute(self, call: ToolCall) -> None:
        """Run the tool, as far as its result or its error."""
        if call.name == STRUCTURED and self.settings.schema is not None:
            _take_structured(call, self.settings.schema)
        elif call.name in self.stand_ins:
            await self._stand_in(call)
        else:
            parts = _SERVER_AND_TOOL.fullmatch(call.name)
            assert parts, call.name
            server, tool = parts.groups()
            answer = await self.servers.call(server, tool, call.input, call.id)
            if "error" in answer:
                call.fail(f"MCP error {answer['error'].get('code', '')}: {answer['error'].get('message', '')}")
            else:
                _take_answer(call, server, answer["result"])

    async def _stand_in(self, call: ToolCall) -> None:
        stand_in = self.stand_ins[call.name]
        try:
            value = stand_in(call.input) if callable(stand_in) else stand_in
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            call.fail(str(error))
        else:
            call.succeed(value, value)


def _take_answer(call: ToolCall, server: str, result: Mapping[str, Any]) -> None:
    """End a call with what an MCP server answered."""
    content = [_for_the_model(item, server) for item in result.get("content", ())]
    structured = result.get("structuredContent")
    if result.get("isError"):
        call.fail("\n".join(item["text"] for item in content if item["type"] == "text"))
    elif structured is not None:
        words = _frames.compact(structured)
        call.succeed(words, {"content": words, "structuredContent": structured})
    else:
        call.succeed(content or f"({call.name} completed with no output)", content)


def _replace_result(call: ToolCall, special: Frame) -> None:
    """Have the model read what a hook gave in the place of the result."""
    for_mcp = special.get("updatedMCPToolOutput") if call.name.startswith("mcp__") else None
    if "updatedToolOutput" not in special and not for_mcp:
        return
    value = special.get("updatedToolOutput", for_mcp)
    host = call.for_host
    is_structured = isinstance(host, dict) and "structuredContent" in host
    empty = f"({call.name} completed with no output)"
    call.succeed(empty if value in (None, "") else value, {**host, "content": value} if is_structured else value)


def _take_structured(call: ToolCall, schema: Mapping[str, Any]) -> None:
    """End a call of the StructuredOutput tool."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    if errors := list(Draft202012Validator(dict(schema)).iter_errors(call.input)):
        call.fail("Output does not match required schema: " + ", ".join(map(_schema_error, errors)))
        return
    call.structured = call.input
    call.succeed("Structured output provided successfully", "Structured output provided successfully")


def _names_tool(rule: str, tool: str) -> bool:
    """Whether a permission rule names this tool: itself, its server, or its server with a star."""
    return rule == tool or tool.startswith(rule.removesuffix("*").removesuffix("__") + "__")


def _for_the_model(item: Mapping[str, Any], server: str) -> Frame:
    """One piece of MCP content as the CLI shows it to the model."""
    match item.get("type"):
        case "image":
            source = {"type": "base64", "media_type": item.get("mimeType"), "data": item.get("data")}
            return {"type": "image", "source": source}
        case "resource":
            resource = item.get("resource", {})
            words = f"[Resource from {server} at {resource.get('uri')}] {resource.get('text', '')}"
        case "resource_link":
            words = f"[Resource link: {item.get('name')}] {item.get('uri')}"
        case "audio":
            words = f"[Audio from {server}] Binary content ({item.get('mimeType')})"
        case _:
            words = str(item.get("text", ""))
    return {"type": "text", "text": words}


def _schema_error(error: Any) -> str:
    place = "/" + "/".join(map(str, error.absolute_path)) if error.absolute_path else "root"
    if error.validator == "type":
        return f"{place}: must be {error.validator_value}"
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in error.instance), "")
        return f"{place}: must have required property '{missing}'"
    return f"{place}: {error.message}"
