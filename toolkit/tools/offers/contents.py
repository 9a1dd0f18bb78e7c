"""A resource's value as the contents a client reads.

By the rules of tools: the resource's own renderer, the value's `render()`, text as it is, content objects as they are,
JSON for everything pydantic can serialise. Bytes are what their first bytes say; what is not what the resource
declares is an error and not sent.
"""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass, field
from typing import Any

from toolkit._base.words import size_text
from toolkit.errors import RenderError
from toolkit.tools.calling import as_blocks
from toolkit.tools.content import Block, Resource, Text, is_content, sniff
from toolkit.tools.offers.options import OfferOptions

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript", "application/yaml")
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Contents:
    """What reading a resource gave, in plain JSON-ready data."""

    contents: list[Block] = field(default_factory=list)
    """One entry for each part: `uri`, `mimeType`, and `text` or a base64 `blob`."""
    problem: str = ""
    """Why there is nothing to read; empty when there is."""
    is_missing: bool = False
    """There is no such resource, or its parameters do not fit."""
    ttl: float | None = None
    """Seconds for which it may be kept."""

    @property
    def is_error(self) -> bool:
        """Whether there is nothing to read."""
        return bool(self.problem)

    @property
    def text(self) -> str:
        """The texts, one after the other."""
        return "\n".join(each["text"] for each in self.contents if "text" in each)

    def wire(self) -> dict[str, Any]:
        """The `resources/read` result as JSON-ready data."""
        return {"contents": self.contents}


def as_contents(value: Any, uri: str, options: OfferOptions) -> list[Block]:
    """The contents of a value that was read from `uri`.

    Raises:
        RenderError: it has no rendering, is too large, or is not what the resource declares.
    """
    contents = list(_contents(value, uri, options))
    size = sum(_size(each) for each in contents)
    if size > options.max_bytes:
        raise RenderError(
            f"{uri} has {size_text(size)}, more than the {size_text(options.max_bytes)} this resource may have",
            fix=f"Give it more with max_bytes={size}, or serve it in parts",
        )
    return contents


def guessed_mime(uri: str) -> str | None:
    """The MIME type that the end of a URI suggests."""
    path = uri.partition("?")[0].partition("#")[0]
    return None if "{" in path.rpartition("/")[2] else mimetypes.guess_type(path)[0]


def _contents(value: Any, uri: str, options: OfferOptions) -> list[Block]:
    if callable(getattr(value, "render", None)) and not isinstance(value, type):
        value = value.render()
    if isinstance(value, bytes | bytearray):
        return [_of_bytes(bytes(value), uri, options.mime or sniff(bytes(value)) or guessed_mime(uri), options)]
    if isinstance(value, str | Text):
        text = str(value) if isinstance(value, str) else value.text
        return [{"uri": uri, "mimeType": options.mime or guessed_mime(uri) or "text/plain", "text": text}]
    if isinstance(value, list | tuple) and value and all(isinstance(each, bytes | bytearray) for each in value):
        return [part for each in value for part in _contents(each, uri, options)]
    is_content_list = isinstance(value, list | tuple) and any(is_content(each) for each in value)
    if is_content(value) or is_content_list:
        values = value if isinstance(value, list | tuple) else [value]
        return [part for each in values for part in _of_content(each, uri, options)]
    return [{**_of_block(block, uri), "mimeType": options.mime or _JSON} for block in as_blocks(value)]


def _of_content(value: Any, uri: str, options: OfferOptions) -> list[Block]:
    if isinstance(value, str | Text):
        return _contents(value, uri, options)
    blocks = [_of_block(block, uri) for block in as_blocks(value)]
    if isinstance(value, Resource):
        return blocks
    return [_checked(block, options) for block in blocks]


def _of_block(block: Block, uri: str) -> Block:
    """A content block of a tool as a part of a resource."""
    match block["type"]:
        case "resource":
            return dict(block["resource"])
        case "image" | "audio":
            return {"uri": uri, "mimeType": block["mimeType"], "blob": block["data"]}
        case "text":
            return {"uri": uri, "mimeType": "text/plain", "text": block["text"]}
    raise RenderError(
        f"a resource cannot hold a {block['type']}", fix="Return text, bytes, Image, Audio, Resource, or data"
    )


def _of_bytes(data: bytes, uri: str, mime: str | None, options: OfferOptions) -> Block:
    if options.mime is not None:
        _refuse_other(uri, options.mime, sniff(data))
    if mime is None or mime.startswith(_TEXT_TYPES) or mime.endswith(("+json", "+xml")):
        try:
            return {"uri": uri, "mimeType": mime or "text/plain", "text": data.decode("utf-8")}
        except UnicodeDecodeError as error:
            if options.mime is not None:
                raise RenderError(
                    f"{uri} is declared as {options.mime}, and its bytes are no UTF-8 text (at byte {error.start:,})",
                    fix="Declare the real type (mime=…), or return text",
                ) from None
    blob = base64.b64encode(data).decode("ascii")
    return {"uri": uri, "mimeType": mime or "application/octet-stream", "blob": blob}


def _checked(block: Block, options: OfferOptions) -> Block:
    if options.mime is not None and "blob" in block:
        _refuse_other(block["uri"], options.mime, block["mimeType"])
    return block


def _refuse_other(uri: str, declared: str, real: str | None) -> None:
    """Raise where the first bytes name another type; where they name none, the declaration is believed."""
    known = declared.partition(";")[0].strip().lower()
    if real is not None and real != known and known != "application/octet-stream":
        raise RenderError(
            f"{uri} is declared as {declared}, but its bytes are {real}",
            fix=f'Declare what it is: mime="{real}", or leave mime out to have it read from the bytes',
        )


def _size(block: Block) -> int:
    if "blob" in block:
        return len(block["blob"]) * 3 // 4
    text = str(block.get("text", ""))
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
