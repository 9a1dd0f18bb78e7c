"""Give an agent typed Python tools and let it work unattended.

The names below are loaded on first use: `import toolkit` alone imports neither
mcp nor claude_agent_sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.errors import ToolError as ToolError
    from toolkit.errors import ToolkitError as ToolkitError
    from toolkit.runs import Conversation as Conversation
    from toolkit.runs import Decision as Decision
    from toolkit.runs import Event as Event
    from toolkit.runs import Limits as Limits
    from toolkit.runs import Prompt as Prompt
    from toolkit.runs import RunResult as RunResult
    from toolkit.runs import RunSpec as RunSpec
    from toolkit.runs import run as run
    from toolkit.runs import run_many as run_many
    from toolkit.runs import run_sync as run_sync
    from toolkit.runs import start as start
    from toolkit.tools import Audio as Audio
    from toolkit.tools import Image as Image
    from toolkit.tools import Resource as Resource
    from toolkit.tools import Text as Text
    from toolkit.tools import Tool as Tool
    from toolkit.tools import Toolbox as Toolbox
    from toolkit.tools import ToolContext as ToolContext
    from toolkit.tools import ToolResult as ToolResult
    from toolkit.tools import tool as tool

_HOMES = {
    "toolkit.errors": ("ToolError", "ToolkitError"),
    "toolkit.runs": (
        "Conversation",
        "Decision",
        "Event",
        "Limits",
        "Prompt",
        "RunResult",
        "RunSpec",
        "run",
        "run_many",
        "run_sync",
        "start",
    ),
    "toolkit.tools": (
        "Audio",
        "Image",
        "Resource",
        "Text",
        "Tool",
        "Toolbox",
        "ToolContext",
        "ToolResult",
        "tool",
    ),
}

__getattr__, __dir__, _names = lazy_names(__name__, _HOMES)
__all__ = ["__version__", *_names]
