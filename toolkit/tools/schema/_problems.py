"""Say what is wrong with arguments in words a model can act on."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

_LONGEST = 80
"""Characters of a wrong value that are repeated to the model."""


def in_words(name: str, value: Any, error: ValidationError) -> list[str]:
    """One line for each wrong place; the alternatives of a union share a line."""
    places: dict[str, list[str]] = {}
    found: dict[str, Any] = {}
    for detail in error.errors(include_url=False, include_context=False):
        is_key = detail["loc"][-1:] == ("[key]",)  # then the last step before names the key, not a value
        location = detail["loc"][:-2] if is_key else detail["loc"]
        place, reached = _place(name, value, location, missing=detail["type"] == "missing")
        message = (detail["msg"][:1].lower() + detail["msg"][1:]).removeprefix("input ").removeprefix("value error, ")
        if is_key:
            message = f"the key {excerpt(detail['input'])} {message}"
        elif detail["type"] == "missing":
            message = "missing"
        elif detail["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            message = "no such field"
        places.setdefault(place, [])
        if message not in places[place]:
            places[place].append(message)
        found[place] = reached
    return [
        f"{place}: {', or '.join(messages)}"
        + ("" if messages in (["missing"], ["no such field"]) else f"; got {excerpt(found[place])}")
        for place, messages in places.items()
    ]


def _place(name: str, value: Any, location: tuple[int | str, ...], *, missing: bool) -> tuple[str, Any]:
    """`items[2].name` and what stands there; pydantic's own labels for union members are left out."""
    place = name
    for step in location:
        if isinstance(step, int) and isinstance(value, list | tuple) and step < len(value):
            place, value = f"{place}[{step}]", value[step]
        elif isinstance(step, int) and missing and step == location[-1]:
            place = f"{place}[{step}]"
        elif isinstance(step, str) and isinstance(value, dict):
            if step in value:
                place, value = f"{place}.{step}", value[step]
            elif missing and step == location[-1]:
                place = f"{place}.{step}"
    return place, value


def excerpt(value: Any) -> str:
    """A wrong value as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
