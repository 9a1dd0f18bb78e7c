"""Hold what somebody wrote in Python to the types it is declared with: a wrong value is found where it is written.

Given to a client, one wrong value of one tool makes its whole list unreadable there. Knows the kinds of types that
options are declared with, and asks nothing of pydantic: a decorator must stay quick.
"""

from __future__ import annotations

import os
import reprlib
import types
import typing
from collections import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin

_SIMPLE: dict[Any, tuple[str, str]] = {
    str: ("a text", '"…"'),
    bool: ("True or False", "True"),
    int: ("a whole number", "1000"),
    float: ("a number", "1.5"),
    Path: ("a path", 'Path("…")'),
    type(None): ("None", "None"),
}
"""What a type is called, and how a value of it is written."""
_LISTS = (list, tuple, abc.Sequence, abc.Collection)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that is not what it is declared to be."""

    name: str
    what: str
    example: str
    """How it is written instead."""


def misfit(given: Mapping[str, object], declared: Any) -> Misfit | None:
    """The first value that is not what a TypedDict, or a function for its parameters, declares of its name.

    A name that is not declared is passed over.
    """
    hints = _hints(declared)
    for name, value in given.items():
        if name in hints and not _fits(value, hints[name]):
            what = f"{name}={reprlib.repr(value)} cannot be used: it must be {_words(hints[name])}"
            return Misfit(name, what, f"{name}={_example(hints[name])}")
    return None


@lru_cache(maxsize=256)
def _hints(declared: Any) -> dict[str, Any]:
    return typing.get_type_hints(declared)


def _fits(value: object, declared: Any) -> bool:
    origin, inside = get_origin(declared) or declared, get_args(declared)
    if declared is Any or declared is object:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is typing.Literal:
        return any(type(value) is type(each) and value == each for each in inside)
    if origin is abc.Callable:
        return callable(value)
    if origin is abc.Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inside[0]) and _fits(item, inside[1]) for key, item in value.items()
        )
    if origin in _LISTS:
        # A text is a collection of texts, and never meant as one.
        if not isinstance(value, origin) or isinstance(value, str | bytes | bytearray | Mapping):
            return False
        items: Iterable[object] = value
        return all(_fits(each, inside[0]) for each in items)
    if origin is Path:
        return isinstance(value, str | os.PathLike)
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, origin) and (origin is bool or not isinstance(value, bool))


def _words(declared: Any) -> str:
    origin, inside = get_origin(declared) or declared, get_args(declared)
    if origin in (Union, types.UnionType):
        *others, last = dict.fromkeys(map(_words, inside))
        return f"{', '.join(others)} or {last}" if others else last
    if origin is typing.Literal:
        return " or ".join(map(repr, inside))
    if origin is abc.Callable:
        return "a function"
    if origin is abc.Mapping:
        return "a dict with texts as its keys"
    if origin in _LISTS:
        kind = _words(inside[0])
        return f"a list, each {kind}"
    return _SIMPLE.get(origin, (f"a {getattr(origin, '__name__', origin)}", "…"))[0]


def _example(declared: Any) -> str:
    origin, inside = get_origin(declared) or declared, get_args(declared)
    if origin in (Union, types.UnionType):
        return _example(inside[0])
    if origin is typing.Literal:
        return repr(inside[0])
    if origin is abc.Callable:
        return "my_function"
    if origin is abc.Mapping:
        return '{"…": …}'
    if origin in _LISTS:
        return f"[{_example(inside[0])}]"
    return _SIMPLE.get(origin, ("", "…"))[1]
