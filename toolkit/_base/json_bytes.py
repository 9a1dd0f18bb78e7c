"""JSON of anything at all, as a program on the other side of a wire reads it.

What JSON cannot hold is replaced and never raises: NaN by null, half a letter (a file name that is not UTF-8) by the
replacement character, an object that no serialiser knows by its text.

pydantic's JSON does this. Loading it takes longer than all else a server does before its first answer, so until
something needs it, plain data is written and read by the standard library, to the same bytes and values.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_core: Any = None
"""pydantic_core, once it is loaded."""
_PLAIN = frozenset({str, int, bool, type(None)})
_LONGEST = 64 * 1024
"""Bytes of text that is read without pydantic."""
_DEEPEST = 100


def json_bytes(value: Any) -> bytes:
    """The value as compact JSON."""
    if _core is None and (plain := _written_plainly(value)) is not None:
        return plain
    core = _core or _load()
    try:
        written: bytes = core.to_json(value, inf_nan_mode="null")
        return written
    except core.PydanticSerializationError:
        text: str = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def from_json_bytes(text: bytes | bytearray) -> Any:
    """The value that a text holds.

    Raises:
        ValueError: it is no JSON, or none in UTF-8.
    """
    if _core is None:
        try:
            return _read_plainly(text)
        except (ValueError, RecursionError):
            pass  # what it is, and whether it is JSON, pydantic says
    return (_core or _load()).from_json(text, cache_strings="keys")


def as_read(value: Any) -> Any:
    """The value as the reader of its JSON gets it."""
    return from_json_bytes(json_bytes(value))


def _load() -> Any:
    global _core
    import pydantic_core

    _core = pydantic_core
    return _core


def _written_plainly(value: Any) -> bytes | None:
    """Data of texts, whole numbers, lists and objects as JSON; None for all else."""
    if "pydantic_core" in sys.modules:
        return None
    try:
        if _is_plain(value):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        pass  # half a letter, a number of thousands of digits, or too deep
    return None


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(type(key) is str for key in value) and all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if kind is list else kind in _PLAIN


def _read_plainly(text: bytes | bytearray) -> Any:
    """The value of a text in which the two ways of reading cannot differ.

    Raises:
        ValueError: they might.
    """
    if "pydantic_core" in sys.modules or len(text) > _LONGEST or b"\\u" in text:
        raise ValueError
    if text.count(b"[") + text.count(b"{") > _DEEPEST:
        raise ValueError
    return json.loads(text.decode(), parse_constant=_refuse, parse_float=_refuse)


def _refuse(_: str) -> Any:
    raise ValueError
