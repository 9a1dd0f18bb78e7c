"""What a project file says and what a caller says, as one: the caller wins, lists and tables are added up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from toolkit.runs.spec import Limits

FIRST = ("policy",)
"""Tables in which the order decides: the caller's entries come first."""
REPLACED = ("native",)
"""Lists that say all there is: the caller's takes the place of the file's."""


def is_given(value: Any) -> bool:
    """Whether a caller said something: None and what is empty say nothing."""
    if value is None or value == Limits():
        return False
    return not (isinstance(value, Mapping | tuple | list | str) and not value)


def combined(said: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of both."""
    options = dict(said)
    for name, value in given.items():
        if is_given(value):
            options[name] = _both(name, said[name], value) if name in said else value
        else:
            options.setdefault(name, value)
    return {name: value for name, value in options.items() if value is not None}


def _both(name: str, said: Any, given: Any) -> Any:
    if dataclasses.is_dataclass(said) and not isinstance(said, type):
        return _fields(said, given)
    if isinstance(said, Mapping) and isinstance(given, Mapping):
        return {**given, **{key: said[key] for key in said if key not in given}} if name in FIRST else {**said, **given}
    if isinstance(said, tuple | list) and isinstance(given, tuple | list) and name not in REPLACED:
        return (*said, *(entry for entry in given if entry not in said))
    return given


def _fields(said: Any, given: Any) -> Any:
    """A value of several parts: those that the caller gave, and the file's for the others."""
    if isinstance(given, Limits):
        given = given.given()
    return dataclasses.replace(said, **given) if isinstance(given, Mapping) else given
