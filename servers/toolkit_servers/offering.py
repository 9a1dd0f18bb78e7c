"""What a Toolbox offers to clients, in the words of the protocol: its capabilities and who it is.

Nothing here imports mcp. Whatever answers a client, mcp's server or a smaller one, says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.tools import Tool, Toolbox

_ASKABLE = ("elicitation", "sampling", "roots")
"""What a client declares that a tool can ask for while it runs."""


def capabilities(box: Toolbox, *, notifies: bool = True, reloads: bool = False) -> dict[str, Any]:
    """The `capabilities` of `initialize` and `server/discover`, the same in both eras.

    `notifies` where log messages reach the client, `reloads` where the tools may be swapped.
    """
    live = tells_changes(box, notifies=notifies, reloads=reloads)
    found: dict[str, Any] = {}
    if box.tools:
        found["tools"] = {"listChanged": live}
    if notifies:
        found["logging"] = {}
    if box.prompts:
        found["prompts"] = {"listChanged": live}
    if box.resources:
        found["resources"] = {"listChanged": live, "subscribe": live}
    if box.has_completions:
        found["completions"] = {}
    return found


def tells_changes(box: Toolbox, *, notifies: bool, reloads: bool) -> bool:
    """Whether clients hear of what changes."""
    return notifies and (reloads or offers_more_than_tools(box))


def changed_kinds(before: Toolbox, after: Toolbox) -> list[str]:
    """The lists that are other ones when a box takes the place of another."""
    return ["tools", *(kind for kind in ("prompts", "resources") if getattr(before, kind) or getattr(after, kind))]


def server_info(box: Toolbox) -> dict[str, Any]:
    """The `serverInfo` of a box."""
    return {"name": box.name, "version": box.version}


def offers_more_than_tools(box: Toolbox) -> bool:
    """Whether requests about resources or prompts have an answer; then changes are told, too."""
    return bool(box.resources or box.prompts)


def may_ask(tool: Tool[..., Any], client_capabilities: Mapping[str, Any]) -> bool:
    """Whether a call of this tool may send the client a question (`ctx.ask`, `ctx.sample`, `ctx.roots`).

    Only a tool with a ToolContext can, and only a client that declares one of them is asked.
    """
    return tool.takes_context and any(key in client_capabilities for key in _ASKABLE)
