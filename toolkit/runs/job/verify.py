"""`Verify`: how the launcher itself finds out whether the work is done, and how often the agent may try."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean, safe_line
from toolkit.runs.kinds import OptionError, called_with, check_names, number, passed_on, text, wrong

if TYPE_CHECKING:
    from toolkit.runs.attempts.trial import Trial
    from toolkit.tools import Tool

    Check = str | Tool[..., Any] | Callable[[Trial], bool | str | Awaitable[bool | str]]

DEADLINE = 600.0
MOST_OUTPUT = 16_000
_EXAMPLE = 'Write for example: verify="pytest -q", or verify=Verify("pytest -q", attempts=3)'


@dataclass(frozen=True, slots=True)
class Verify:
    """What the launcher runs when the agent says it is done, and how often the agent may try.

    Raises:
        OptionError: an argument that is not what it may be.
    """

    check: Check
    """A command, as for a shell: exit code 0 is success. It runs in a jail of its own, offline, on a throw-away copy of
    the agent's files. Or a function, sync or async, that gets this copy (`lambda ws: …`), or a tool without required
    parameters: True is success, False or a text that says what is wrong is not, and neither is an exception."""
    _: dataclasses.KW_ONLY
    attempts: int = 1
    """How often it is run at most. After each but the last its output goes back to the agent."""
    deadline: float = DEADLINE
    """Seconds after which it is ended, and has failed."""
    max_output: int = MOST_OUTPUT
    """Characters of its output that are kept and told: the last ones."""

    def __new__(cls, *args: Any, **options: Any) -> Verify:
        """Answer a name that is no argument's in words, before Python does."""
        known = [one.name for one in dataclasses.fields(cls)]
        check_names("Verify", options, known, dict.fromkeys(("command", "cmd", "run"), 'Verify("pytest -q", …)'))
        return object.__new__(cls)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "check", _check(self.check))
        number("verify deadline", self.deadline)
        for name in ("attempts", "max_output"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise wrong(f"verify {name}", value, "it is a whole number above zero")

    @property
    def name(self) -> str:
        """What it is, in words: the command, or the name of the function or tool."""
        if isinstance(self.check, str):
            return safe_line(self.check, 200)
        from toolkit.tools import Tool

        if isinstance(self.check, Tool):
            return f"the tool {self.check.name}"
        return f"the function {getattr(self.check, '__name__', type(self.check).__name__)}"


def as_verify(name: str, value: Any) -> Verify | None:
    """The rule for the option: a Verify, what it checks with alone, or a mapping with the same names."""
    if value is None or isinstance(value, Verify):
        return value
    if isinstance(value, Mapping):
        known = {"command": "check", **{one: one for one in ("attempts", "deadline", "max_output")}}
        for key in value:
            if key not in known:
                raise wrong(name, value, f"it has no '{key}'{did_you_mean(str(key), known)}", _EXAMPLE)
        if "command" not in value:
            raise wrong(name, value, "its 'command' is missing", _EXAMPLE)
        return Verify(**{known[key]: one for key, one in value.items()})
    return Verify(value)


def _check(value: Any) -> Any:
    if isinstance(value, str):
        if "\0" in value:
            raise wrong("verify", value, "a command holds no NUL")
        return str(passed_on(text("a command", _EXAMPLE))("verify", value))
    from toolkit.tools import as_tool

    found = as_tool(value)
    if found is not None:
        required = found.input_schema.get("required") or ()
        if required:
            what = f"verify: the tool '{found.name}' needs {', '.join(map(repr, required))}, which nobody gives it"
            raise OptionError("verify", what, fix="Give these parameters defaults, or use a function: lambda ws: …")
        return found
    if isinstance(value, type) or not callable(value):
        raise wrong("verify", value, "it is a command, a function that takes the workspace, or a tool", _EXAMPLE)
    return called_with("the workspace", "verify=lambda ws: (ws / 'done.txt').exists()")("verify", value)
