"""A prompt's value as the messages a client puts into a conversation.

A text, a content object or data is one message of the user; `("assistant", "…")` says who speaks; a list has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import RenderError
from toolkit.tools.calling import as_blocks
from toolkit.tools.content import Block, is_content

ROLES = ("user", "assistant")
_OTHER_ROLES = ("system", "model", "human", "ai", "tool", "developer", "bot")
_FIX = 'Return text, content objects, or pairs such as ("assistant", "…"), one or a list of them'


@dataclass(frozen=True, slots=True)
class Messages:
    """What a prompt gave, in plain JSON-ready data."""

    messages: list[Block] = field(default_factory=list)
    """One entry for each message: `role` and `content`."""
    description: str = ""
    problem: str = ""
    """Why there are none; empty when there are."""
    is_misfit: bool = False
    """The arguments do not fit, so that the prompt was not asked."""

    @property
    def is_error(self) -> bool:
        """Whether there are no messages."""
        return bool(self.problem)

    @property
    def text(self) -> str:
        """The texts, one after the other."""
        return "\n".join(each["content"]["text"] for each in self.messages if each["content"]["type"] == "text")

    def wire(self) -> dict[str, Any]:
        """The `prompts/get` result as JSON-ready data."""
        described = {"description": self.description} if self.description else {}
        return {**described, "messages": self.messages}


def as_messages(value: Any) -> list[Block]:
    """The messages of a value.

    Raises:
        RenderError: it has none, or somebody speaks who cannot.
    """
    messages = list(_messages(value, "user"))
    if not messages:
        raise RenderError("the prompt gave no message", fix=_FIX)
    return messages


def _messages(value: Any, role: str) -> Iterator[Block]:
    if spoken := _spoken(value):
        own_role, content = spoken
        if own_role not in ROLES:
            raise RenderError(f"a message of a prompt is by user or assistant, not by {own_role!r}", fix=_FIX)
        yield from _messages(content, own_role)
    elif isinstance(value, list | tuple) and (not value or any(_is_message(each) for each in value)):
        for each in value:
            yield from _messages(each, role)
    else:
        for block in as_blocks(value):
            yield {"role": role, "content": block}


def _is_message(value: Any) -> bool:
    return isinstance(value, str) or is_content(value) or _spoken(value) is not None


def _spoken(value: Any) -> tuple[Any, Any] | None:
    """Who speaks and what, where a value says it: a pair, a mapping, or mcp's own PromptMessage."""
    if isinstance(value, tuple) and len(value) == 2 and value[0] in (*ROLES, *_OTHER_ROLES):
        return value[0], value[1]
    if isinstance(value, Mapping) and value.keys() == {"role", "content"}:
        return value["role"], value["content"]
    is_mcp = type(value).__module__.partition(".")[0] in ("mcp", "mcp_types")
    if is_mcp and hasattr(value, "role") and hasattr(value, "content"):
        return value.role, value.content
    return None
