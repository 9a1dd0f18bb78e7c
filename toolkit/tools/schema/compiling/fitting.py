"""Whether a value surely fits a plain schema. What is not sure is for jsonschema to say, which takes ten times as long.

Most results are plain and fit, and then jsonschema is not even loaded.
"""

from __future__ import annotations

from typing import Any

from toolkit.tools.schema.portable import Schema

_SAYS_NOTHING = {"title", "description", "default", "format", "contentEncoding", "examples"}
_KNOWN = _SAYS_NOTHING | {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf"}
_TYPES = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def is_plain(schema: Any) -> bool:
    """Whether `fits` knows every word of this schema."""
    if not isinstance(schema, dict) or not schema.keys() <= _KNOWN or not isinstance(schema.get("type", ""), str):
        return schema is True
    inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    more = [schema[key] for key in ("items", "additionalProperties") if schema.get(key, False) is not False]
    return all(map(is_plain, [*inside, *more]))


def fits(value: Any, schema: Any) -> bool:
    """Whether a value surely fits a schema that is plain; False where it may not."""
    if schema is True or not schema:
        return schema is not False
    kind = schema.get("type")
    if kind is not None and type(value) not in _TYPES.get(kind, ()):
        return False
    if "enum" in schema and not any(type(value) is type(each) and value == each for each in schema["enum"]):
        return False
    if "anyOf" in schema and not any(fits(value, each) for each in schema["anyOf"]):
        return False
    if type(value) is list and "items" in schema:
        items = schema["items"]
        return all(fits(each, items) for each in value)
    return type(value) is not dict or _fields_fit(value, schema)


def _fields_fit(value: dict[str, Any], schema: Schema) -> bool:
    if not all(name in value for name in schema.get("required", ())):
        return False
    properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    return all(fits(item, properties.get(name, more)) for name, item in value.items())
