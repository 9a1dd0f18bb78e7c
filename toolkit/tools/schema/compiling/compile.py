"""Compile an annotation once: a validator, its JSON Schema, and the small repairs before validation.

The schema is pydantic's in the form Claude and strict clients like. It loses what only
costs tokens or trips clients: `$ref` is inlined unless the type is recursive, noise
titles go, a constant is an enumeration of one, objects are closed.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import SchemaValidator, core_schema

from toolkit.tools.schema.compiling.types import (
    decode_bytes,
    field_hints,
    has_validators,
    reachable,
    wants_bytes,
    wire_names,
)
from toolkit.tools.schema.compiling.unusable import (
    refuse_host_paths,
    refuse_unreadable,
    refuse_unsendable,
    told_in_one_way,
)
from toolkit.tools.schema.docstring import description, parameter_texts
from toolkit.tools.schema.plain import annotated_text
from toolkit.tools.schema.portable import Schema, portable, tidied

_PREFIX = "#/$defs/"


@dataclass(frozen=True, slots=True)
class CompiledType:
    """One annotation, compiled."""

    validator: SchemaValidator
    schema: Schema
    """Says exactly what is accepted."""
    definitions: dict[str, Schema]
    shown: Schema
    """The same as clients are shown it, in the words that most of them know."""
    shown_definitions: dict[str, Schema]
    annotation: Any
    has_bytes: bool
    reads_json: bool
    """Wants a list or an object and never text: a JSON string can only be meant as its content."""
    refuses_extra: bool

    def prepare(self, value: Any) -> Any:
        """The value with JSON text read and base64 decoded, where the type wants that."""
        if self.reads_json and type(value) is str:
            value = from_json_text(value)
        return decode_bytes(self.annotation, value) if self.has_bytes else value

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
        UnusableTypeError: nor can it the type with what stands beside it.
    """
    try:
        return _compile_shared(annotation)
    except TypeError:  # metadata such as Field(...) has no hash
        return _compile(annotation)


@told_in_one_way()
def _compile(annotation: Any) -> CompiledType:
    inside = reachable(annotation)
    refuse_unsendable(reachable(annotation, stops_at=has_validators))
    has_bytes = wants_bytes(inside)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    refuse_host_paths(inside)
    schema, definitions = _make_schema(adapter.core_schema, inside)
    validator = adapter.validator
    assert isinstance(validator, SchemaValidator)
    return CompiledType(
        validator=validator,
        schema=schema,
        definitions=definitions,
        shown=portable(schema),
        shown_definitions={name: portable(each) for name, each in definitions.items()},
        annotation=annotation,
        has_bytes=has_bytes,
        reads_json=reads_json(schema, definitions),
        refuses_extra=not any(_allows_extra(cls) for cls in inside),
    )


_compile_shared = lru_cache(maxsize=2048)(_compile)


def _allows_extra(cls: Any) -> bool:
    """Whether a model, or a dataclass or TypedDict with a pydantic config, says so itself."""
    configs = (getattr(cls, name, None) for name in ("model_config", "__pydantic_config__"))
    return any(isinstance(config, dict) and config.get("extra") == "allow" for config in configs)


def reads_json(schema: Schema, definitions: dict[str, Schema]) -> bool:
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


def from_json_text(text: str) -> Any:
    """The list or object that a text holds; the text itself where it holds none."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    return parsed if isinstance(parsed, list | dict) or parsed is None else text


@told_in_one_way()
def compile_output(annotation: Any) -> tuple[Schema, dict[str, Schema], TypeAdapter[Any], bool]:
    """The schema, definitions and adapter for values of this type going out, and whether they hold bytes.

    Raises:
        As `compile_type`.
    """
    inside = reachable(annotation)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return *_make_schema(adapter.core_schema, inside, "serialization"), adapter, wants_bytes(inside)


def _make_schema(
    core: Any, types_inside: Iterable[Any], mode: JsonSchemaMode = "validation"
) -> tuple[Schema, dict[str, Schema]]:
    """The schema of one type, and the definitions it still refers to (recursive types only)."""
    noise = frozenset(getattr(cls, "__name__", "") for cls in types_inside)
    raw = _Generator(ref_template=_PREFIX + "{model}").generate(core, mode=mode)
    definitions = raw.pop("$defs", {})
    recursive = {name for name in definitions if name in _references(definitions[name], definitions)}
    schema = tidied(_inline(raw, definitions, recursive), noise)
    kept = {name for name in recursive if name in _references(raw, definitions)}
    inside = {name: tidied(_inline(definitions[name], definitions, recursive), noise) for name in sorted(kept)}
    for made in (schema, *inside.values()):
        refuse_unreadable(made)
    return schema, inside


class _Generator(GenerateJsonSchema):
    """pydantic's generator, with field descriptions read from `Annotated` text and class docstrings."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """A default that JSON cannot say is simply left out."""

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        return {"type": "string", "contentEncoding": "base64"}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        if self.mode == "validation":
            for field in dataclasses.fields(schema["cls"]):
                if not field.init:  # the class sets it itself and takes it from nobody
                    made.get("properties", {}).pop(field.name, None)
        return _described(schema["cls"], made)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _described(schema["cls"], super().model_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _described(schema.get("cls"), super().typed_dict_schema(schema))

    def named_tuple_schema(self, schema: core_schema.NamedTupleSchema) -> JsonSchemaValue:
        """Its names mean more to a model than its order; results stay the arrays they are."""
        if self.mode == "serialization":
            return super().named_tuple_schema(schema)
        fields = schema["fields"]
        named: Schema = {
            "type": "object",
            "properties": {field["name"]: self.generate_inner(field["schema"]) for field in fields},
        }
        required = [field["name"] for field in fields if field["schema"]["type"] != "default"]
        return _described(schema["cls"], {**named, "required": required} if required else named)


def _described(cls: Any, schema: Schema) -> Schema:
    """`schema` with its fields described by `Annotated` text or by the docstring of their class."""
    properties = schema.get("properties")
    if not properties:
        return schema
    if "description" in schema:
        schema["description"] = description(schema["description"])
    documented = parameter_texts(inspect.getdoc(cls))
    sent = wire_names(cls)
    for field, hint in (field_hints(cls) or {}).items():
        own = next((properties[name] for name in [*sent.get(field, ()), field] if name in properties), None)
        text = annotated_text(hint) or documented.get(field)
        if own is not None and text and "description" not in own:
            own["description"] = text
    return schema


def _reference(schema: Any) -> str | None:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else None


def _references(schema: Any, definitions: dict[str, Schema]) -> set[str]:
    """Every definition that `schema` reaches."""
    found: set[str] = set()
    todo = [schema]
    while todo:
        current = todo.pop()
        if isinstance(current, list):
            todo.extend(current)
        elif isinstance(current, dict):
            name = _reference(current)
            if name is not None and name not in found:
                found.add(name)
                todo.append(definitions.get(name))
            todo.extend(current.values())
    return found


def _inline(schema: Any, definitions: dict[str, Schema], keep: set[str]) -> Any:
    """`schema` with every reference replaced by what it refers to, recursive ones left."""
    if isinstance(schema, list):
        return [_inline(item, definitions, keep) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = _reference(schema)
    if name is None or name in keep or name not in definitions:
        return {key: _inline(value, definitions, keep) for key, value in schema.items()}
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**_inline(definitions[name], definitions, keep), **_inline(beside, definitions, keep)}
