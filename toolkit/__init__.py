"""Give an agent typed Python tools and let it work unattended.

The names below are loaded on first use: `import toolkit` alone imports neither
mcp nor claude_agent_sdk.
"""

from __future__ import annotations

__version__ = "0.1.0"

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False  # `typing` alone would double the time of `import toolkit`
if TYPE_CHECKING:
    from toolkit.errors import ToolError as ToolError, ToolkitError as ToolkitError
    from toolkit.runs import (
        Conversation as Conversation,
        Decision as Decision,
        Event as Event,
        Limits as Limits,
        ProjectFile as ProjectFile,
        Prompt as Prompt,
        Retry as Retry,
        RunResult as RunResult,
        RunSpec as RunSpec,
        Setup as Setup,
        Verify as Verify,
        run as run,
        run_many as run_many,
        run_sync as run_sync,
        start as start,
    )
    from toolkit.tools import (
        Audio as Audio,
        Image as Image,
        Resource as Resource,
        Text as Text,
        Tool as Tool,
        Toolbox as Toolbox,
        ToolContext as ToolContext,
        ToolResult as ToolResult,
        WorkspacePath as WorkspacePath,
        prompt as prompt,
        resource as resource,
        tool as tool,
    )

_HOMES = {
    "toolkit.errors": "ToolError ToolkitError",
    "toolkit.runs": (
        "Conversation Decision Event Limits ProjectFile Prompt Retry RunResult RunSpec Setup Verify "
        "run run_many run_sync start"
    ),
    "toolkit.tools": "Audio Image Resource Text Tool Toolbox ToolContext ToolResult WorkspacePath prompt resource tool",
}

__getattr__, __dir__, _names = lazy_names(__name__, _HOMES)
__all__ = ["__version__", *_names]
