"""A Toolbox as an in-process server for the Claude Agent SDK.

The SDK's bridge carries requests and results only: a tool's progress and log
messages do not reach the CLI this way, and nothing here pretends they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit_servers.build import build_server

if TYPE_CHECKING:
    from claude_agent_sdk import McpSdkServerConfig

    from toolkit.tools import Toolbox


def in_process_config(box: Toolbox) -> McpSdkServerConfig:
    """The entry for `ClaudeAgentOptions(mcp_servers={box.name: …})`."""
    return {"type": "sdk", "name": box.name, "instance": build_server(box, notifies=False)}
