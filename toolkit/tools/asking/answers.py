"""What a tool gets when it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from toolkit.errors import ToolError


@dataclass(frozen=True, slots=True)
class Declined:
    """The person said no: they will not answer this."""

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The question was closed without a choice."""

    def __bool__(self) -> bool:
        return False


class CannotAsk(ToolError):
    """There is nobody who could answer; the model reads it as written."""

    def __init__(self, what: str, *, required: Mapping[str, Any] | None = None) -> None:
        super().__init__(what)
        self.required = dict(required or {})
        """The client capability that is missing, as MCP writes it."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A text that the client's model wrote."""

    text: str
    model: str = ""
    stop_reason: str | None = None
    content: tuple[Mapping[str, Any], ...] = ()
    """The content blocks, where there is more than text."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that the client works on."""

    uri: str
    name: str | None = None

    @property
    def path(self) -> Path | None:
        """The folder itself; None where the URI is no file:// address."""
        parts = urlsplit(self.uri)
        return Path(unquote(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None
