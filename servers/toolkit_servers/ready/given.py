"""What a ready-made toolbox was given, held to what its function declares: in Python nothing else looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.errors import TargetError
from toolkit.tools import misfit


def refuse_misfit(factory: Callable[..., Any], /, **given: object) -> None:
    """Raise where something that a factory was given is not what it declares, or leaves nothing.

    Raises:
        TargetError: an option of another type, a path without a character, or a number that is not above zero.
    """
    name = factory.__name__
    if wrong := misfit(given, factory):
        raise TargetError(f"'{name}': {wrong.what}", target=name, fix=f"Write it as: {wrong.example}", is_mistyped=True)
    for option, value in given.items():
        if option != "name":
            refuse_empty(name, option, value)
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
            raise TargetError(
                f"'{name}': {option}={value} leaves nothing: it must be above zero",
                target=name,
                fix=f"Give it more, or leave {option} out",
                is_mistyped=True,
            )


def refuse_empty(name: str, option: str, path: object, spec: str | None = None) -> None:
    """Raise where a path has no characters: a variable that was not set would stand for the current folder.

    Raises:
        TargetError: it has none.
    """
    if path == "" or (isinstance(path, list | tuple) and "" in path):
        raise TargetError(
            f"'{name}': its {option} is an empty path",
            target=spec or name,
            fix=f"Name it ({name}:. is the current folder), or write {name} alone for where it is by itself",
            is_mistyped=True,
        )
