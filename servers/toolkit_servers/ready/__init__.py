"""Toolboxes that are ready to use: planning, files, notes, workspace.

Each is made by a plain function in the module of its name; `load_ready` makes one
by name, with options as text or as values, which is how the command line does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
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
    """The option that is meant by a value without a name."""

    def factory(self) -> Callable[..., Toolbox]:
        """The function that makes the toolbox."""
        module, _, name = self.home.partition(":")
        function: Callable[..., Toolbox] = getattr(import_module(module), name)
        return function


READY: Mapping[str, Ready] = MappingProxyType(
    {
        "files": Ready("toolkit_servers.ready.files:files", "Read, search and change the files of one folder.", "root"),
        "notes": Ready("toolkit_servers.ready.notes:notes", "Keep notes, and find them again later.", "database"),
        "planning": Ready("toolkit_servers.ready.planning:planning", "Plan work in steps and keep track of it."),
    }
)
"""The ready-made toolboxes by name."""


def load_ready(name: str, **options: Any) -> Toolbox:
    """Make a ready-made toolbox: `load_ready("files", root="docs", read_only=True)`.

    Raises:
        TargetError: there is none of that name, it has no such option, or an option has a wrong value.
    """
    from pydantic import ConfigDict, ValidationError, validate_call

    from toolkit.tools._words import did_you_mean

    ready = READY.get(name)
    if ready is None:
        raise TargetError(f"there is no ready-made '{name}'{did_you_mean(name, READY)}", target=name)
    factory = ready.factory()
    known = [each.name for each in signature(factory).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
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
            where=[f"{place}={wrong['input']!r}"] if wrong["type"] != "missing_argument" else [],
        ) from error


def read_ready(spec: str) -> tuple[str, dict[str, str]] | None:
    """Take `NAME`, `NAME:VALUE` or `NAME:VALUE,option=value` apart; None if no ready-made toolbox is named.

    VALUE is the one that NAME is about: a folder for files, a database for notes.
    """
    name, colon, rest = spec.partition(":")
    ready = READY.get(name)
    if ready is None:
        return None
    options: dict[str, str] = {}
    if not colon:
        return name, options
    known = signature(ready.factory()).parameters
    while True:
        # From the end, so that a comma or an equals sign in a path stays part of it.
        before, _, last = rest.rpartition(",")
        key, equals, value = last.partition("=")
        if not equals or key not in known:
            break
        options[key] = value
        rest = before
    if rest:
        if ready.main is None:
            raise TargetError(f"'{name}' takes no value, but was given '{rest}'", target=spec, fix=f"Write: {name}")
        options[ready.main] = rest
    return name, options
