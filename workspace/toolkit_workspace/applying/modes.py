"""Which permissions a file gets on the host: its own there, and of the agent's only the executable bit."""

from __future__ import annotations

from toolkit_workspace.changes.changes import Change
from toolkit_workspace.record.content import Node


def is_executable(node: Node | None) -> bool:
    return node is not None and bool(node.mode & 0o100)


def new_mode(change: Change, host_mode: int) -> int:
    """The host's own permissions, with the executable bit as the agent changed it; nothing beyond 0o777."""
    mode = host_mode & 0o777
    was = is_executable(change.before) if change.before else bool(mode & 0o100)
    now = is_executable(change.after)
    if was == now:
        return mode
    return mode | (mode & 0o444) >> 2 if now else mode & ~0o111
