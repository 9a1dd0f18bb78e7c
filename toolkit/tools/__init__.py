"""A typed function becomes a tool: signature to schema, arguments to values, result to content.

Nothing in this room imports mcp; `toolkit_servers` puts a Toolbox on the wire.
"""

from toolkit.tools.content import Audio, Image, Reply, Resource, Text, ToolResult
from toolkit.tools.context import Budget, Deadline, ToolContext
from toolkit.tools.tool import Tool, as_tool, tool
from toolkit.tools.toolbox import Toolbox
from toolkit.tools.workspace_path import WorkspacePath

__all__ = [
    "Audio",
    "Budget",
    "Deadline",
    "Image",
    "Reply",
    "Resource",
    "Text",
    "Tool",
    "ToolContext",
    "ToolResult",
    "Toolbox",
    "WorkspacePath",
    "as_tool",
    "tool",
]
