"""What the fake CLI's host brought along: its options, its hooks and its in-process MCP servers.

The options are read as the SDK would have put them on a command line. Hooks and
servers are asked over the control protocol: a hook callback by its id, an MCP
message by the name of its server. What comes back is passed on as it is; only a
hook that fails is turned into the decision the real CLI makes of it.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from toolkit.testing.fake_cli import _frames
from toolkit.testing.fake_cli._channel import Channel
from toolkit.testing.fake_cli._frames import Frame

MODEL = "claude-scripted-1"
_CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
_WEIGHTS = {"deny": 4, "defer": 3, "ask": 2, "allow": 1}
"""What a hook can decide of a call; of several the heaviest counts."""
_NOT_STARTED = "the fake CLI starts no server"
_NEVER_BLOCKS = ("Stop", "SubagentStop")
"""The events at which a hook that fails does not count as a block, whatever it was told."""
_OLD_NAMES = {"Task": "Agent"}
_OLD_WORDS = {"approve": "allow", "block": "deny"}
_BYPASS = "allow-dangerously-skip-permissions"
MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")


class Settings:
    """How the CLI was started; `mode` and `model` can change while it runs. Without options: a plain default CLI."""

    def __init__(self, options: ClaudeAgentOptions | None) -> None:
        self.given = given = options or ClaudeAgentOptions(permission_mode="bypassPermissions")
        """The host's options, for all that is used as it was given."""
        self.knows_servers = options is not None
        """False where nobody said which servers there are: then a tool's name tells."""
        self.cwd = str(given.cwd or Path.cwd())
        self.model = given.model or MODEL
        self.mode: str = given.permission_mode or given.extra_args.get("permission-mode") or "default"
        self.servers: dict[str, Any] = dict(given.mcp_servers) if isinstance(given.mcp_servers, dict) else {}
        self.later: set[str] = set()
        """The servers that were set while it runs."""
        self.thinking_tokens = given.max_thinking_tokens
        self.asks = given.can_use_tool is not None or given.permission_prompt_tool_name == "stdio"
        """Somebody answers `can_use_tool`."""
        self.may_bypass = self.mode == "bypassPermissions" or _BYPASS in given.extra_args
        self.partial = given.include_partial_messages
        self.echo = "replay-user-messages" in given.extra_args
        self.schema: Mapping[str, Any] | None = (given.output_format or {}).get("schema")
        self.resume = given.resume
        self.checkpoints = given.enable_file_checkpointing or _CHECKPOINTS in given.env

    @property
    def may_ask(self) -> bool:
        """Whether the mode lets somebody be asked, and there is somebody."""
        return self.asks and self.mode != "dontAsk"

    @property
    def sdk_servers(self) -> list[str]:
        """The servers that run in the host's process."""
        return [name for name, config in self.servers.items() if config.get("type") == "sdk"]

    def offers(self, native: str) -> bool:
        """Whether a tool of the CLI's own is among those that the host wants to offer."""
        return not isinstance(self.given.tools, list) or native in self.given.tools


@dataclass(slots=True)
class Hooks:
    """The host's hooks, as it registered them with `initialize`."""

    channel: Channel
    registered: Mapping[str, Any] = field(default_factory=dict)
    common: Mapping[str, Any] = field(default_factory=dict)
    """What every one of them is told."""

    async def run(self, event: str, details: Mapping[str, Any]) -> Frame:
        """Call every hook for an event and return their answers as one: a refusal or a stop outweighs the rest."""
        answers, remarks = await self.answers(event, details)
        for remark in remarks:
            self.channel.say(remark)
        return merged(answers)

    async def answers(self, event: str, details: Mapping[str, Any]) -> tuple[list[Frame], list[Frame]]:
        """Call every hook for an event: their answers, and what the CLI remarks of those that failed."""
        answers: list[Frame] = []
        remarks: list[Frame] = []
        for entry in self.registered.get(event) or ():
            if _matches(entry.get("matcher"), details.get("tool_name")):
                for callback_id in entry["hookCallbackIds"]:
                    answer, remark = await self._call(callback_id, event, details, entry.get("onFailure"))
                    answers.append(answer)
                    remarks += [] if remark is None else [remark]
        return answers, remarks

    def has(self, event: str, tool: str) -> bool:
        """Whether a hook would be called."""
        return any(_matches(entry.get("matcher"), tool) for entry in self.registered.get(event) or ())

    async def _call(
        self, callback_id: str, event: str, details: Mapping[str, Any], on_failure: str | None
    ) -> tuple[Frame, Frame | None]:
        request = {
            "subtype": "hook_callback",
            "callback_id": callback_id,
            "input": {**self.common, "hook_event_name": event, **details},
            "tool_use_id": details.get("tool_use_id") or _frames.new_id(),
        }
        answer = await self.channel.ask(request)
        if answer["subtype"] == "success" and _is_readable(answer.get("response") or {}, event):
            return _decided(answer.get("response") or {}, event), None
        failed = f"Hook callback {callback_id} failed: the SDK host replied with an error or an invalid answer."
        blocks = on_failure not in (None, "continue") and event not in _NEVER_BLOCKS
        counts = 'onFailure is "block", so this failure counts as a block.'
        outcome = counts if blocks else "Its answer was treated as empty."
        remark = _frames.informational(f"{event}: {failed} {outcome}", tag="hook_callback_failed")
        if not blocks:
            return {}, remark
        reason = f'[callback]: failed; blocking because onFailure is "block"\n{failed}'
        if event == "UserPromptSubmit":
            return {"decision": "block", "reason": reason, "failed": True}, remark
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": reason}}, remark


def _decided(answer: Mapping[str, Any], event: str) -> Frame:
    """The answer, with what it decides of a call the old way said the new way."""
    old = _OLD_WORDS.get(str(answer.get("decision"))) if event == "PreToolUse" else None
    if old is None:
        return dict(answer)
    reason = {"permissionDecisionReason": answer["reason"]} if "reason" in answer else {}
    given = answer.get("hookSpecificOutput", {})
    return {**answer, "hookSpecificOutput": {"permissionDecision": old, **reason, **given}}


def _is_readable(answer: Mapping[str, Any], event: str) -> bool:
    """Whether the CLI takes an answer of a hook; otherwise the hook counts as failed."""
    special = answer.get("hookSpecificOutput", {"hookEventName": event})
    return (
        answer.get("decision") in (None, "approve", "block")
        and answer.get("continue") in (None, True, False)
        and all(isinstance(answer.get(key, ""), str) for key in ("reason", "stopReason"))
        and isinstance(special, Mapping)
        and special.get("hookEventName") == event
        and special.get("permissionDecision") in (None, *_WEIGHTS)
    )


def _matches(matcher: str | None, tool: str | None) -> bool:
    """Whether a hook matcher is meant for this tool: by names with bars or commas between, or by a pattern.

    Where there is no tool, as at a prompt, every one is.
    """
    if tool is None or not matcher or matcher == "*":
        return True
    names = [tool, *(old for old, new in _OLD_NAMES.items() if new == tool)]
    if re.fullmatch(r"[A-Za-z0-9_|, -]+", matcher):
        return any(name.strip() in names for name in re.split("[|,]", matcher))
    try:
        return any(re.search(matcher, name) for name in names)
    except re.error:
        return False


def merged(answers: Iterable[Frame]) -> Frame:
    """The answers of several hooks as one."""
    return functools.reduce(_merged, answers, {})


def _merged(one: Frame, other: Frame) -> Frame:
    first, second = one.get("hookSpecificOutput", {}), other.get("hookSpecificOutput", {})
    if _WEIGHTS.get(first.get("permissionDecision"), 0) > _WEIGHTS.get(second.get("permissionDecision"), 0):
        first, second = second, first
    stops = {"continue": False} if False in (one.get("continue"), other.get("continue")) else {}
    return {**one, **other, "hookSpecificOutput": {**first, **second}, **stops}


class Servers:
    """The host's in-process MCP servers, each connected when it is first needed."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers: dict[str, int] = {}
        self._info: dict[str, Frame] = {}
        self._tools: dict[str, list[Frame]] = {}
        self._failed: dict[str, Frame] = {}
        """Those set while it runs that it would have to start, each with its configuration."""
        self.gone: set[str] = set()
        """The tools of servers that were removed."""

    async def connect(self, name: str) -> bool:
        """Shake hands with a server; False if the host has none of that name."""
        if name in self._info:
            return True
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "claude-code", "version": "2.1.325"},
        }
        answer = await self._send(name, "initialize", params)
        if "result" not in answer:
            return False
        self._info[name] = answer["result"].get("serverInfo", {})
        await self._deliver(name, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return True

    async def list_tools(self, name: str) -> None:
        """Learn the tools of a server; one that the host does not have, has none."""
        if name not in self._tools:
            answer = await self._send(name, "tools/list") if await self.connect(name) else {}
            self._tools[name] = list(answer.get("result", {}).get("tools", ()))

    async def set(self, settings: Settings, wanted: Mapping[str, Frame]) -> Frame:
        """Have these servers and no others; which came, which went, which could not be started."""
        removed = [name for name in settings.servers if name not in wanted]
        added = [name for name in wanted if name not in settings.servers]
        added += [name for name, config in self._failed.items() if wanted.get(name, config) != config]
        for name in removed:
            del settings.servers[name]
            self._info.pop(name, None)
            self.gone |= {f"mcp__{name}__{tool['name']}" for tool in self._tools.pop(name, ())}
        settings.servers.update({name: wanted[name] for name in added})
        settings.later.update(added)
        for name in set(added) & set(settings.sdk_servers):
            await self.list_tools(name)
        self.gone -= self.known().keys()
        started = {name: wanted[name] for name in added if name not in settings.sdk_servers}
        self._failed = {name: config for name, config in self._failed.items() if name in wanted} | started
        return {"added": added, "removed": removed, "errors": dict.fromkeys(started, _NOT_STARTED)}

    def known(self) -> dict[str, Frame]:
        """Every tool listed so far, by the name the model uses."""
        return {f"mcp__{name}__{tool['name']}": tool for name, tools in self._tools.items() for tool in tools}

    def status(self) -> list[Frame]:
        """What `mcp_status` tells of the servers."""
        failed = {"status": "failed", "error": _NOT_STARTED, "scope": "dynamic", "source": "dynamic"}
        return [{"name": name, **failed, "config": config} for name, config in self._failed.items()] + [
            {
                "name": name,
                "status": "connected",
                "serverInfo": self._info[name],
                "transport": "sdk",
                "scope": "dynamic",
                "source": "sdk",
                "tools": [{"name": tool["name"], "annotations": tool.get("annotations", {})} for tool in tools],
            }
            for name, tools in self._tools.items()
            if name in self._info
        ]

    async def call(self, name: str, tool: str, arguments: Mapping[str, Any], call_id: str) -> Frame:
        """Call a tool; returns its JSON-RPC answer. Cancelled while it waits, it tells the server."""
        number = self._numbers.get(name, 0)
        meta = {"claudecode/toolUseId": call_id, "progressToken": number}
        try:
            return await self._send(name, "tools/call", {"name": tool, "arguments": dict(arguments), "_meta": meta})
        except asyncio.CancelledError:
            cancelled = {"requestId": number, "reason": "AbortError: remote-cancel"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
            request = {"subtype": "mcp_message", "server_name": name, "message": message}
            self._channel.emit({"type": "control_request", "request_id": _frames.new_id(), "request": request})
            raise

    async def _send(self, name: str, method: str, params: Mapping[str, Any] | None = None) -> Frame:
        number = self._numbers.get(name, 0)
        self._numbers[name] = number + 1
        message: Frame = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = dict(params)
        return await self._deliver(name, message)

    async def _deliver(self, name: str, message: Frame) -> Frame:
        answer = await self._channel.ask({"subtype": "mcp_message", "server_name": name, "message": message})
        if answer["subtype"] != "success":
            return {"error": {"message": str(answer.get("error", ""))}}
        return dict(answer["response"]["mcp_response"])
