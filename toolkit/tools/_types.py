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
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions
from pydantic import BaseModel

from toolkit.tools._words import shown

_URL_ALPHABET = str.maketrans("-_", "+/")

Decoder = Callable[[Any], Any]
"""Turns base64 text into bytes wherever the type wants bytes; leaves the rest alone."""


class NotBase64Error(ValueError):
    """Text where bytes are wanted, and it is no base64."""


def field_hints(cls: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, pydantic model, TypedDict or NamedTuple; None for any other type."""
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return {name: info.annotation for name, info in cls.model_fields.items()}
    if dataclasses.is_dataclass(cls) or is_typed_dict(cls) or is_named_tuple(cls):
        return typing_extensions.get_type_hints(cls, include_extras=True)
    return None


def is_typed_dict(cls: Any) -> bool:
    """A TypedDict, of typing or of typing_extensions."""
    return typing_extensions.is_typeddict(cls)


def is_named_tuple(cls: Any) -> bool:
    """A class made by typing.NamedTuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_asdict")


def reachable(annotation: Any) -> list[Any]:
    """Every type inside `annotation`, itself first; recursive types end."""
    found: list[Any] = []
    todo = [annotation]
    while todo:
        current = todo.pop()
        if any(current is known for known in found):
            continue
        found.append(current)
        arguments = get_args(current)
        todo.extend(arguments[:1] if get_origin(current) is Annotated else arguments)
        todo.extend(_safe_field_hints(current).values())
    return found


def _safe_field_hints(cls: Any) -> dict[str, Any]:
    try:
        return field_hints(cls) or {}
    except NameError:  # pydantic says so better, with the field's name
        return {}


def admit_typed_dicts(types_inside: Iterable[Any]) -> None:
    """Let pydantic read `typing.TypedDict` on Python 3.11, where it asks for the one of typing_extensions."""
    if sys.version_info >= (3, 12):
        return
    for cls in types_inside:
        if is_typed_dict(cls) and type(cls).__module__ == "typing" and "__get_pydantic_core_schema__" not in vars(cls):
            twin = _extensions_twin(cls)
            # The hook names no state of its own, so that the class keeps its meaning everywhere else.
            cls.__get_pydantic_core_schema__ = classmethod(lambda _cls, _source, handler, twin=twin: handler(twin))


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


def bytes_decoder(annotation: Any) -> Decoder | None:
    """What turns base64 text into bytes inside a value of this type; None where no bytes are wanted."""
    if not any(inside in (bytes, bytearray) for inside in reachable(annotation)):
        return None
    return _Decoders().of(annotation)


class _Decoders:
    """Decoders by type, so that a recursive type finds the one that is being made for it."""

    def __init__(self) -> None:
        self._known: dict[int, Decoder] = {}

    def of(self, annotation: Any) -> Decoder:
        known = self._known.get(id(annotation))
        if known is not None:
            return known
        made: list[Decoder] = []
        self._known[id(annotation)] = lambda value: made[0](value)
        made.append(self._make(annotation))
        return made[0]

    def _make(self, annotation: Any) -> Decoder:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin in (Annotated, typing.Required, typing.NotRequired):
            return self.of(arguments[0])
        if annotation in (bytes, bytearray):
            return _decode
        fields = _safe_field_hints(annotation)
        if fields:
            return _in_fields({name: self.of(hint) for name, hint in fields.items()})
        if origin in (Union, types.UnionType):
            members = [a for a in arguments if a is not type(None)]
            # Text that may be a plain str is not ours to decode.
            return self.of(members[0]) if len(members) == 1 else _same
        if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
            return _in_mapping(self.of(arguments[1]))
        if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
            return _in_order([self.of(a) for a in arguments])
        if arguments and isinstance(origin, type) and issubclass(origin, Iterable):
            return _in_items(self.of(arguments[0]))
        return _same


def _same(value: Any) -> Any:
    return value


def _decode(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        # Both alphabets: pydantic writes the one for URLs, most clients the other.
        return base64.b64decode(value.translate(_URL_ALPHABET), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotBase64Error(f"should be base64 text; got {shown(value)}") from error


def _in_fields(decoders: dict[str, Decoder]) -> Decoder:
    def decode(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: decoders.get(key, _same)(item) for key, item in value.items()}
        if isinstance(value, list):
            return [decoder(item) for decoder, item in zip(decoders.values(), value, strict=False)]
        return value

    return decode


def _in_mapping(decoder: Decoder) -> Decoder:
    return lambda value: {k: decoder(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _in_items(decoder: Decoder) -> Decoder:
    return lambda value: [decoder(item) for item in value] if isinstance(value, list | tuple) else value


def _in_order(decoders: list[Decoder]) -> Decoder:
    def decode(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(decoders):
            return value
        return [decoder(item) for decoder, item in zip(decoders, value, strict=True)]

    return decode
