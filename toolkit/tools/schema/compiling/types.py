"""Look inside a type: the types it holds, and where bytes hide in it.

pydantic does the validating. This file closes two gaps before it starts: bytes
arrive from clients as base64 text, and `typing.TypedDict` is refused by pydantic
on Python 3.11.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions
from pydantic import AliasChoices, BaseModel, Field
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from toolkit.tools.schema.plain import text_of

_ALIAS_TYPES = (typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType))
_CONTAINERS = ("builtins", "collections", "collections.abc")
_URL_ALPHABET = str.maketrans("-_", "+/")


class NotBase64Error(ValueError):
    """Text where bytes are wanted, and it is no base64."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def field_hints(cls: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, pydantic model, TypedDict or NamedTuple; None for any other type."""
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return {name: _with_metadata(info) for name, info in cls.model_fields.items()}
    if dataclasses.is_dataclass(cls) or is_typeddict(cls) or _is_named_tuple(cls):
        return typing_extensions.get_type_hints(cls, include_extras=True)
    return None


def _with_metadata(field: FieldInfo) -> Any:
    """A model's field as it was written: pydantic keeps what stood in `Annotated` apart."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def wire_names(cls: Any) -> dict[str, list[str]]:
    """The names under which a client may send the fields of a pydantic model that have an alias."""
    if not (isinstance(cls, type) and issubclass(cls, BaseModel)):
        return {}
    return {name: names for name, field in cls.model_fields.items() if (names := _aliases(field.validation_alias))}


def _aliases(alias: object) -> list[str]:
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [alias] if isinstance(alias, str) else []


def _is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_asdict")


def spelled_out(annotation: Any) -> Any:
    """The annotation as pydantic understands all of it.

    Text in an `Annotated` becomes a description, also inside a container or a union. An
    `Iterable` becomes a list: pydantic would check its items only while the tool reads them.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        texts = map(text_of, arguments[1:])
        rest = [
            own if text is None else Field(description=text) for own, text in zip(arguments[1:], texts, strict=True)
        ]
        return Annotated[(spelled_out(arguments[0]), *rest)]
    inside = tuple(map(spelled_out, arguments))
    if origin in (abc.Iterable, abc.Iterator):
        return list[inside]  # type: ignore[valid-type]
    if all(new is old for new, old in zip(inside, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[inside]  # noqa: UP007
    return origin[inside] if getattr(origin, "__module__", "") in _CONTAINERS else annotation


def has_validators(annotation: Any) -> bool:
    """Whether functions of its owner say what it takes."""
    if get_origin(annotation) is Annotated:
        return any(hasattr(each, "func") for each in annotation.__metadata__)
    decorators = getattr(annotation, "__pydantic_decorators__", None)
    kinds = ("validators", "field_validators", "root_validators", "model_validators")
    return any(getattr(decorators, kind, None) for kind in kinds)


def reachable(annotation: Any, *, stops_at: Callable[[Any], bool] | None = None) -> list[Any]:
    """Every type inside `annotation`, itself first; recursive types end. Each is one that pydantic can read."""
    found: list[Any] = []
    todo = [annotation]
    while todo:
        current = todo.pop()
        if any(current is known for known in found):
            continue
        found.append(current)
        if stops_at is not None and stops_at(current):
            continue
        meant = _meant(current)
        if meant is not current:
            todo.append(meant)
            continue
        arguments = get_args(current)
        todo.extend(arguments[:1] if get_origin(current) is Annotated else arguments)
        todo.extend(safe_field_hints(current).values())
        if sys.version_info < (3, 12):
            _admit_typed_dict(current)
    return found


def _meant(annotation: Any) -> Any:
    """The type that a NewType or a type alias stands for; the annotation itself where it is neither."""
    if isinstance(annotation, typing.NewType):
        return annotation.__supertype__
    return annotation.__value__ if isinstance(annotation, _ALIAS_TYPES) else annotation


def safe_field_hints(cls: Any) -> dict[str, Any]:
    """The fields of a class as above; none where a name in them is not defined."""
    try:
        return field_hints(cls) or {}
    except NameError:  # pydantic says so better, with the field's name
        return {}


def _admit_typed_dict(cls: Any) -> None:
    """Let pydantic read `typing.TypedDict` on Python 3.11, where it asks for the one of typing_extensions."""
    if is_typeddict(cls) and type(cls).__module__ == "typing" and "__get_pydantic_core_schema__" not in vars(cls):
        twin = _extensions_twin(cls)
        # Only a hook for pydantic is added, so that the class keeps its meaning everywhere else.
        cls.__get_pydantic_core_schema__ = classmethod(
            # Not `handler(twin)`, which looks at the schema it gets: that of a recursive class is not there yet.
            lambda _cls, _source, handler: handler.generate_schema(twin)
        )


def _extensions_twin(cls: Any) -> Any:
    fields = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        marked = get_origin(hint)
        bare = get_args(hint)[0] if marked in (typing.Required, typing.NotRequired) else hint
        # The class itself misreads markers in annotations that are text.
        required = marked is typing.Required or (marked is not typing.NotRequired and name in cls.__required_keys__)
        fields[name] = typing_extensions.Required[bare] if required else typing_extensions.NotRequired[bare]
    make: Any = typing_extensions.TypedDict
    twin = make(cls.__name__, fields)
    twin.__doc__ = cls.__doc__
    twin.__module__ = cls.__module__
    return twin


def wants_bytes(types_inside: Iterable[Any]) -> bool:
    """Whether one of these types is bytes."""
    return any(inside in (bytes, bytearray) for inside in types_inside)


def decode_bytes(annotation: Any, value: Any) -> Any:
    """The value with base64 text decoded wherever the type wants bytes; the rest is left alone."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if (meant := _meant(annotation)) is not annotation:
        return decode_bytes(meant, value)
    if origin in (Annotated, typing.Required, typing.NotRequired):
        return decode_bytes(arguments[0], value)
    if annotation in (bytes, bytearray):
        return _from_base64(value)
    if origin is None and isinstance(annotation, type):
        return _decode_fields(_sent_fields(annotation), value)
    if origin in (Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        if len(members) == 1:
            return decode_bytes(members[0], value)
        # Text that may be meant for another member is not ours to decode.
        is_ours = bytes in members and all(member in (bytes, bool, int, float) for member in members)
        return _from_base64(value) if is_ours else value
    if not isinstance(origin, type) or not arguments:
        return value
    if issubclass(origin, Mapping):
        is_ours = len(arguments) == 2 and isinstance(value, Mapping)
        return {key: decode_bytes(arguments[1], item) for key, item in value.items()} if is_ours else value
    if not issubclass(origin, Iterable) or not isinstance(value, list | tuple):
        return value
    if origin is tuple and arguments[1:] != (Ellipsis,):
        fits = len(value) == len(arguments)
        return [*map(decode_bytes, arguments, value)] if fits else value
    return [decode_bytes(arguments[0], item) for item in value]


def _decode_fields(hints: Mapping[str, Any], value: Any) -> Any:
    if hints and isinstance(value, Mapping):
        return {key: decode_bytes(hints[key], item) if key in hints else item for key, item in value.items()}
    if hints and isinstance(value, list):
        return [*map(decode_bytes, hints.values(), value)]
    return value


@lru_cache(maxsize=2048)
def _sent_fields(cls: type) -> Mapping[str, Any]:
    """The fields of a class under every name a client may send them by."""
    hints = safe_field_hints(cls)
    return {**hints, **{alias: hints[name] for name, aliases in wire_names(cls).items() for alias in aliases}}


def _from_base64(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        # Both alphabets are taken: the standard one, which we write, and the one for URLs.
        return base64.b64decode(value.translate(_URL_ALPHABET), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotBase64Error(value) from error
