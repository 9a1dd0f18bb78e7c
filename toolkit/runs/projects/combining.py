"""What a project file says and what a caller says, as one: the caller wins, lists and tables are added up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from toolkit._base.words import did_you_mean
from toolkit.runs.asking.patterns import covers
from toolkit.runs.kinds import OptionError
from toolkit.runs.spec import Limits

FIRST = ("policy",)
"""Tables in which the order decides: the caller's entries come first."""
REPLACED = ("native", "on")
"""Lists that say all there is: the caller's takes the place of the file's."""
_AS_WRITTEN = {"command": "check"}
"""What a part of a value is called where a person writes it, by its name in Python."""


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
        return _parts(name, said, given)
    if isinstance(said, Mapping) and isinstance(given, Mapping):
        return _after(given, said) if name in FIRST else {**said, **given}
    if isinstance(said, tuple | list) and isinstance(given, tuple | list) and name not in REPLACED:
        return (*said, *(entry for entry in given if entry not in said))
    return given


def _after(given: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's rules, and those of the file that they leave something to."""
    return {**given, **{key: said[key] for key in said if not any(covers(one, key) for one in given)}}


def _parts(name: str, said: Any, given: Any) -> Any:
    """A value of several parts: those that the caller gave, and the file's for the others."""
    if isinstance(given, Limits):
        given = given.given()
    if not isinstance(given, Mapping):
        return given
    known = [one.name for one in dataclasses.fields(said) if one.init]
    changed = {}
    for written, value in given.items():
        part = written if written in known else _AS_WRITTEN.get(written, written)
        if part not in known:
            raise OptionError(name, f"{name}: it has no '{written}'{did_you_mean(str(written), known)}")
        changed[part] = _both(part, getattr(said, part), value)
    return dataclasses.replace(said, **changed)
