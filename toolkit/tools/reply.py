"""What comes out of a tool call: `ToolResult` as a tool may return it, `Reply` as a client gets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from toolkit.tools.content import Block

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolResult(Generic[T]):
    """A value with a verdict: return it when a plain value does not say enough."""

    value: T
    """What is rendered for the model."""
    message: str = ""
    """What the model reads when rendering the value gives nothing."""
    ok: bool = True
    """False makes it an error result."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a call as an MCP client gets it, in plain JSON-ready data."""

    content: list[Block]
    is_error: bool = False
    structured: dict[str, Any] | None = None

    @classmethod
    def error(cls, message: str) -> Reply:
        """An error result with exactly this text."""
        return cls([{"type": "text", "text": message}], is_error=True)

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    def wire(self) -> dict[str, Any]:
        """The `tools/call` result as JSON-ready data."""
        result: dict[str, Any] = {"content": self.content}
        if self.structured is not None:
            result["structuredContent"] = self.structured
        result["isError"] = self.is_error
        return result
