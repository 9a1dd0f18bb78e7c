"""A typed function becomes a tool: signature to schema, arguments to values, result to content.

Resources and prompts are made by the same care (`offers/`), and loaded when somebody makes one. Nothing in this room
imports mcp; `toolkit_servers` puts a Toolbox on the wire.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names
from toolkit.tools.content import Audio, Image, Reply, Resource, Text, ToolResult
from toolkit.tools.context import Budget, Deadline, ToolContext
from toolkit.tools.served import Served, as_served
from toolkit.tools.tool import Tool, as_tool, tool
from toolkit.tools.toolbox import Toolbox
from toolkit.tools.workspace_path import AgentPaths as AgentPaths, WorkspacePath

if TYPE_CHECKING:
    from toolkit.tools.asking import (
        Cancelled as Cancelled,
        CannotAsk as CannotAsk,
        Declined as Declined,
        Root as Root,
        Sampled as Sampled,
    )
    from toolkit.tools.offers import (
        Completion as Completion,
        Contents as Contents,
        Messages as Messages,
        ServedPrompt as ServedPrompt,
        ServedResource as ServedResource,
        prompt as prompt,
        resource as resource,
    )

_HOMES = {
    "toolkit.tools.asking": "Cancelled CannotAsk Declined Root Sampled",
    "toolkit.tools.offers": "Completion Contents Messages ServedPrompt ServedResource prompt resource",
}

__getattr__, __dir__, _names = lazy_names(__name__, _HOMES)
__all__ = [
    "Audio",
    "Budget",
    "Deadline",
    "Image",
    "Reply",
    "Resource",
    "Served",
    "Text",
    "Tool",
    "ToolContext",
    "ToolResult",
    "Toolbox",
    "WorkspacePath",
    "as_served",
    "as_tool",
    "tool",
    *_names,
]
