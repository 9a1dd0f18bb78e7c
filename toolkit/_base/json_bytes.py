"""JSON of anything at all, as a program on the other side of a wire reads it.

What JSON cannot hold is replaced and never raises: NaN by null, half a letter (a file name that is not UTF-8) by the
replacement character, an object that no serialiser knows by its text.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json


def json_bytes(value: Any) -> bytes:
    """The value as compact JSON."""
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def as_read(value: Any) -> Any:
    """The value as the reader of its JSON gets it."""
    return from_json(json_bytes(value))
