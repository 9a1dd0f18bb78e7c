"""Read `key=value` words as the arguments of a tool.

`key=value` takes the type the tool's schema asks for, `key:=json` is JSON as it
stands. A key given several times is a list. What does not fit the schema is passed on
as text: the tool's own validation then says what is wrong, in the words a model reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from toolkit.errors import MistypedArguments

Schema = Mapping[str, Any]

_KINDS = {
    type(None): {"null"},
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    list: {"array"},
    dict: {"object"},
}
"""The JSON types that a parsed value has."""


def parse_arguments(words: Iterable[str], schema: Schema) -> dict[str, Any]:
    """The arguments that `words` give, typed by a tool's input schema.

    Raises:
        MistypedArguments: a word is not `key=value`, its JSON is broken, or a key is given twice.
    """
    texts: dict[str, list[str]] = {}
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise MistypedArguments(f"'{word}' is not key=value (or key:=json)")
        if key in arguments or (is_json and key in texts):
            raise MistypedArguments(f"'{key}' is given twice")
        if is_json:
            arguments[key] = _json(word, key, text)
        else:
            texts.setdefault(key, []).append(text)
    properties = schema.get("properties", {})
    for key, given in texts.items():
        part = properties.get(key, {})
        if given == ["null"] and _is_none_when_left_out(key, part, schema):
            arguments[key] = None
        else:
            arguments[key] = _value(key, given, part, schema)
    return arguments


def describe_arguments(schema: Schema) -> list[str]:
    """Each argument as `name: type`, `name: type = default`, or `name?: type` where leaving it out means nothing."""
    required = set(schema.get("required", ()))
    described = []
    for name, part in schema.get("properties", {}).items():
        default = part.get("default")
        if name in required:
            described.append(f"{name}: {type_name(part, schema)}")
        elif default is None:
            described.append(f"{name}?: {type_name(part, schema).removesuffix(' or null')}")
        else:
            described.append(f"{name}: {type_name(part, schema)} = {json.dumps(default, ensure_ascii=False)}")
    return described


def usage(schema: Schema) -> str:
    """The words a call takes: `folder=STRING [limit=INTEGER] [tags=STRING]...`."""
    required = set(schema.get("required", ()))
    words = []
    for name, part in schema.get("properties", {}).items():
        types = _types(part, schema)
        sign, what = (":=", "JSON") if "object" in types else ("=", _placeholder(part, schema))
        word = f"{name}{sign}{what}"
        words.append((word if name in required else f"[{word}]") + ("..." if "array" in types else ""))
    return " ".join(words)


def type_name(part: Schema, root: Schema) -> str:
    """A schema in one short word or a few: `integer`, `list of string`, `"a" or "b"`."""
    part = _resolved(part, root)
    if "const" in part:
        return json.dumps(part["const"], ensure_ascii=False)
    if "enum" in part:
        return " or ".join(json.dumps(choice, ensure_ascii=False) for choice in part["enum"])
    choices = part.get("anyOf") or part.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(type_name(choice, root) for choice in choices))
    kind = part.get("type", "any")
    names = [kind] if isinstance(kind, str) else list(kind)
    items = part.get("items")
    if "array" in names and items:
        names[names.index("array")] = f"list of {type_name(items, root)}"
    return " or ".join("list" if name == "array" else name for name in names)


def _placeholder(part: Schema, root: Schema) -> str:
    part = _items(part, root) or _resolved(part, root)
    if choices := _choices(part, root):
        return "|".join(str(choice) for choice in choices)
    types = _types(part, root) - {"null"}
    return types.pop().upper() if len(types) == 1 else "VALUE"


def _json(word: str, key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise MistypedArguments(f"'{word}': what follows {key}:= is not JSON ({error.msg})") from None


def _is_none_when_left_out(key: str, part: Schema, root: Schema) -> bool:
    """Whether null means what leaving it out means, though the schema has no word of null."""
    types = _types(part, root)
    return key not in root.get("required", ()) and "default" not in part and bool(types) and "string" not in types


def _value(key: str, texts: list[str], part: Schema, root: Schema) -> Any:
    types = _types(part, root)
    if len(texts) > 1 and types and "array" not in types:
        raise MistypedArguments(f"'{key}' is given {len(texts)} times, but it is not a list")
    if len(texts) == 1:
        whole = _scalar(texts[0], part, root)
        if "array" not in types or "string" in types or not isinstance(whole, str):
            return whole
    items = _items(part, root)
    return [_scalar(text, items, root) for text in texts]


def _scalar(text: str, part: Schema, root: Schema) -> Any:
    """One word as the first type of the schema it can be read as; the word itself when it fits none."""
    part = _resolved(part, root)
    for choice in _choices(part, root):
        if text in (choice, json.dumps(choice)):
            return choice
    types = _types(part, root)
    if "string" in types or not types:
        return text
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if _KINDS.get(type(value), set()) & types else text  # for a quoted string the word itself is meant


def _choices(part: Schema, root: Schema) -> list[Any]:
    """The values that a schema lists, those of its alternatives included."""
    part = _resolved(part, root)
    own = part.get("enum", [part["const"]] if "const" in part else [])
    inside = (*part.get("anyOf", ()), *part.get("oneOf", ()))
    return [*own, *(value for choice in inside for value in _choices(choice, root))]


def _types(part: Schema, root: Schema) -> set[str]:
    """The JSON types a schema accepts; none when it accepts everything."""
    part = _resolved(part, root)
    kind = part.get("type", [])
    types = {kind} if isinstance(kind, str) else set(kind)
    for choice in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        types |= _types(choice, root)
    return types


def _items(part: Schema, root: Schema) -> Schema:
    part = _resolved(part, root)
    if "items" in part:
        items = part["items"]
        return items if isinstance(items, Mapping) else {}
    for choice in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        if found := _items(choice, root):
            return found
    return {}


def _resolved(part: Schema, root: Schema) -> Schema:
    """The schema itself, or what its `$ref` points to inside `root`."""
    for _ in range(10):  # a reference to a reference is legal, a circle of them is not
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return part
        found: Any = root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        part = found
    return {}
