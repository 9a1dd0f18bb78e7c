"""What a value of a project file can be: texts, numbers, lists and tables of these, in the words of TOML.

A form gets the place of a value and the value, and gives what is kept of it, or
raises an error with the file, the line and what is expected there.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.words import did_you_mean, nearest, read_duration, read_size, safe_name
from toolkit.runs.projects.errors import ProjectFileError
from toolkit.runs.projects.reading.source import Source, written

_SECRETS = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16}|\bgh[pousr]_[A-Za-z0-9]{20}|\bgithub_pat_\w{20}|\bglpat-[\w-]{16}|\bAKIA[0-9A-Z]{16}"
    r"|\bxox[abprs]-[\w-]{10}|\bnpm_[A-Za-z0-9]{30}|\bpypi-[\w-]{40}|\bAIza[\w-]{35}|-----BEGIN [A-Z ]*PRIVATE KEY"
)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value stands."""

    source: Source
    path: tuple[str | int, ...] = ()

    def at(self, part: str | int) -> Spot:
        """The same, one step further in."""
        return Spot(self.source, (*self.path, part))

    @property
    def name(self) -> str:
        """The last name on the way."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")

    def wrong(self, what: str, fix: str = "", *, hidden: bool = False) -> ProjectFileError:
        """The error about this value."""
        return self.source.wrong(self.path, what, fix, hidden=hidden)

    def expected(self, what: str, value: Any, fix: str = "") -> ProjectFileError:
        """The error about a value of another kind."""
        return self.wrong(f"it is {what}, not {_kind(value)}", fix)

    def host_path(self, value: str) -> str:
        """A path as it was written, which is relative to the file."""
        try:
            return os.path.normpath(self.source.path.parent / Path(value).expanduser())
        except RuntimeError:
            raise self.wrong(f"there is no home folder of that user: {safe_name(value)}") from None


Form = Callable[[Spot, Any], Any]


def text(spot: Spot, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str):
        fix = f'Write: {spot.name} = "{value}"' if isinstance(value, int | float) else ""
        raise spot.expected("a text", value, fix)
    if not value.strip():
        raise spot.wrong("it is empty", "Leave it out")
    if "\0" in value:
        raise spot.wrong("it holds a NUL")
    if _SECRETS.search(value):
        raise spot.wrong(
            "this looks like a key or a token, and a project file is read by everybody who has the project",
            "Take it out, and have it replaced where it was issued. Keys for the model API are set in the environment; "
            "others are taken from there by name: env_from",
            hidden=True,
        )
    return value


def flag(spot: Spot, value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise spot.expected("true or false", value)
    return value


def number(spot: Spot, value: Any) -> float:
    """A number; what it may be is for the option's rule to say."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise spot.expected("a number", value)
    return value


def whole(spot: Spot, value: Any) -> int:
    """A number without a fraction."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise spot.expected("a whole number", value)
    return value


def duration(spot: Spot, value: Any) -> float:
    """Seconds, as a number or as people write them."""
    found = read_duration(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise spot.expected('a length of time: seconds as a number, or "90s", "10m", "1h30m"', value)
    return int(found) if found == int(found) else found


def size(spot: Spot, value: Any) -> int:
    """Bytes, as a number or as people write them."""
    found = read_size(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise spot.expected('a number of bytes, or "500MB", "8GB"', value)
    return found


def path(spot: Spot, value: Any) -> str:
    """A path, relative to the file, as a whole one."""
    return spot.host_path(text(spot, value))


def by_kind(what: str, **forms: Form) -> Form:
    """One of several, by the kind of the value: `str=`, `int=`, `dict=`."""

    def form(spot: Spot, value: Any) -> Any:
        chosen = forms.get(type(value).__name__)
        if chosen is None:
            raise spot.expected(what, value)
        return chosen(spot, value)

    return form


def list_of(form: Form, what: str = "texts") -> Form:
    """A list."""

    def of_all(spot: Spot, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            fix = f"Write: {written({spot.name: [value]}).strip()}" if isinstance(value, str) else ""
            raise spot.expected(f"a list of {what}", value, fix)
        return tuple(form(spot.at(place), entry) for place, entry in enumerate(value))

    return of_all


def table_of(form: Form, what: str) -> Form:
    """A table whose names are free."""

    def of_all(spot: Spot, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise spot.expected(what, value)
        return {name: form(spot.at(name), entry) for name, entry in value.items()}

    return of_all


def anything(spot: Spot, value: Any) -> Any:
    """What the option's own rule judges; texts in it are looked over all the same."""
    if isinstance(value, dict):
        return {name: anything(spot.at(name), entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [anything(spot.at(place), entry) for place, entry in enumerate(value)]
    if isinstance(value, str) and value.strip():
        return text(spot, value)
    if not isinstance(value, str | int | float):
        raise spot.expected("a text, a number, a list or a table", value)
    return value


def closed(forms: Mapping[str, Form], *, also: Mapping[str, str] | None = None) -> Form:
    """A table that has these keys and no others; `also` has what others are answered with."""

    def of_all(spot: Spot, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise spot.expected("a table", value)
        for name in value:
            if name not in forms:
                raise _unknown(spot, name, forms, also or {})
        return {name: forms[name](spot.at(name), entry) for name, entry in value.items()}

    return of_all


BY_TYPE: dict[str, Form] = {
    "str": text,
    "bool": flag,
    "int": whole,
    "float": number,
    "Sequence[str]": list_of(text),
    "tuple[str, ...]": list_of(text),
    "Mapping[str, str]": table_of(text, "a table of texts"),
    "Path": path,
    "Path | str": path,
    "Sequence[Path | str]": list_of(path, "paths"),
}
"""The form of a field, by its type as it is written in the class."""


def forms_of(made: type, names: Iterable[str] | None = None, **own: Form) -> dict[str, Form]:
    """The forms of a dataclass's fields, by their types; `own` has those that are special.

    Raises:
        LookupError: a field is of a type that has no form yet: give it one by its name.
    """
    forms = {}
    for field in dataclasses.fields(made):
        if names is not None and field.name not in names:
            continue
        kind = str(field.type).removesuffix(" | None")
        form = own.get(field.name) or _by_name(field.name, kind) or BY_TYPE.get(kind)
        if form is None:
            raise LookupError(f"{made.__name__}.{field.name}: no form for the type {field.type}")
        forms[field.name] = form
    return forms


def _by_name(name: str, kind: str) -> Form | None:
    """Lengths of time and numbers of bytes, which people write with a unit."""
    if kind not in ("int", "float"):
        return None
    is_time = name in ("seconds", "deadline") or name.endswith(("_seconds", "_timeout"))
    return duration if is_time else size if name.endswith("_bytes") else None


def _unknown(spot: Spot, name: str, forms: Mapping[str, Form], also: Mapping[str, str]) -> ProjectFileError:
    here = spot.at(name)
    near = name if name in also else nearest(name, [*forms, *also])
    if near is not None and near in also:
        told = also[near]
        if told.startswith("did you mean"):  # what it is called on the command line, and here
            return here.wrong(f"there is no such key; {told}", hidden=True)
        return here.wrong(
            told if near == name else f"there is no such key; did you mean '{near}'? But: {told}", hidden=True
        )
    return here.wrong(f"there is no such key{did_you_mean(name, forms)}")


def _kind(value: Any) -> str:
    kinds = {bool: str(value).lower(), int: "a number", float: "a number", str: "a text", list: "a list"}
    return kinds.get(type(value), "a table" if isinstance(value, dict) else "a date or time")
