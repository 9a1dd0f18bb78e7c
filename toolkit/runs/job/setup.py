"""`Setup`: a command that prepares the workspace, with network, before the agent, and once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit._base.words import did_you_mean
from toolkit.errors import RunError
from toolkit.runs.kinds import OptionError, check_names, list_of, number, passed_on, path, text, wrong
from toolkit.sandbox import CREDENTIALS, CUSTOM_HEADERS, parse_domains

DEADLINE = 1800.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = ("TOOLKIT_CACHE", "TOOLKIT_JAIL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_EXAMPLE = 'Write for example: setup=Setup("npm ci", domains=["packages.example.org"])'


@dataclass(frozen=True, slots=True)
class Setup:
    """A command that runs in the jail before the agent does, where the workspace appears to the agent.

    It has neither the model API nor a key. What it makes is kept as a layer and shown read-only to the agent; a later
    run with the same command and lock files takes that, and runs nothing.

    Raises:
        OptionError: an argument that is not what it may be.
        SettingsError: a domain that cannot be allowed.
    """

    command: str
    """A line as for a shell, for example `uv sync --frozen`. It starts where the agent does."""
    _: dataclasses.KW_ONLY
    domains: Sequence[str] = ()
    """Hosts that it may reach, over https; none if not given."""
    keyed_by: Sequence[Path | str] = ()
    """Files of a mount that decide what it makes; the usual lock files and manifests if not given."""
    deadline: float = DEADLINE
    """Seconds after which it is ended."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for it alone. The agent does not have them, and they are stored nowhere."""

    def __new__(cls, *args: Any, **options: Any) -> Setup:
        """Answer a name that is no argument's in words, before Python does."""
        known = [one.name for one in dataclasses.fields(cls)]
        check_names("Setup", options, known, dict.fromkeys(("cmd", "run"), "command=…"))
        return object.__new__(cls)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if isinstance(self.command, str) and "\0" in self.command:
            raise wrong("setup", self.command, "a command holds no NUL")
        put(self, "command", passed_on(text("a command", _EXAMPLE))("setup", self.command))
        put(self, "domains", parse_domains(list_of(text("a host name"))("setup domains", self.domains)))
        put(self, "keyed_by", tuple(map(str, list_of(path)("setup keyed_by", self.keyed_by))))
        put(self, "deadline", number("setup deadline", self.deadline))
        put(self, "env", _checked(self.env))


def as_setup(name: str, value: Any) -> Setup | None:
    """The rule for the option: a Setup, the command alone, or a mapping with the same names."""
    if value is None or isinstance(value, Setup):
        return value
    if isinstance(value, str):
        return Setup(value)
    if isinstance(value, Mapping):
        known = [entry.name for entry in dataclasses.fields(Setup) if entry.init]
        for key in value:
            if key not in known:
                raise wrong(name, value, f"a setup has no '{key}'{did_you_mean(str(key), known)}", _EXAMPLE)
        if "command" not in value:
            raise wrong(name, value, "a setup has a command", _EXAMPLE)
        return Setup(**value)
    raise wrong(name, value, "it is a command, or Setup(…)", _EXAMPLE)


def _checked(env: Any) -> dict[str, str]:
    """Variables for a setup; their values may be secrets, and are not shown."""
    if not isinstance(env, Mapping):
        raise OptionError("setup", "setup env: it is a mapping of variables to texts", fix='Write env={"CI": "1"}')
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise OptionError("setup", f"setup env: {name!r} cannot be the name of a variable")
        if not isinstance(value, str) or "\0" in value:
            raise OptionError("setup", f"setup env: the value of {name} is a text without NUL")
        if name in (*CREDENTIALS.values(), CUSTOM_HEADERS):
            raise OptionError("setup", f"setup env: {name} is for the model API, which a setup does not reach")
        if name.upper() in _OURS:
            raise OptionError("setup", f"setup env: {name} is set by the jail", fix="Leave it out")
    return dict(env)


class SetupFailedError(RunError):
    """A setup that gave no layer; nothing was sent to the model."""

    def __init__(self, what: str, last: Sequence[str] = ()) -> None:
        super().__init__(what, where=last)
        self.last = tuple(last)
        """The last lines it printed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.last)
