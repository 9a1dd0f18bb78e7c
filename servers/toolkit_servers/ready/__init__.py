"""Toolboxes that are ready to use: planning, files, notes, workspace.

Each is made by a plain function in the module of its name; `load_ready` makes one
by name, with options as text or as values, which is how the command line does it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolkit.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolkit.tools import Toolbox


@dataclass(frozen=True, slots=True)
class Ready:
    """One ready-made toolbox, not loaded yet."""

    home: str
    """`module:function` of its factory."""
    summary: str
    main: str | None = None
    """The option that is meant by a value without a name: a path."""

    def factory(self) -> Callable[..., Toolbox]:
        """The function that makes the toolbox."""
        module, _, name = self.home.partition(":")
        function: Callable[..., Toolbox] = getattr(import_module(module), name)
        return function


READY: Mapping[str, Ready] = MappingProxyType(
    {
        "files": Ready("toolkit_servers.ready.files:files", "Read, search and change one folder's files.", "root"),
        "notes": Ready("toolkit_servers.ready.notes:notes", "Keep notes, and find them again later.", "database"),
        "planning": Ready("toolkit_servers.ready.planning:planning", "Plan work in steps and keep track of it."),
        "workspace": Ready(
            "toolkit_servers.ready.workspace:workspace", "See and undo what was changed in a workspace.", "section"
        ),
    }
)
"""The ready-made toolboxes by name."""


def load_ready(name: str, /, **options: Any) -> Toolbox:
    """Make a ready-made toolbox: `load_ready("files", root="docs", read_only=True)`.

    Raises:
        TargetError: there is none of that name, it has no such option, or an option has a wrong value.
    """
    from pydantic import ConfigDict, ValidationError, validate_call

    from toolkit._base.words import did_you_mean

    ready = READY.get(name)
    if ready is None:
        raise TargetError(f"there is no ready-made '{name}'{did_you_mean(name, READY)}", target=name)
    factory = ready.factory()
    known = signature(factory).parameters
    for option in options:
        if option not in known:
            raise TargetError(f"'{name}' has no option '{option}'{did_you_mean(option, known)}", target=name)
    try:
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(factory)(**options)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = str(wrong["loc"][0]) if wrong["loc"] else "options"
        raise TargetError(
            f"'{name}': {place} has a wrong value: {wrong['msg'].lower()}",
            target=name,
            where=[f"{place}={wrong['input']!r}"],
        ) from error


def load_ready_spec(spec: str, cwd: Path) -> Toolbox:
    """Make the toolbox that NAME, NAME:PATH or NAME:PATH,option=value stands for.

    PATH is what NAME is about, such as a folder for files, and is read from `cwd`.

    Raises:
        TargetError: as for `load_ready`.
    """
    name, _, rest = spec.partition(":")
    ready = READY.get(name)
    options = {} if ready is None else _options(spec, rest, ready)
    if ready is not None and ready.main in options:
        options[ready.main] = str(cwd / Path(options[ready.main]).expanduser())
    return load_ready(name, **options)


def is_ready(spec: str, cwd: Path) -> bool:
    """Whether a TARGET names a ready-made toolbox, and no Python module of that name is at hand."""
    name = spec.partition(":")[0]
    return name in READY and not _is_module(name, cwd)


def _options(spec: str, rest: str, ready: Ready) -> dict[str, str]:
    """The options written behind the colon."""
    options: dict[str, str] = {}
    known = signature(ready.factory()).parameters
    while rest:
        # From the end, so that a comma or an equals sign in a path stays part of it.
        before, _, last = rest.rpartition(",")
        key, equals, value = last.partition("=")
        if not equals or key not in known:
            break
        options[key] = value
        rest = before
    key, equals, value = rest.partition("=")
    if equals and key in known:
        return {**options, key: value}
    if rest and ready.main is None:
        raise TargetError(
            f"'{spec.partition(':')[0]}' takes no path, but was given '{rest}'",
            target=spec,
            where=[f"options: {', '.join(known)}"] if known else [],
        )
    return {**options, ready.main: rest} if rest and ready.main is not None else options


def _is_module(name: str, cwd: Path) -> bool:
    """Whether a file or package of this name could be imported; a folder without Python in it is none."""
    found = PathFinder.find_spec(name, [str(cwd), *sys.path])
    return found is not None and found.origin is not None
