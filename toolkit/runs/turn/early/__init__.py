"""The CLI, started and greeted before the SDK is loaded, and then handed over to it.

Loading the SDK takes longer than starting the CLI, and neither needs the other until a tool is called. So the CLI gets
its arguments, its first request and, where nothing has to be asked before, the first prompt from here, in the SDK's own
words. When the SDK says them itself they are compared, and not sent again: one that differs ends the run. What the CLI
answers waits for the SDK, and with it every tool call.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.turn.early.arguments import command_line as command_line, variables as variables
    from toolkit.runs.turn.early.frames import initialize_request as initialize_request, is_held as is_held
    from toolkit.runs.turn.early.loading import is_loaded as is_loaded, load_sdk as load_sdk
    from toolkit.runs.turn.early.started import StartedCLI as StartedCLI

_HOMES = {
    "toolkit.runs.turn.early.arguments": "command_line variables",
    "toolkit.runs.turn.early.frames": "initialize_request is_held",
    "toolkit.runs.turn.early.loading": "is_loaded load_sdk",
    "toolkit.runs.turn.early.started": "StartedCLI",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
