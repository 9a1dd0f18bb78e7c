"""What a tool hands back: text, pictures, sound and files, a value with a verdict, and the reply a client gets.

Each content object becomes one MCP content block. The MIME type is the real one, read
from the first bytes; a file's name is only asked when the bytes do not tell.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from toolkit.errors import ToolkitError

Block = dict[str, Any]
"""One MCP content block in its wire form."""
T = TypeVar("T")

_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"BM", 0, "image/bmp"),
    (b"ID3", 0, "audio/mpeg"),
    (b"WAVE", 8, "audio/wav"),
    (b"OggS", 0, "audio/ogg"),
    (b"fLaC", 0, "audio/flac"),
    (b"ftypM4A", 4, "audio/mp4"),
    (b"%PDF-", 0, "application/pdf"),
)


def _guessed(name: str) -> str | None:
    """The media type that a file's name stands for."""
    import mimetypes  # reads the machine's list of them

    return mimetypes.guess_type(name)[0]


def sniff(data: bytes) -> str | None:
    """The MIME type that the first bytes tell; None where they tell nothing."""
    for magic, offset, mime in _MAGIC:
        if data.startswith(magic, offset):
            return mime
    # An MPEG audio frame has no fixed first bytes, only eleven set bits.
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2:
        return "audio/mpeg"
    return None


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text, sent as it is."""

    text: str

    def block(self) -> Block:
        """The MCP content block."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class _Media:
    """Bytes or a file; `mime` overrides what the bytes say."""

    data: bytes | str | Path
    """The bytes themselves, or the path of a file that is read when the result is rendered."""
    mime: str | None = None
    family: ClassVar[str]

    def block(self) -> Block:
        """The MCP content block."""
        data = self.data if isinstance(self.data, bytes) else Path(self.data).read_bytes()
        guessed = None if isinstance(self.data, bytes) else _guessed(Path(self.data).name)
        mime = self.mime or sniff(data) or guessed
        if mime is None or not mime.startswith(f"{self.family}/"):
            kind, family = type(self).__name__, self.family
            raise ToolkitError(
                f"{kind}: these bytes are not a known {family} type" + (f" but {mime}" if mime else ""),
                fix=f'Name the type: {kind}(data, mime="{family}/…")',
            )
        return {"type": self.family, "data": base64.b64encode(data).decode("ascii"), "mimeType": mime}


@dataclass(frozen=True, slots=True)
class Image(_Media):
    """A picture, from bytes or from a file."""

    family = "image"


@dataclass(frozen=True, slots=True)
class Audio(_Media):
    """A sound, from bytes or from a file."""

    family = "audio"


@dataclass(frozen=True, slots=True)
class Resource:
    """A document with an address of its own: given text, given bytes, or a file.

    With `data` left out, `uri` is the path of a file that is read when the
    result is rendered, and its `file://` address becomes the URI.
    """

    uri: str | Path
    data: str | bytes | None = None
    mime: str | None = None

    def block(self) -> Block:
        """The MCP content block: `text` where the content is UTF-8, else a base64 `blob`."""
        uri, data = str(self.uri), self.data
        if data is None:
            path = Path(self.uri).absolute()
            uri, data = path.as_uri(), path.read_bytes()
        raw = data.encode() if isinstance(data, str) else data
        mime = self.mime or sniff(raw) or _guessed(uri)
        try:
            content = {"mimeType": mime or "text/plain", "text": raw.decode("utf-8")}
        except UnicodeDecodeError:
            blob = base64.b64encode(raw).decode("ascii")
            content = {"mimeType": mime or "application/octet-stream", "blob": blob}
        return {"type": "resource", "resource": {"uri": uri, **content}}


def is_content(value: object) -> bool:
    """Whether a value is a content object, ours or the mcp package's."""
    # mcp's classes are told by name, so that people who return them need no
    # change here and this room does not import mcp.
    is_mcp = type(value).__module__.partition(".")[0] == "mcp_types" and hasattr(value, "type")
    return is_mcp or isinstance(value, Text | Image | Audio | Resource)


def as_block(value: Any) -> Block:
    """The content block of a content object."""
    if isinstance(value, Text | Image | Audio | Resource):
        return value.block()
    block: Block = value.model_dump(by_alias=True, exclude_none=True, mode="json")
    return block


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
