"""The form of a schema that the most clients take, and the property names that the model API takes.

Gemini's client knows a part of JSON Schema only and refuses a whole tool for one word beside it; the Messages API
refuses a whole request for one property name. So a tool's arguments are written in the common words, as far as
that costs nothing: the tool's own check of its arguments stays as strict as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What the Messages API takes as a property name."""
_NAMED = ("properties", "$defs", "patternProperties")
"""Keywords whose value maps names to schemas: a property may well be called 'title'."""
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "propertyNames", "contains")
_BASE64 = "base64"


def with_inside(schema: Schema, change: Callable[[Any], Any]) -> Schema:
    """The schema with every schema directly inside it changed; values such as defaults are never touched."""
    changed: Schema = {}
    for key, value in schema.items():
        if key in _NAMED:
            changed[key] = {name: change(inner) for name, inner in value.items()}
        elif key in _LISTED:
            changed[key] = [change(inner) for inner in value]
        else:
            changed[key] = change(value) if key in _SINGLE else value
    return changed


def tidied(schema: Any, noise: frozenset[str] = frozenset()) -> Any:
    """One schema and those inside it, without noise titles, in plain words, objects closed."""
    if not isinstance(schema, dict):
        return schema
    tidy = with_inside(schema, lambda inner: tidied(inner, noise))
    tidy.pop("discriminator", None)
    if tidy.get("title") in noise:
        del tidy["title"]
    if tidy.get("format") == "path":
        del tidy["format"]
    if "properties" in tidy:
        tidy.setdefault("additionalProperties", False)
    return plain_words(tidy)


def plain_words(schema: Schema) -> Schema:
    """One schema without keywords that have an equivalent which more clients know."""
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if "oneOf" in schema:  # pydantic writes it for unions told apart by a tag, where both mean the same
        schema["anyOf"] = schema.pop("oneOf")
    if schema.get("type") == "integer":
        for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if isinstance(schema.get(exclusive), int):
                schema[inclusive] = schema.pop(exclusive) + step
    if "enum" in schema and "type" not in schema:
        return _split_by_type(schema)
    return schema


def _split_by_type(schema: Schema) -> Schema:
    """`Literal["a", 1, None]` as alternatives of one type each; an enumeration of anything else stays as it is."""
    names = {str: "string", bool: "boolean", int: "integer", type(None): "null"}
    values = schema["enum"]
    if not all(type(value) in names for value in values):
        return schema
    by_kind: dict[type, list[Any]] = {}
    for value in values:
        by_kind.setdefault(type(value), []).append(value)
    parts = [NULL if kind is type(None) else {"type": names[kind], "enum": own} for kind, own in by_kind.items()]
    rest = {key: value for key, value in schema.items() if key != "enum"}
    return {**(parts[0] if len(parts) == 1 else {"anyOf": parts}), **rest}


def portable(schema: Any) -> Any:
    """The schema of an argument as clients get it. It may allow more than the argument's own check does."""
    if not isinstance(schema, dict):
        return schema
    made = with_inside(schema, portable)
    # google-genai 3.3 fails on a truth value here, so that it could take no tool at all. Unknown names are
    # refused by our own check, in words.
    if isinstance(made.get("additionalProperties"), bool):
        del made["additionalProperties"]
    made.pop("uniqueItems", None)  # a set takes a value twice
    items = made.get("prefixItems")
    if items and all(item == items[0] for item in items) and made.get("maxItems") == made.get("minItems") == len(items):
        made["items"] = made.pop("prefixItems")[0]
    if made.get("contentEncoding") == _BASE64:
        del made["contentEncoding"]
        made["description"] = f"{text} ({_BASE64})" if (text := made.get("description")) else _BASE64
    required = made.get("required", ())
    for name, own in made.get("properties", {}).items():
        if isinstance(own, dict) and name not in required and own.get("default", 0) is None:
            made["properties"][name] = without_null(own)
    return made


def without_null(schema: Schema) -> Schema:
    """The schema of something that is None when it is left out: nobody has to be told that null does the same."""
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    alternatives = schema.get("anyOf")
    if alternatives is None:
        return rest
    others = [other for other in alternatives if other != NULL]
    return {**(without_null(others[0]) if len(others) == 1 else {"anyOf": others}), **rest}


def described(schema: Schema, text: str) -> Schema:
    """The schema with this description, and still with the word that its text is base64."""
    return {**schema, "description": f"{text} ({_BASE64})" if schema.get("description") == _BASE64 else text}


def doubts(schema: Schema) -> list[tuple[str, str]]:
    """What the Messages API may refuse in the schema of a tool's arguments: what, and what to do."""
    names = [
        (
            f"the field '{name}' in {place or 'the arguments'} has a name that the model API may not take",
            'Give it a name or an alias of 1 to 64 letters (a to z), digits, "_", "." or "-"',
        )
        for name, place in dict.fromkeys(bad_property_names(schema))
    ]
    if tops := combined(schema):
        names.append((f"the model API takes no {tops[0]} at the top of a schema", "Put it into one of the properties"))
    return names


def combined(schema: Schema) -> list[str]:
    """The keywords that put schemas together at the top, where the Messages API refuses them."""
    return [key for key in ("anyOf", "oneOf", "allOf") if key in schema]


def bad_property_names(schema: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The property names in a schema that the Messages API refuses, each with the place it stands in."""
    if not isinstance(schema, dict):
        return
    for name, inner in schema.get("properties", {}).items():
        if not PROPERTY_NAME.fullmatch(name):
            yield name, place
        yield from bad_property_names(inner, f"{place}.{name}" if place else name)
    for key in ("$defs", "patternProperties"):
        for inner in schema.get(key, {}).values():
            yield from bad_property_names(inner, place)
    for key in (*_LISTED, *_SINGLE):
        for inner in schema.get(key, ()) if key in _LISTED else (schema.get(key),):
            yield from bad_property_names(inner, place)
