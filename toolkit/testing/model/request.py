"""One request that reached the scripted API: its JSON body, with questions a test asks of it.

A `Request` *is* the body (a dict as the client sent it); the methods read what
the model would have seen: system prompt, texts, tool results, offered tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_REMINDER = re.compile(
    r"(?:(?:\n\n)?<system-reminder>\n(?:(?!</?system-reminder>).)*</system-reminder>\n?)+\Z", re.DOTALL
)


class Request(dict[str, Any]):
    """The body of one model call, as the client sent it."""

    def __init__(self, body: Mapping[str, Any], *, path: str = "/v1/messages", headers: Mapping[str, str] = {}) -> None:
        super().__init__(body)
        self.path = path
        self.headers = dict(headers)

    @property
    def system_prompt(self) -> str:
        """The system prompt as one text."""
        return _text_of(self.get("system"))

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools the model is offered, by name."""
        return {tool.get("name", ""): tool for tool in self.get("tools") or ()}

    @property
    def prompt(self) -> str:
        """The texts of the last user message, without tool results and without what the CLI adds as reminders."""
        users = [message for message in self._messages() if message.get("role") == "user"]
        pieces = _texts_in(users[-1].get("content")) if users else []
        return "\n".join(piece for piece in pieces if not piece.lstrip().startswith("<system-reminder>"))

    @property
    def answers(self) -> int:
        """How many messages of the conversation are the model's own."""
        return sum(message.get("role") == "assistant" for message in self._messages())

    def tool_results(self) -> list[dict[str, Any]]:
        """Every `tool_result` block of the conversation so far, in order."""
        contents = [message.get("content") for message in self._messages()]
        blocks = [block for content in contents if isinstance(content, list) for block in content]
        return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]

    def contains(self, wanted: str) -> bool:
        """Whether a text occurs in the system prompt, in a text block or in a tool result."""
        places = [*self._messages(), *self.tool_results()]
        return any(wanted in text for text in [self.system_prompt, *(_text_of(one.get("content")) for one in places)])

    def summary(self) -> str:
        """The request in one short line, for messages about it."""
        last = self.tool_results()[-1:] if not self.prompt else []
        said = f"tool result {_text_of(last[0].get('content'))!r}" if last else f"prompt {self.prompt!r}"
        said = said if len(said) <= 300 else said[:297] + "..."
        names = sorted(self.tools)
        listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        return f"{len(self._messages())} messages, last {said}, tools: {listed or 'none'}"

    def _messages(self) -> list[dict[str, Any]]:
        messages = self.get("messages")
        return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def plain_result(block: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """What the model reads of one tool result: its text, or its blocks where text is not all of it.

    Without the reminders that the CLI appends to a result for some models.
    """
    content = block.get("content", "")
    if isinstance(content, str):
        return _REMINDER.sub("", content)
    if not isinstance(content, list):
        return json.dumps(content)
    kept = list(content)
    while kept and kept[-1].get("type") == "text" and _REMINDER.fullmatch(kept[-1]["text"]):
        kept.pop()
        if kept and kept[-1].get("type") == "text":  # the line break belongs to the reminder
            kept[-1] = {**kept[-1], "text": kept[-1]["text"].removesuffix("\n")}
    if kept and kept[-1].get("type") == "text":
        kept[-1] = {**kept[-1], "text": _REMINDER.sub("", kept[-1]["text"])}
    if len(kept) == 1 and kept[0].get("type") == "text":
        return str(kept[0]["text"])
    return kept


def _text_of(content: Any) -> str:
    return "\n".join(_texts_in(content))


def _texts_in(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
