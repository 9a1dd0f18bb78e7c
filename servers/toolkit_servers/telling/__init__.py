"""What a server tells its clients unasked, by mcp's sessions: reports of a running call, and changes."""

from toolkit_servers.telling.changes import Changes
from toolkit_servers.telling.notifier import SessionNotifier

__all__ = ["Changes", "SessionNotifier"]
