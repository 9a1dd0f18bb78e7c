"""The form that a question shows: a type as the few kinds of fields that clients know, and an answer as its value.

Fields are text, numbers, yes or no, and choices. A single value is a form of one field; a dataclass, model or TypedDict
is one with its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import PydanticUserError, ValidationError

from toolkit.errors import ToolError, ToolkitError
from toolkit.tools.plain_json import excerpt
from toolkit.tools.schema.compiling import CompiledType, UnusableTypeError, compile_type

SINGLE = "answer"
"""The name of the one field of a plain type."""
_WORDS = "type title description default enum enumNames oneOf items format"
_BOUNDS = "minLength maxLength minimum maximum minItems maxItems"
_KEPT = frozenset(f"{_WORDS} {_BOUNDS}".split())
_FORMATS = ("email", "uri", "date", "date-time")
_PLAIN = ("string", "number", "integer", "boolean")
_FIX = "Ask for str, int, float, bool, a Literal, an enum, a list of choices, or a dataclass with such fields"


@dataclass(frozen=True, slots=True)
class Form:
    """One type as a form."""

    schema: dict[str, Any]
    """The JSON Schema of the fields, in the part of JSON Schema that the protocol allows here."""
    is_single: bool
    compiled: CompiledType

    def value(self, content: Mapping[str, Any] | None) -> Any:
        """The typed answer.

        Raises:
            ToolError: what was filled in does not fit.
        """
        given: Any = dict(content or {})
        if self.is_single:
            if SINGLE not in given:
                raise ToolError("the answer is missing")
            given = given[SINGLE]
        try:
            return self.compiled.validate(given)
        except (ValidationError, ValueError) as error:
            why = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise ToolError(f"the answer does not fit: {why}; got {excerpt(given)}") from error

    def defaults(self) -> dict[str, Any] | None:
        """The answer that leaves everything as it is; None where a field has no default."""
        properties = self.schema["properties"]
        if any("default" not in properties[name] for name in self.schema.get("required", ())):
            return None
        return {name: own["default"] for name, own in properties.items() if "default" in own}


def read_form(annotation: Any) -> Form:
    """The form for a type.

    Raises:
        ToolkitError: a field of it is nothing that a client can show.
    """
    try:
        compiled = compile_type(annotation)
    except PydanticUserError as error:
        raise ToolkitError(f"nobody can be asked for {_named(annotation)}", fix=_FIX) from error
    except UnusableTypeError as error:
        raise ToolkitError(f"nobody can be asked for {_named(annotation)}: {error}", fix=error.fix) from error
    shown = compiled.shown
    is_single = "properties" not in shown
    properties = {SINGLE: shown} if is_single else shown["properties"]
    fields = {name: _field(name, own, annotation) for name, own in properties.items()}
    required = [SINGLE] if is_single else shown.get("required", [])
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    return Form(schema, is_single, compiled)


def _field(name: str, schema: Mapping[str, Any], annotation: Any) -> dict[str, Any]:
    own = {key: value for key, value in _choices(dict(schema)).items() if key in _KEPT}
    if own.get("format") not in (None, *_FORMATS):
        del own["format"]
    if own.get("type") in _PLAIN and not ("enum" in own and own["type"] != "string"):
        return own
    if own.get("type") == "array":
        items = _choices(dict(own.get("items") or {}))
        if "enum" in items or "anyOf" in items or "oneOf" in items:
            kept = {"anyOf": items["oneOf"]} if "oneOf" in items else items
            return {**own, "items": {key: value for key, value in kept.items() if key in ("type", "enum", "anyOf")}}
    what = _named(annotation) if name == SINGLE else f"the field '{name}' of {_named(annotation)}"
    raise ToolkitError(f"nobody can be asked for {what}: no form has such a field", fix=_FIX)


def _choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Choices with titles in the words that forms have for them; our schemas of arguments write them otherwise."""
    members = schema.get("anyOf") or schema.get("oneOf")
    values = [_only_value(each) for each in members or ()]
    if not members or not all(isinstance(value, str) for value in values):
        return schema
    titled = [{"const": value, "title": each.get("title", value)} for value, each in zip(values, members, strict=True)]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    return {"type": "string", **rest, "oneOf": titled}


def _only_value(member: Any) -> Any:
    """The one value that an alternative allows; None where it allows more."""
    allowed = [member["const"]] if "const" in member else member.get("enum", ())
    return allowed[0] if len(allowed) == 1 else None


def _named(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)
