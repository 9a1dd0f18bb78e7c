"""Values and replies in the JSON that every client reads alike.

Bytes are base64 in the standard alphabet (pydantic writes the one for URLs, which most decoders refuse or misread).
What JSON cannot hold is replaced before a reply is handed out, so that a call in Python and a client on any wire
get the same. pydantic is loaded with the first value that needs it.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from toolkit._base.json_bytes import as_read
from toolkit.tools.content import Block, Reply

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer

_LONGEST_EXCERPT = 80
"""Characters of a wrong value that are repeated to the model."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_SEQUENCES = (list, tuple, set, frozenset, deque)


def json_text(value: Any) -> str:
    """Compact JSON of anything pydantic can serialise; numbers without a JSON form are text.

    Raises:
        PydanticSerializationError, ValueError, RecursionError: it cannot.
    """
    from pydantic_core import to_json

    return to_json(_without_bytes(value), inf_nan_mode="strings").decode()


def json_value(value: Any) -> Any:
    """The same as plain Python data; a number without a JSON form stays what it is."""
    from pydantic_core import to_jsonable_python

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
    return in_base64(_any_serializer().to_python(value, by_alias=True)) if _holds_bytes(value) else value


@lru_cache(maxsize=1)
def _any_serializer() -> SchemaSerializer:
    from pydantic_core import SchemaSerializer, core_schema

    return SchemaSerializer(core_schema.any_schema())


def _holds_bytes(value: Any) -> bool:
    kind: type = type(value)
    if kind in _SCALARS:
        return False
    if kind is list or kind is tuple:
        kinds = set(map(type, value))
        return not kinds <= _SCALARS and any(map(_holds_bytes, value))
    if kind is dict:
        return any(_holds_bytes(item) for item in value.values() if type(item) not in _SCALARS) or any(
            _holds_bytes(key) for key in value if type(key) is not str
        )
    names = _fields_of(kind)
    if names == ():
        return False
    if names is not None:
        fields = [getattr(value, name, None) for name in names]
        return not set(map(type, fields)) <= _SCALARS and any(map(_holds_bytes, fields))
    return _oddly_holds_bytes(value)


def _oddly_holds_bytes(value: Any) -> bool:
    """The same for what is seldom: bytes themselves, sets, enums, classes of their own."""
    if isinstance(value, bytes | bytearray):
        return True
    if isinstance(value, dict):
        return any(map(_holds_bytes, value.values())) or any(map(_holds_bytes, value))
    if isinstance(value, _SEQUENCES):
        return any(map(_holds_bytes, value))
    return isinstance(value, Enum) and _holds_bytes(value.value)


@lru_cache(maxsize=2048)
def _fields_of(cls: type) -> tuple[str, ...] | None:
    """The fields of a dataclass or a pydantic model that are not declared as plain values; None for any other class."""
    from pydantic import BaseModel

    if issubclass(cls, BaseModel):
        names = list(cls.model_fields)
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    else:
        return None
    try:
        hints = get_type_hints(cls)
    except (NameError, TypeError):
        hints = {}
    return tuple(name for name in names if not _is_plain(hints.get(name)))


def _is_plain(hint: Any) -> bool:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return all(isinstance(member, type) and member in _SCALARS for member in members)


def sendable(reply: Reply) -> Reply:
    """The reply with what JSON cannot hold replaced: what a client reads, however it is served."""
    if reply.structured is None and all(map(_is_sendable, reply.content)):
        return reply
    return Reply(
        sendable_blocks(reply.content), reply.is_error, None if reply.structured is None else as_read(reply.structured)
    )


def sendable_blocks(blocks: list[Block]) -> list[Block]:
    """The blocks with what JSON cannot hold replaced."""
    return [block if _is_sendable(block) else as_read(block) for block in blocks]


def _is_sendable(block: Block) -> bool:
    text = block.get("text")
    if block.keys() == {"type", "text"} and type(text) is str and text.isascii():
        return True
    from pydantic_core import PydanticSerializationError, to_json

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
        is_json = isinstance(value, Mapping) and bool(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
    return is_json and odd_key(value) is None


def odd_key(value: object) -> tuple[object] | None:
    """A key at any depth that is no text, though a reader would get it as one; in a tuple, as None may be a key."""
    if isinstance(value, Mapping):
        own = next(((key,) for key in value if not isinstance(key, str)), None)
        return own or next((found for each in value.values() if (found := odd_key(each))), None)
    inside = value if isinstance(value, list | tuple) else ()
    return next((found for each in inside if (found := odd_key(each))), None)
