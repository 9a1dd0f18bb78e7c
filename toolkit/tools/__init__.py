"""A typed function becomes a tool: signature to schema, arguments to values, result to content.

Resources and prompts are made by the same care (`offers/`). The names below are loaded on first use. Nothing in this
room imports mcp; `toolkit_servers` puts a Toolbox on the wire.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.tools.asking import (
        Cancelled as Cancelled,
        CannotAsk as CannotAsk,
        Declined as Declined,
        Root as Root,
        Sampled as Sampled,
    )
    from toolkit.tools.content import (
        Audio as Audio,
        Image as Image,
        Reply as Reply,
        Resource as Resource,
        Text as Text,
        ToolResult as ToolResult,
    )
    from toolkit.tools.context import Budget as Budget, Deadline as Deadline, ToolContext as ToolContext
    from toolkit.tools.declared import misfit as misfit
    from toolkit.tools.offers import (
        Completion as Completion,
        Contents as Contents,
        Messages as Messages,
        ServedPrompt as ServedPrompt,
        ServedResource as ServedResource,
        prompt as prompt,
        resource as resource,
    )
    from toolkit.tools.served import Served as Served, as_served as as_served
    from toolkit.tools.toolbox import Toolbox as Toolbox
    from toolkit.tools.typed_tool import Tool as Tool, as_tool as as_tool, tool as tool
    from toolkit.tools.workspace_path import (
        AgentPaths as AgentPaths,
        WorkspacePath as WorkspacePath,
        in_call as in_call,
    )

_HOMES = {
    "toolkit.tools.asking": "Cancelled CannotAsk Declined Root Sampled",
    "toolkit.tools.content": "Audio Image Reply Resource Text ToolResult",
    "toolkit.tools.context": "Budget Deadline ToolContext",
    "toolkit.tools.declared": "misfit",
    "toolkit.tools.offers": "Completion Contents Messages ServedPrompt ServedResource prompt resource",
    "toolkit.tools.served": "Served as_served",
    "toolkit.tools.toolbox": "Toolbox",
    "toolkit.tools.typed_tool": "Tool as_tool tool",
    "toolkit.tools.workspace_path": "AgentPaths WorkspacePath in_call",
}

__getattr__, __dir__, _names = lazy_names(__name__, _HOMES)
__all__ = [name for name in _names if name not in ("AgentPaths", "in_call", "misfit")]  # those are for the rooms above
