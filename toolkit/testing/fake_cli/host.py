"""How the fake CLI talks to its host's hooks and in-process MCP servers.

Both are requests over the control protocol: a hook callback by its id, an MCP
message by the name of its server. What comes back is passed on as it is; only a
hook that fails is turned into the decision the real CLI makes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from toolkit.testing.fake_cli import frames
from toolkit.testing.fake_cli.channel import Channel
from toolkit.testing.fake_cli.frames import Frame
from toolkit.testing.fake_cli.settings import matches


class Hooks:
    """The host's hooks, as it registered them with `initialize`."""

    def __init__(self, channel: Channel, registered: Mapping[str, Any] | None, common: Mapping[str, Any]) -> None:
        self._channel = channel
        self._registered = registered or {}
        self._common = common

    async def run(self, event: str, details: Mapping[str, Any], *, tool: str = "", call_id: str | None = None) -> Frame:
        """Call every hook for an event and return their answers as one: a refusal or a stop outweighs the rest."""
        merged: Frame = {}
        for entry in self._registered.get(event) or ():
            if matches(entry.get("matcher"), tool):
                for callback_id in entry["hookCallbackIds"]:
                    merged = _merged(merged, await self._call(callback_id, event, details, entry, call_id))
        return merged

    async def _call(
        self,
        callback_id: str,
        event: str,
        details: Mapping[str, Any],
        entry: Mapping[str, Any],
        call_id: str | None,
    ) -> Frame:
        request = {
            "subtype": "hook_callback",
            "callback_id": callback_id,
            "input": {**self._common, "hook_event_name": event, **details},
            "tool_use_id": call_id or frames.new_id(),
        }
        answer = await self._channel.ask(request)
        if answer["subtype"] == "success":
            return dict(answer.get("response") or {})
        failed = f"Hook callback {callback_id} failed: the SDK host replied with an error or an invalid answer."
        blocks = entry.get("onFailure") is not None and entry["onFailure"] != "continue"
        outcome = (
            'onFailure is "block", so this failure counts as a block.' if blocks else "Its answer was treated as empty."
        )
        self._channel.emit(
            frames.stamped(
                frames.informational(f"{event}: {failed} {outcome}", tag="hook_callback_failed"),
                str(self._common["session_id"]),
            )
        )
        if not blocks:
            return {}
        reason = f'[callback]: failed; blocking because onFailure is "block"\n{failed}'
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": reason}}


def _merged(one: Frame, other: Frame) -> Frame:
    weight = {"deny": 3, "ask": 2, "allow": 1}
    first, second = one.get("hookSpecificOutput", {}), other.get("hookSpecificOutput", {})
    if weight.get(first.get("permissionDecision"), 0) > weight.get(second.get("permissionDecision"), 0):
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
        await self._notify(name, "notifications/initialized")
        return True

    async def tools_of(self, name: str) -> list[Frame]:
        """The tools of a connected server, as it lists them."""
        if name not in self._tools:
            answer = await self._send(name, "tools/list")
            self._tools[name] = list(answer.get("result", {}).get("tools", ()))
        return self._tools[name]

    def known(self) -> dict[str, Frame]:
        """Every tool listed so far, by the name the model uses."""
        return {f"mcp__{name}__{tool['name']}": tool for name, tools in self._tools.items() for tool in tools}

    def status(self) -> list[Frame]:
        """What `mcp_status` tells of the servers."""
        return [
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
            self._channel.emit({"type": "control_request", "request_id": frames.new_id(), "request": request})
            raise

    async def _send(self, name: str, method: str, params: Mapping[str, Any] | None = None) -> Frame:
        number = self._numbers.get(name, 0)
        self._numbers[name] = number + 1
        message: Frame = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = dict(params)
        return await self._deliver(name, message)

    async def _notify(self, name: str, method: str) -> None:
        await self._deliver(name, {"jsonrpc": "2.0", "method": method})

    async def _deliver(self, name: str, message: Frame) -> Frame:
        answer = await self._channel.ask({"subtype": "mcp_message", "server_name": name, "message": message})
        if answer["subtype"] != "success":
            return {"error": {"message": str(answer.get("error", ""))}}
        return dict(answer["response"]["mcp_response"])
