"""What the servers of a run turn out to offer, asked before the first prompt is sent."""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import ClaudeSDKClient

from toolkit.runs.asking.policy import Policy
from toolkit.runs.boxes import make_offer
from toolkit.runs.kinds import OptionError
from toolkit.runs.spec import RunSpec

_PATIENCE = 30.0
"""Seconds that a server has to tell its tools."""
_POLL = 0.05


async def check_patterns(client: ClaudeSDKClient, spec: RunSpec, policy: Policy) -> None:
    """Look up the policy's patterns about servers, now that these can tell their tools.

    Raises:
        OptionError: one means no tool, or its server does not tell its tools in time.
    """
    offer, patterns = make_offer(spec), policy.patterns()
    wanted = {server for _, pattern in patterns if (server := offer.server_of(pattern)) is not None}
    if not wanted:
        return
    try:
        async with asyncio.timeout(_PATIENCE):
            servers = await _connected(client, wanted)
    except TimeoutError:
        what = (
            f"policy: the server {', '.join(sorted(wanted))} does not tell its tools, so no rule about them would hold"
        )
        raise OptionError("policy", what, fix="Find out why it does not start, or leave out what is about it") from None
    # One that failed has no tools; the CLI's greeting tells of it.
    tools = {name: [tool["name"] for tool in one["tools"]] for name, one in servers.items() if "tools" in one}
    offer.check_connected(patterns, tools)


async def _connected(client: ClaudeSDKClient, wanted: set[str]) -> dict[str, Any]:
    """The status of every server, once none of these is being connected any more."""
    while True:
        servers: dict[str, Any] = {one["name"]: one for one in (await client.get_mcp_status())["mcpServers"]}
        if not any(servers.get(name, {}).get("status") == "pending" for name in wanted):
            return servers
        await asyncio.sleep(_POLL)  # the CLI does not say when
