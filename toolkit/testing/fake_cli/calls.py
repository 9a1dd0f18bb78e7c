"""One tool call of the fake CLI, from the model's wish to what the model reads.

Hooks first, then permission, then the tool itself (an in-process MCP tool, one
of the stand-ins the test gave, or structured output), then the hooks for its
end: in the order, and with the words, of the real CLI.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.testing.fake_cli import frames
from toolkit.testing.fake_cli.channel import Channel
from toolkit.testing.fake_cli.frames import Frame
from toolkit.testing.fake_cli.host import Hooks, Servers
from toolkit.testing.fake_cli.settings import Settings, names_tool

StandIn = str | Callable[[dict[str, Any]], Any]

STRUCTURED = "StructuredOutput"
_READS = frozenset({"Glob", "Grep", "Read", "ToolSearch", STRUCTURED})
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
class Call:
    """A tool call and how far it has come."""

    id: str
    name: str
    input: dict[str, Any]
    stage: str = "waiting"
    """waiting, asking (for permission), running, done."""
    block: Frame | None = None
    """The `tool_result` block."""
    shown: Any = None
    """The result as the host gets it beside the block."""
    denied: bool = False
    stops: bool = False
    """A hook ends the run after this call."""
    structured: Any = None

    def refuse(self, reason: str, *, shown: str | None = None, denied: bool = True) -> None:
        """End the call without the tool having run."""
        self._fail(reason, shown or f"Error: {reason}")
        self.denied = denied

    def fail(self, content: str, shown: str | None = None) -> None:
        """End the call with an error."""
        self._fail(content, shown or f"Error: {content}")

    def _fail(self, content: str, shown: str) -> None:
        self.block = {"type": "tool_result", "content": content, "is_error": True, "tool_use_id": self.id}
        self.shown = shown
        self.stage = "done"

    def succeed(self, content: Any, shown: Any) -> None:
        """End the call with a result."""
        self.block = {"tool_use_id": self.id, "type": "tool_result", "content": content}
        self.shown = shown
        self.stage = "done"


@dataclass(slots=True)
class Caller:
    """Runs tool calls for one connection."""

    channel: Channel
    settings: Settings
    hooks: Hooks
    servers: Servers
    stand_ins: Mapping[str, StandIn]
    session: str

    def offered(self) -> dict[str, Frame]:
        """The tools the model may call, by name."""
        tools: dict[str, Frame] = {name: {"name": name} for name in self.stand_ins}
        if self.settings.schema is not None:
            tools[STRUCTURED] = {"name": STRUCTURED, "inputSchema": dict(self.settings.schema)}
        tools |= self.servers.known()
        banned = self.settings.disallowed
        return {name: tool for name, tool in tools.items() if not any(names_tool(rule, name) for rule in banned)}

    def reads_only(self, call: Call) -> bool:
        """Whether the call may run beside others."""
        annotations = self.offered().get(call.name, {}).get("annotations") or {}
        return bool(annotations.get("readOnlyHint"))

    async def run(self, call: Call) -> None:
        """Carry a call through to its result."""
        if not self.settings.knows_servers and call.name.startswith("mcp__") and call.name.count("__") > 1:
            server = call.name.split("__")[1]
            if await self.servers.connect(server):
                await self.servers.tools_of(server)
        if call.name not in self.offered():
            words = f"No such tool available: {call.name}"
            call.refuse(f"<tool_use_error>Error: {words}</tool_use_error>", shown=f"Error: {words}", denied=False)
            return
        if not await self._may_run(call):
            return
        call.stage = "running"
        failure = await self._execute(call)
        details = {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}
        if failure is None:
            event, more = "PostToolUse", {"tool_response": call.shown}
        else:
            event, more = "PostToolUseFailure", {"error": failure, "is_interrupt": False}
        answer = await self.hooks.run(event, {**details, **more}, tool=call.name, call_id=call.id)
        call.stops = call.stops or answer.get("continue") is False

    async def _may_run(self, call: Call) -> bool:
        details = {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}
        answer = await self.hooks.run("PreToolUse", details, tool=call.name, call_id=call.id)
        special = answer.get("hookSpecificOutput", {})
        decision = special.get("permissionDecision")
        call.stops = answer.get("continue") is False
        # A stop alone refuses nothing: the CLI runs the tool and ends the run after it.
        if decision == "deny" or answer.get("decision") == "block":
            reason = special.get("permissionDecisionReason") or answer.get("reason") or ""
            call.refuse(f"PreToolUse:{call.name} hook error: {reason}")
            return False
        call.input = dict(special.get("updatedInput") or call.input)
        if decision == "allow" or (decision != "ask" and self._is_allowed(call.name)):
            return True
        return await self._ask(call, special.get("permissionDecisionReason") if decision == "ask" else None)

    def _is_allowed(self, name: str) -> bool:
        rules = self.settings.allowed
        return self.settings.mode == "bypassPermissions" or name in _READS or any(names_tool(r, name) for r in rules)

    async def _ask(self, call: Call, why: str | None) -> bool:
        if self.settings.mode == "dontAsk" or not self.settings.asks:
            never = self.settings.mode == "dontAsk"
            reason = (
                f"Permission to use {call.name}{_NEVER_ASKS}"
                if never
                else why or f"Claude requested permissions to use {call.name}, but you haven't granted it yet."
            )
            frame = {"type": "system", "subtype": "permission_denied", "tool_name": call.name, "tool_use_id": call.id}
            self.channel.emit(frames.stamped({**frame, "message": reason}, self.session))
            call.refuse(reason)
            return False
        call.stage = "asking"
        self._state("requires_action")
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
        self._state("running")
        given = answer.get("response") or {}
        if answer["subtype"] == "success" and given.get("behavior") == "allow":
            call.input = dict(given.get("updatedInput") or call.input)
            return True
        if given.get("interrupt"):
            call.refuse(frames.REJECTED, shown="User rejected tool use")
            call.stage = "interrupted"
        elif answer["subtype"] == "error":
            call.refuse(f"Tool permission request failed: Error: {answer.get('error')}")
        else:
            call.refuse(str(given.get("message")))
        return False

    async def _execute(self, call: Call) -> str | None:
        """Run the tool and note its result; returns the error text if it failed."""
        if call.name == STRUCTURED and self.settings.schema is not None:
            return self._structured(call)
        if call.name in self.stand_ins:
            return await self._stand_in(call)
        _, server, tool = call.name.split("__", 2)
        answer = await self.servers.call(server, tool, call.input, call.id)
        if "error" in answer:
            message = f"MCP error {answer['error'].get('code', '')}: {answer['error'].get('message', '')}"
            call.fail(message)
            return message
        result = answer["result"]
        content = [_for_the_model(item, server) for item in result.get("content", ())]
        if result.get("isError"):
            message = "\n".join(item["text"] for item in content if item["type"] == "text")
            call.fail(message)
            return message
        structured = result.get("structuredContent")
        if structured is not None:
            shown = frames.compact(structured)
            call.succeed(shown, {"content": shown, "structuredContent": structured})
        else:
            call.succeed(content or f"({call.name} completed with no output)", content)
        return None

    async def _stand_in(self, call: Call) -> str | None:
        stand_in = self.stand_ins[call.name]
        try:
            value = stand_in(call.input) if callable(stand_in) else stand_in
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            call.fail(str(error))
            return str(error)
        call.succeed(value, value)
        return None

    def _structured(self, call: Call) -> str | None:
        from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

        errors = list(Draft202012Validator(dict(self.settings.schema or {})).iter_errors(call.input))
        if errors:
            message = "Output does not match required schema: " + ", ".join(map(_schema_error, errors))
            call.fail(message)
            return message
        call.structured = call.input
        call.succeed("Structured output provided successfully", "Structured output provided successfully")
        return None

    def _state(self, name: str) -> None:
        self.channel.emit(frames.stamped(frames.state(name), self.session))


def _for_the_model(item: Mapping[str, Any], server: str) -> Frame:
    """One piece of MCP content as the CLI shows it to the model."""
    match item.get("type"):
        case "image":
            source = {"type": "base64", "media_type": item.get("mimeType"), "data": item.get("data")}
            return {"type": "image", "source": source}
        case "resource":
            resource = item.get("resource", {})
            return {
                "type": "text",
                "text": f"[Resource from {server} at {resource.get('uri')}] {resource.get('text', '')}",
            }
        case "resource_link":
            return {"type": "text", "text": f"[Resource link: {item.get('name')}] {item.get('uri')}"}
        case "audio":
            return {"type": "text", "text": f"[Audio from {server}] Binary content ({item.get('mimeType')})"}
        case _:
            return {"type": "text", "text": str(item.get("text", ""))}


def _schema_error(error: Any) -> str:
    place = "/" + "/".join(map(str, error.absolute_path)) if error.absolute_path else "root"
    if error.validator == "type":
        return f"{place}: must be {error.validator_value}"
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in error.instance), "")
        return f"{place}: must have required property '{missing}'"
    return f"{place}: {error.message}"
