"""A Toolbox as an in-process server for the Claude Agent SDK.

The SDK's bridge carries requests and results only: a tool's progress and log
messages do not reach the CLI this way, and nothing here pretends they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolkit_servers.build import build_server

if TYPE_CHECKING:
    from claude_agent_sdk import McpSdkServerConfig

    from toolkit.tools import Toolbox, ToolContext


def in_process_config(box: Toolbox, *, make_context: Callable[[str], ToolContext] | None = None) -> McpSdkServerConfig:
    """The entry for `ClaudeAgentOptions(mcp_servers={box.name: …})`; a run gives every call its own context."""
    return {
        "type": "sdk",
        "name": box.name,
        "instance": build_server(box, notifies=False, make_context=make_context),
    }
