"""A JSON Schema that somebody else wrote: compiled once, refused in words when it is none, and checked in words.

jsonschema does the validating. Nothing is loaded from the network: a schema holds everything it refers to.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit._base.words import did_you_mean
from toolkit.tools.plain_json import excerpt, odd_key
from toolkit.tools.schema.compiling.mended import mended
from toolkit.tools.schema.portable import Schema

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SHAPES: dict[str, type] = {
    **dict.fromkeys(_MAPS, dict),
    **dict.fromkeys(_LISTS, list),
    **dict.fromkeys(("$ref", "$dynamicRef"), str),
}
_PHRASES = {
    "minimum": "should be {} or more",
    "maximum": "should be {} or less",
    "exclusiveMinimum": "should be more than {}",
    "exclusiveMaximum": "should be less than {}",
    "multipleOf": "should be a multiple of {}",
    "minLength": "should have {} characters or more",
    "maxLength": "should have {} characters or fewer",
    "minItems": "should have {} items or more",
    "maxItems": "should have {} items or fewer",
    "minProperties": "should have {} fields or more",
    "maxProperties": "should have {} fields or fewer",
    "pattern": "should match {}",
    "const": "should be {}",
}


class NotASchemaError(ValueError):
    """Something given as a JSON Schema that is none; its text says why."""


def check_schema(schema: Mapping[str, Any]) -> Any:
    """The class of validators for a JSON Schema, of the draft it names, else of 2020-12.

    Raises:
        NotASchemaError: that draft does not allow it.
    """
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    draft = schema.get("$schema", "")
    if not isinstance(draft, str):
        raise NotASchemaError(f"$schema: {excerpt(draft)} names no draft; leave it out, or give the address of one")
    make = validator_for(schema, default=Draft202012Validator)
    try:
        make.check_schema(schema)
    except SchemaError as error:
        place = _place(error.absolute_path) or "at the top"
        raise NotASchemaError(f"{place}: {error.message}") from error
    return make


class GivenSchema:
    """A schema as it was given, with its validator.

    Raises:
        NotASchemaError: it is no JSON Schema of an object, or refers to something it does not hold.
    """

    def __init__(self, schema: object) -> None:
        try:
            self.schema = plain_copy(schema)
            """A copy, equal to what was given."""
            self._validator = self._checked()
        except RecursionError as error:
            raise NotASchemaError("it is nested too deep") from error

    def _checked(self) -> Any:
        """The validator, once nothing is found against the schema."""
        make = check_schema(self.schema)
        if self.schema.get("type") != "object":
            raise NotASchemaError('it says nothing of an object; MCP wants "type": "object" at the top')
        for inner in _schemas_in(self.schema):
            if "$id" in inner and inner is not self.schema:
                raise NotASchemaError(f"a schema inside it has an address of its own ({inner['$id']!r}); leave it out")
            _refuse_misshapen(inner)
            _refuse_reference(inner, self.schema)
        # Named again, the draft would bring back its own class wherever the schema refers to itself.
        return mended(make)({key: value for key, value in self.schema.items() if key != "$schema"})

    def problems(self, value: Any, whole: str = "the arguments") -> list[str]:
        """What does not fit, one line each, in words a model can act on; empty when everything does.

        `whole` is what the value is called where all of it does not fit.
        """
        try:
            errors = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
        except RecursionError:
            return [f"{whole}: nested too deep"]
        return [*dict.fromkeys(line for error in errors for line in _in_words(error, whole))]


def plain_copy(schema: object) -> Schema:
    """A schema of one's own, once it is known that JSON has all of it.

    Raises:
        NotASchemaError: it has not.
    """
    if not isinstance(schema, Mapping):
        raise NotASchemaError(f"it is of type {type(schema).__name__}, not a dict")
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotASchemaError(f"it is not JSON: {error}") from error
    if odd := odd_key(schema):
        raise NotASchemaError(f"it is not JSON: the key {odd[0]!r} in it is no text")
    return copy.deepcopy(dict(schema))


def _schemas_in(schema: Any) -> Iterator[Schema]:
    """The schema and every schema in it; values such as defaults and examples are none."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            inside = list(value.values())
        elif key in _LISTS and isinstance(value, list):
            inside = value
        else:
            inside = [] if key in ("default", "const", "enum", "examples") else [value]
        for inner in inside:
            yield from _schemas_in(inner)


def _refuse_misshapen(schema: Schema) -> None:
    """Raise for a keyword that its draft does not know, and so allows to be anything, where others read it."""
    for key, kind in _SHAPES.items():
        if not isinstance(schema.get(key, kind()), kind):
            raise NotASchemaError(f"{key}: {excerpt(schema[key])} is of the wrong type")


def _refuse_reference(schema: Schema, root: Schema) -> None:
    reference = schema.get("$ref", schema.get("$dynamicRef"))
    if reference is None:
        return
    if not reference.startswith("#"):
        raise NotASchemaError(f"it refers to {reference!r}; put what is meant under $defs, nothing is loaded")
    if not _is_held(reference, root):
        raise NotASchemaError(f"it refers to {reference!r}, which it does not hold")


def _is_held(reference: str, root: Schema) -> bool:
    if not reference.startswith("#/"):
        names = (each.get(key) for each in _schemas_in(root) for key in ("$anchor", "$dynamicAnchor"))
        return reference == "#" or reference[1:] in names
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            return False
    return isinstance(found, dict | bool)


def _in_words(error: Any, whole: str) -> list[str]:
    place, value, wanted = _place(error.absolute_path), error.instance, error.validator_value
    match error.validator:
        case "required":
            return [f"{_joined(place, name)}: missing" for name in wanted if name not in value]
        case "additionalProperties" if wanted is False:
            known = error.schema.get("properties", {})
            patterns = error.schema.get("patternProperties", {})
            extra = [n for n in value if n not in known and not any(re.search(each, n) for each in patterns)]
            what = "no such argument" if not place and whole == "the arguments" else "no such field"
            return [f"{_joined(place, name)}: {what}{did_you_mean(name, known)}" for name in extra]
        case "type":
            wanted = [wanted] if isinstance(wanted, str) else wanted
            message = f"should be {' or '.join(map(_with_article, wanted))}"
        case "enum":
            message = f"should be {' or '.join(map(excerpt, wanted))}"
        case "anyOf" | "oneOf" if error.context:
            lines = [line for each in error.context for line in _in_words(each, whole)]
            message = ", or ".join(dict.fromkeys(line.partition(": ")[2].partition("; got ")[0] for line in lines))
        case "false" | None:
            message = "nothing may stand here"
        case "items" if wanted is False:
            message = _PHRASES["maxItems"].format(len(error.schema.get("prefixItems", ())))
        case known if known in _PHRASES:
            message = _PHRASES[known].format(excerpt(wanted))
        case other:
            message = f"does not fit {other!r} in the schema"
    return [f"{place or whole}: {message}; got {excerpt(value)}"]


def _place(path: Any) -> str:
    place = ""
    for step in path:
        place = f"{place}[{step}]" if isinstance(step, int) else _joined(place, step)
    return place


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _with_article(name: str) -> str:
    return name if name == "null" else f"{'an' if name[0] in 'aio' else 'a'} {name}"
