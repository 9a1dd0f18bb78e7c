"""Toolboxes that are ready to use: planning, files, notes, workspace.

Each is made by a plain function in the module of its name; `load_ready` makes one
by name, with options as text or as values, which is how the command line does it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean
from toolkit.errors import TargetError
from toolkit_servers.ready.given import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolkit.tools import Toolbox


READY: Mapping[str, str | None] = MappingProxyType(
    {"files": "root", "notes": "database", "planning": None, "workspace": "section"}
)
"""The ready-made toolboxes by name, each with the option that is meant by a value without a name: a path."""


_TAKE_SEVERAL = frozenset({"files"})


def load_ready(name: str, /, **options: Any) -> Toolbox:
    """Make a ready-made toolbox: `load_ready("files", root="docs", read_only=True)`.

    Raises:
        TargetError: there is none of that name, it has no such option, or an option has a wrong value.
    """
    from pydantic import ConfigDict, ValidationError, validate_call

    if name not in READY:
        what = f"there is no ready-made '{name}'{did_you_mean(name, READY)}"
        raise TargetError(what, target=name, is_mistyped=True)
    factory = _factory(name)
    known = signature(factory).parameters
    for option in options:
        if option not in known:
            what = f"'{name}' has no option '{option}'{did_you_mean(option, known)}"
            raise TargetError(what, target=name, is_mistyped=True)
    if (main := READY[name]) in options:
        refuse_empty(name, str(main), options[str(main)])  # before it becomes the current folder
    try:
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(factory)(**options)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = str(wrong["loc"][0]) if wrong["loc"] else "options"
        raise TargetError(
            f"'{name}': {place} has a wrong value: {wrong['msg'].lower()}",
            target=name,
            where=[f"{place}={wrong['input']!r}"],
            is_mistyped=True,
        ) from error


def load_ready_spec(spec: str, cwd: Path) -> Toolbox:
    """Make the toolbox that NAME, NAME:PATH or NAME:PATH,option=value stands for.

    PATH is what NAME is about, such as a folder for files, and is read from `cwd`; where it may be several, they have
    colons between them.

    Raises:
        TargetError: as for `load_ready`.
    """
    name = spec.partition(":")[0]
    options = _options(spec, cwd) if name in READY else {}
    main = READY.get(name)
    if main in options:
        refuse_empty(name, main, options[main], spec)
        paths = _paths(options[main], cwd) if name in _TAKE_SEVERAL else [options[main]]
        full = [str(cwd / Path(path).expanduser()) for path in paths]
        return load_ready(name, **{**options, main: full if len(full) > 1 else full[0]})
    return load_ready(name, **options)


def is_ready(spec: str, cwd: Path) -> bool:
    """Whether a TARGET names a ready-made toolbox, and no Python module of that name is at hand."""
    name = spec.partition(":")[0]
    return name in READY and not _is_module(name, cwd)


def _factory(name: str) -> Callable[..., Toolbox]:
    """The function that makes a toolbox: it has the name of its module."""
    function: Callable[..., Toolbox] = getattr(import_module(f"toolkit_servers.ready.{name}"), name)
    return function


def _options(spec: str, cwd: Path) -> dict[str, str]:
    """The options written behind the colon."""
    name, colon, rest = spec.partition(":")
    options: dict[str, str] = {}
    known = signature(_factory(name)).parameters
    main = READY[name]
    if main is not None and colon and (not rest or rest.startswith(",")):
        refuse_empty(name, main, "", spec)
    while rest:
        # From the end, so that a comma or an equals sign in a path stays part of it.
        before, _, last = rest.rpartition(",")
        key, equals, value = last.partition("=")
        if not equals or key not in known:
            break
        _refuse_twice(spec, key, options)
        options[key] = value
        rest = before
    key, equals, value = rest.partition("=")
    path = value if equals and key in known else rest
    if rest and main is None:
        raise TargetError(
            f"'{name}' takes no path, but was given '{rest}'",
            target=spec,
            where=[f"options: {', '.join(known)}"] if known else [],
            is_mistyped=True,
        )
    _refuse_mistyped(spec, path, list(known), cwd)
    if rest:
        _refuse_twice(spec, key if equals and key in known else str(main), options)
    if equals and key in known:
        return {**options, key: value}
    return {**options, main: rest} if rest and main is not None else options


def _refuse_twice(spec: str, option: str, options: Mapping[str, str]) -> None:
    if option in options:
        raise TargetError(
            f"'{spec.partition(':')[0]}' was given its {option} twice",
            target=spec,
            where=["a path without a name in front of it is the same option"] if option in READY.values() else [],
            fix="Leave one of them out",
            is_mistyped=True,
        )


def _refuse_mistyped(spec: str, path: str, known: list[str], cwd: Path) -> None:
    """Raise where the end of a path that is not there was meant as an option: files:docs,readonly=true."""
    name = spec.partition(":")[0]
    before, _, last = path.rpartition(",")
    key, equals, _ = last.partition("=")
    if equals and key.isidentifier() and not _is_there(path, cwd):
        what = "its end is no part of a path" if before else "it is no path"
        raise TargetError(
            f"'{name}' has no option '{key}'{did_you_mean(key, known)}",
            target=spec,
            where=[f"{path} is not there, so that {what}"],
            fix="" if before else f"For a path of that name, write {name}:./{path}",
            is_mistyped=True,
        )


def _is_there(path: str, cwd: Path) -> bool:
    try:
        return (cwd / Path(path).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):  # a name that is too long, or a home that nobody has
        return False


def _paths(text: str, cwd: Path) -> list[str]:
    """One path, or several with colons between them; a folder that has the whole name comes first."""
    return [text] if _is_there(text, cwd) else text.split(os.pathsep)


def _is_module(name: str, cwd: Path) -> bool:
    """Whether a file or package of this name could be imported; a folder without Python in it is none."""
    found = PathFinder.find_spec(name, [str(cwd), *sys.path])
    return found is not None and found.origin is not None
