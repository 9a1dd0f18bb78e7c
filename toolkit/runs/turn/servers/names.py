"""What a server's tool is called where the model and the policy speak of it."""

from __future__ import annotations

import re

ODD = re.compile(r"[^A-Za-z0-9_-]")
"""What the CLI writes otherwise in a name."""


def tool_name(server: str, tool: str) -> str:
    """The name of a server's tool as the model uses it."""
    return f"mcp__{ODD.sub('_', server)}__{ODD.sub('_', tool)}"
