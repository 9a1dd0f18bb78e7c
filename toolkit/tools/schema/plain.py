"""The schemas of plain types, written without pydantic: loading it takes longer than all else at a server's start.

What is written here is what pydantic makes of the same type, to the letter: tests draw types and compare. Of
whatever this file does not know for certain it writes nothing, and pydantic is asked.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import types
import typing
from collections.abc import Iterable
from typing import Annotated, Any, Union, get_args, get_origin

from toolkit.tools.schema.docstring import description, parameter_texts
from toolkit.tools.schema.portable import NULL, Schema, tidied
from toolkit.tools.workspace_path import SENTENCE, WorkspacePath, holds_place

_TEXT: Schema = {"type": "string"}
_LIST: Schema = {"items": {}, "type": "array"}
_SET: Schema = {**_LIST, "uniqueItems": True}
_BY_TYPE: dict[Any, Schema] = {
    Any: {},
    type(None): NULL,
    str: _TEXT,
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"contentEncoding": "base64", **_TEXT},
    list: _LIST,
    tuple: _LIST,
    set: _SET,
    frozenset: _SET,
    dict: {"additionalProperties": True, "type": "object"},
}
_BY_NAME: dict[str, Schema] = {
    "pathlib.Path": {"format": "path", **_TEXT},
    "datetime.datetime": {"format": "date-time", **_TEXT},
    "datetime.date": {"format": "date", **_TEXT},
    "datetime.time": {"format": "time", **_TEXT},
    "datetime.timedelta": {"format": "duration", **_TEXT},
    "uuid.UUID": {"format": "uuid", **_TEXT},
}
"""The same for classes that nobody need have loaded."""
_NAMES = {str: "string", int: "integer", bool: "boolean"}
_IN_WORKSPACE = get_args(WorkspacePath)[1]
_PYDANTICS = {"__parameters__", "__pydantic_config__", "__get_pydantic_core_schema__", "__get_pydantic_json_schema__"}
"""What a class has that tells pydantic more than its fields do."""


class _Unknown(Exception):
    """Something that only pydantic knows."""


def plain_schema(annotation: Any) -> Schema | None:
    """What `compile_type` would say of this type; None where it has to be asked."""
    try:
        schema: Schema = tidied(_written(annotation, (), has_texts=True))
    except _Unknown:
        return None
    return schema


def text_of(metadata: object) -> str | None:
    """The description in an `Annotated` argument: a plain string, or PEP 727's `Doc`."""
    if isinstance(metadata, str):
        return metadata
    documentation = getattr(metadata, "documentation", None)
    return documentation if isinstance(documentation, str) else None


def text_in(metadata: Iterable[object]) -> str | None:
    """The first description among the arguments of an `Annotated`."""
    return next((text for text in map(text_of, metadata) if text), None)


def annotated_text(hint: Any) -> str | None:
    """The description that a field's type carries, also in a union."""
    if get_origin(hint) in (Union, types.UnionType):
        return next((text for text in map(annotated_text, get_args(hint)) if text), None)
    if get_origin(hint) is not Annotated:
        return None
    return text_in(get_args(hint)[1:])


def _written(annotation: Any, within: tuple[type, ...], *, has_texts: bool) -> Schema:
    """The schema before it is tidied. `within` are the classes it lies in; in them, texts are those of their fields."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:], within, has_texts=has_texts)
    if origin is typing.Literal:
        return _enumerated(arguments)
    if origin in (Union, types.UnionType):
        return _union(arguments, within, has_texts=has_texts)
    if origin is not None and arguments:
        inside = [each if each is Ellipsis else _written(each, within, has_texts=has_texts) for each in arguments]
        return _container(origin, arguments, inside)
    if origin is tuple:
        raise _Unknown  # of no items, or of any
    known = _known(origin or annotation)
    return _of_class(annotation, within) if known is None else dict(known)


def _known(annotation: Any) -> Schema | None:
    try:
        return _BY_TYPE[annotation]
    except (KeyError, TypeError):
        is_class = isinstance(annotation, type)
        return _BY_NAME.get(f"{annotation.__module__}.{annotation.__qualname__}") if is_class else None


def _annotated(bare: Any, metadata: tuple[Any, ...], within: tuple[type, ...], *, has_texts: bool) -> Schema:
    is_in_workspace = metadata[0] is _IN_WORKSPACE
    texts = [*map(text_of, metadata[1:] if is_in_workspace else metadata)]
    if not all(texts):
        raise _Unknown
    if is_in_workspace:
        return {"description": SENTENCE, **_TEXT}
    schema = _written(bare, within, has_texts=has_texts)
    return _with(schema, bare, {"description": texts[-1]}) if has_texts else schema


def _with(schema: Schema, annotation: Any, more: Schema) -> Schema:
    """A schema with more keys: all in order, but beside those of a class, which pydantic refers to."""
    if _is_referred_to(annotation):
        return {**schema, **dict(sorted(more.items()))}
    return dict(sorted({**schema, **more}.items()))


def _is_referred_to(annotation: Any) -> bool:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return isinstance(bare, type) and get_origin(bare) is None and _known(bare) is None


def _union(members: tuple[Any, ...], within: tuple[type, ...], *, has_texts: bool) -> Schema:
    kept = [_written(each, within, has_texts=has_texts) for each in members if each is not type(None)]
    if any("anyOf" in each or kept.count(each) > 1 for each in kept):
        raise _Unknown  # pydantic joins these in ways of its own
    return {"anyOf": [*kept, NULL] if len(kept) < len(members) else kept}


def _container(origin: Any, arguments: tuple[Any, ...], inside: list[Any]) -> Schema:
    if origin is dict and arguments[0] in (str, int):
        return {"additionalProperties": inside[1] or True, "type": "object"}
    if origin is tuple and arguments[1:] != (Ellipsis,):
        return {"maxItems": len(inside), "minItems": len(inside), "prefixItems": inside, "type": "array"}
    if origin in (list, tuple, set, frozenset):
        return {**_BY_TYPE[origin], "items": inside[0]}
    raise _Unknown


def _enumerated(values: Iterable[Any]) -> Schema:
    values = list(values)
    kinds = {type(value) for value in values}
    if not values or not kinds <= _NAMES.keys():
        raise _Unknown
    said: Schema = {"const": values[0]} if len(values) == 1 else {"enum": values}
    return {**said, "type": _NAMES[kinds.pop()]} if len(kinds) == 1 else said


def _of_class(cls: Any, within: tuple[type, ...]) -> Schema:
    if not isinstance(cls, type) or cls in within or not _PYDANTICS.isdisjoint(dir(cls)):
        raise _Unknown
    if issubclass(cls, enum.Enum) and not issubclass(cls, enum.Flag):
        return _of_enum(cls)
    if dataclasses.is_dataclass(cls):
        return _of_dataclass(cls, within)
    raise _Unknown


def _of_enum(cls: type[enum.Enum]) -> Schema:
    values = [each.value for each in cls]
    kinds = {type(value) for value in values}
    if len(values) < len(cls.__members__) or not kinds or not kinds <= {str, int}:
        raise _Unknown
    schema: Schema = {"enum": values} if len(kinds) > 1 else {"enum": values, "type": _NAMES[kinds.pop()]}
    text = inspect.cleandoc(cls.__doc__ or "")
    return {"description": text, **schema} if cls.__doc__ and text != "An enumeration." else schema


def _of_dataclass(cls: type, within: tuple[type, ...]) -> Schema:
    fields = dataclasses.fields(cls)
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):
        raise _Unknown from None
    if not fields or hints.keys() != {field.name for field in fields} or not all(map(_is_ordinary, fields)):
        raise _Unknown
    documented = parameter_texts(inspect.getdoc(cls))
    properties: dict[str, Schema] = {}
    for field in fields:
        hint = hints[field.name]
        own, more = _written(hint, (*within, cls), has_texts=False), _default_of(field)
        if holds_place(hint) and isinstance(field.default, str):
            raise _Unknown  # it is refused
        text = annotated_text(hint) or documented.get(field.name)
        if text and (_is_referred_to(hint) or "description" not in own):
            more["description"] = text
        properties[field.name] = _with(own, hint, more)
    required = [field.name for field in fields if field.default is field.default_factory]  # both are missing
    schema: Schema = {"properties": properties, **({"required": required} if required else {}), "type": "object"}
    about = cls.__doc__ or ""
    if about.startswith(f"{cls.__name__}("):
        return schema
    return {"description": description(inspect.cleandoc(about)), **schema} if about.strip() else schema


def _is_ordinary(field: dataclasses.Field[Any]) -> bool:
    # Below these two names pydantic leaves the keys of a schema in an order of its own.
    return field.init and not field.metadata and field.name not in ("properties", "default")


def _default_of(field: dataclasses.Field[Any]) -> Schema:
    default = field.default
    if default is dataclasses.MISSING:
        return {}
    if isinstance(default, enum.Enum):
        default = default.value
    if default is None or type(default) in (int, bool) or (type(default) is float and math.isfinite(default)):
        return {"default": default}
    if type(default) is str and default.isascii():
        return {"default": default}
    raise _Unknown
