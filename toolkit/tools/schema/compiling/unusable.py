"""Types that make no schema, told in one way: whatever pydantic raised of them, or a hook that somebody wrote into one.

A mistake in a limit (`Field(gt=0.5)` of an int) is found by pydantic's core, which has no exception of its own for it.
"""

from __future__ import annotations

import contextlib
import enum
import json
import typing
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from pydantic import PydanticUserError
from pydantic_core import SchemaError

from toolkit._base.words import safe_line
from toolkit.tools.schema.compiling.types import safe_field_hints
from toolkit.tools.schema.portable import Schema
from toolkit.tools.workspace_path import holds_place

_WIDTH = 300
_FIX = (
    "Correct what stands beside the type: limits of the type's own kind, lengths from 0 on, a pattern that compiles, "
    "and in a schema of your own only what JSON has"
)


class UnusableTypeError(Exception):
    """A type that no schema, or none that a client can read, can be made of; its text says why, in one line."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


@contextlib.contextmanager
def told_in_one_way() -> Iterator[None]:
    """Raise an UnusableTypeError for whatever pydantic raises; a PydanticUserError has words of its own, and stays."""
    try:
        yield
    except (PydanticUserError, UnusableTypeError):
        raise
    except ImportError as error:
        raise UnusableTypeError(safe_line(str(error), _WIDTH), "Install what it needs, or use another type") from error
    except Exception as error:
        told = str(error) if isinstance(error, SchemaError) else f"{type(error).__name__}: {error}"
        raise UnusableTypeError(safe_line(told, _WIDTH), _FIX) from error


def refuse_unsendable(types_inside: Iterable[Any]) -> None:
    """Raise for a `Literal` of an enumeration's member: its schema has the value, and pydantic refuses that.

    Raises:
        UnusableTypeError: there is one.
    """
    for inside in types_inside:
        for member in typing.get_args(inside) if typing.get_origin(inside) is typing.Literal else ():
            if isinstance(member, enum.Enum) and member != member.value:  # one that is a str or an int as well is taken
                raise UnusableTypeError(
                    safe_line(f"its Literal has {member}, which no client can send", _WIDTH),
                    f"Write the value in its place, or the whole enumeration: {type(member).__name__}",
                )


def refuse_host_paths(types_inside: Iterable[Any]) -> None:
    """Raise for a class whose `WorkspacePath` is a path of the host where it is left out: nobody reads its default.

    Raises:
        UnusableTypeError: there is one.
    """
    for cls in types_inside:
        for name, hint in safe_field_hints(cls).items():
            if holds_place(hint) and _has_path(_default(cls, name)):
                raise UnusableTypeError(
                    safe_line(f"the default of {cls.__name__}.{name} is a path of the host, not of the agent", _WIDTH),
                    "Leave the default out, make it None, or make the field a parameter of the tool",
                )


def _default(cls: Any, field: str) -> Any:
    if hasattr(cls, "_field_defaults"):  # a NamedTuple
        return cls._field_defaults.get(field)
    fields = getattr(cls, "model_fields", None) or getattr(cls, "__dataclass_fields__", {})
    return getattr(fields.get(field), "default", None)


def _has_path(default: Any) -> bool:
    if isinstance(default, dict | list | tuple | set | frozenset):
        return any(map(_has_path, default.values() if isinstance(default, dict) else default))
    return isinstance(default, str | PurePath)


def refuse_unreadable(schema: Schema) -> None:
    """Raise where a schema that was made is none that a client can read.

    Raises:
        UnusableTypeError: nothing fits a part of it, or JSON cannot carry it.
    """
    if _has_no_choice(schema):
        raise UnusableTypeError("nothing fits it: it has no value to choose", "Give the enumeration a member")
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        why = f"JSON cannot carry its schema: {error}"
        raise UnusableTypeError(
            safe_line(why, _WIDTH), "Use numbers and texts that JSON has in its Field(…)"
        ) from error


def _has_no_choice(schema: Any) -> bool:
    """Whether somewhere in it one of no alternatives would have to be chosen."""
    todo = [schema]
    while todo:
        current = todo.pop()
        if isinstance(current, list):
            todo.extend(current)
        elif isinstance(current, dict):
            if current.get("anyOf") == [] or current.get("enum") == []:
                return True
            todo.extend(inner for key, inner in current.items() if key not in ("default", "examples"))
    return False
