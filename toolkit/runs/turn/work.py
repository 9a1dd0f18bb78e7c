"""When the work for a prompt is over.

A result message ends one turn of the CLI. A subagent may go on in the background,
and its end wakes the CLI for another turn with another result: only then is the
work done. The CLI says so with its session state; where it does not, the tasks it
announced decide. Commands in the background are not waited for: a server never ends.
"""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import Message, ResultMessage, SystemMessage

_AGENTS = ("local_agent", "local_workflow")
_OVER = ("completed", "failed", "stopped", "killed")


class Work:
    """Follows the messages for one prompt."""

    def __init__(self) -> None:
        self._result: ResultMessage | None = None
        self._state: str | None = None
        self._agents: set[str] = set()

    def done(self, message: Message) -> ResultMessage | None:
        """The last result, once this message shows that nothing more will come."""
        if isinstance(message, ResultMessage):
            self._result = message
            if message.is_error:
                return message
        elif isinstance(message, SystemMessage):
            self._note(message)
        return self._result if self._state in (None, "idle") and not self._agents else None

    def _note(self, message: SystemMessage) -> None:
        data = message.data
        if message.subtype == "session_state_changed":
            self._state = data.get("state")
        elif message.subtype == "task_started" and data.get("task_type") in _AGENTS:
            self._agents.add(data["task_id"])
        elif message.subtype == "task_notification" or _is_over(data):
            self._agents.discard(data.get("task_id", ""))


def _is_over(data: dict[str, Any]) -> bool:
    return data.get("subtype") == "task_updated" and (data.get("patch") or {}).get("status") in _OVER
