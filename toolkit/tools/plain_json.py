"""Values and replies in the JSON that every client reads alike.

Bytes are base64 in the standard alphabet (pydantic writes the one for URLs, which most decoders refuse or misread).
What JSON cannot hold is replaced before a reply is handed out, so that a call in Python and a client on any wire
get the same.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic_core import (
    PydanticSerializationError,
    SchemaSerializer,
    core_schema,
    to_json,
    to_jsonable_python,
)

from toolkit._base.json_bytes import as_read
from toolkit.tools.content import Block, Reply

_LONGEST_EXCERPT = 80
"""Characters of a wrong value that are repeated to the model."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_SEQUENCES = (list, tuple, set, frozenset, deque)
_ANY = SchemaSerializer(core_schema.any_schema())


def json_text(value: Any) -> str:
    """Compact JSON of anything pydantic can serialise; numbers without a JSON form are text.

    Raises:
        PydanticSerializationError, ValueError, RecursionError: it cannot.
    """
    return to_json(_without_bytes(value), inf_nan_mode="strings").decode()


def json_value(value: Any) -> Any:
    """The same as plain Python data; a number without a JSON form stays what it is."""
    return to_jsonable_python(_without_bytes(value))


def in_base64(value: Any) -> Any:
    """Python data, such as pydantic dumps, with base64 text in place of bytes."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {in_base64(key): in_base64(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return in_base64(value.value)
    return [*map(in_base64, value)] if isinstance(value, (*_SEQUENCES, Iterator)) else value


def _without_bytes(value: Any) -> Any:
    return in_base64(_ANY.to_python(value, by_alias=True)) if _holds_bytes(value) else value


def _holds_bytes(value: Any) -> bool:
    if type(value) in _SCALARS:
        return False
    if isinstance(value, bytes | bytearray):
        return True
    if isinstance(value, dict):
        return any(_holds_bytes(item) for item in value.values()) or any(map(_holds_bytes, value))
    if isinstance(value, _SEQUENCES):
        return any(map(_holds_bytes, value))
    if isinstance(value, Enum):
        return _holds_bytes(value.value)
    if isinstance(value, BaseModel):
        return any(map(_holds_bytes, vars(value).values()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_holds_bytes(getattr(value, field.name, None)) for field in dataclasses.fields(value))
    return False


def sendable(reply: Reply) -> Reply:
    """The reply with what JSON cannot hold replaced: what a client reads, however it is served."""
    if reply.structured is None and all(map(_is_sendable, reply.content)):
        return reply
    content = [block if _is_sendable(block) else as_read(block) for block in reply.content]
    return Reply(content, reply.is_error, None if reply.structured is None else as_read(reply.structured))


def _is_sendable(block: Block) -> bool:
    text = block.get("text")
    if block.keys() == {"type", "text"} and type(text) is str and text.isascii():
        return True
    try:
        to_json(block)
    except PydanticSerializationError:
        return False
    return True


def excerpt(value: Any) -> str:
    """A wrong value as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST_EXCERPT else f"{text[:_LONGEST_EXCERPT]}… ({len(text)} characters)"


def is_json_object(value: object) -> bool:
    """Whether it is a mapping that JSON holds as it is."""
    try:
        return isinstance(value, Mapping) and bool(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
