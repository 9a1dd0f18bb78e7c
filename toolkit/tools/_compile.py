"""Compile an annotation once: a validator, its JSON Schema, and the small repairs before validation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from toolkit.tools._schema import Schema, make_schema
from toolkit.tools._types import Decoder, admit_typed_dicts, bytes_decoder, reachable


@dataclass(frozen=True, slots=True)
class CompiledType:
    """One annotation, compiled."""

    validator: SchemaValidator
    schema: Schema
    definitions: dict[str, Schema]
    decode: Decoder | None
    reads_json: bool
    """Wants a list or an object and never text: a JSON string can only be meant as its content."""
    refuses_extra: bool

    def prepare(self, value: Any) -> Any:
        """The value with JSON text read and base64 decoded, where the type wants that."""
        if self.reads_json and type(value) is str:
            value = _from_json(value)
        return value if self.decode is None else self.decode(value)

    def validate(self, value: Any) -> Any:
        """The Python value.

        Raises:
            pydantic.ValidationError: it does not fit.
            NotBase64Error: text that should be base64 is not.
        """
        value = self.prepare(value)
        if self.refuses_extra:
            return self.validator.validate_python(value, extra="forbid")
        return self.validator.validate_python(value)


def compile_type(annotation: Any) -> CompiledType:
    """What values of this type need on their way in; shared between all tools that use the type.

    Raises:
        pydantic.PydanticUserError: JSON cannot carry the type.
    """
    try:
        return _compile_shared(annotation)
    except TypeError:  # metadata such as Field(...) has no hash
        return _compile(annotation)


def _compile(annotation: Any) -> CompiledType:
    inside = reachable(annotation)
    admit_typed_dicts(inside)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    schema, definitions = make_schema(adapter.core_schema, inside)
    validator = adapter.validator
    assert isinstance(validator, SchemaValidator)
    return CompiledType(
        validator=validator,
        schema=schema,
        definitions=definitions,
        decode=bytes_decoder(annotation),
        reads_json=_reads_json(schema, definitions),
        refuses_extra=not any(_allows_extra(cls) for cls in inside),
    )


_compile_shared = lru_cache(maxsize=2048)(_compile)


def _allows_extra(cls: Any) -> bool:
    """Whether a model, or a dataclass or TypedDict with a pydantic config, says so itself."""
    configs = (getattr(cls, name, None) for name in ("model_config", "__pydantic_config__"))
    return any(isinstance(config, dict) and config.get("extra") == "allow" for config in configs)


def _reads_json(schema: Schema, definitions: dict[str, Schema]) -> bool:
    """Whether the schema takes lists or objects and never text."""
    types: set[str] = set()
    todo = [schema]
    for _ in range(100):
        if not todo:
            break
        current = todo.pop()
        reference = str(current.get("$ref", "")).rpartition("/")[2]
        alternatives = current.get("anyOf") or current.get("oneOf")
        if reference:
            current = definitions.get(reference, {})
        if alternatives:
            todo.extend(alternatives)
        else:
            own = current.get("type", "string")
            types.update([own] if isinstance(own, str) else own)
    return bool(types & {"array", "object"}) and "string" not in types


def _from_json(text: str) -> Any:
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    return parsed if isinstance(parsed, list | dict) or parsed is None else text


def compile_output(annotation: Any) -> tuple[Schema, dict[str, Schema], TypeAdapter[Any]]:
    """The schema, definitions and adapter for values of this type going out."""
    inside = reachable(annotation)
    admit_typed_dicts(inside)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return *make_schema(adapter.core_schema, inside, "serialization"), adapter
