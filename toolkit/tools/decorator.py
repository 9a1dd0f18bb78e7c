"""`@tool`: the one decorator. Everything the agent sees comes from the signature and the docstring."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, overload

from typing_extensions import ParamSpec

from toolkit._base.words import did_you_mean
from toolkit.tools.schema import Subject, read_subject
from toolkit.tools.tool import Options, Tool

P = ParamSpec("P")
R = TypeVar("R")
_FIX = "Change the arguments of @tool(...)"


class ToolOptions(TypedDict, total=False):
    """The options of `@tool(...)`."""

    name: str
    """What clients call it; the function's name if not given."""
    title: str
    """A name for people."""
    description: str
    """What the model reads; the docstring if not given."""
    read_only: bool
    """It changes nothing: clients may run several at once and need not ask."""
    destructive: bool
    """What it changes may be lost."""
    idempotent: bool
    """Calling it twice is the same as calling it once."""
    open_world: bool
    """It reaches out to things outside: the web, other systems."""
    timeout: float
    """Seconds after which a call is answered with an error."""
    max_chars: int
    """Characters of text a result may have; more is cut at a line, and the model is told."""
    structured: bool
    """Also declare an output schema and send structured content, which Claude Code shows instead of the text."""
    always_load: bool
    """False lets Claude Code hide the tool until it is searched for."""


class _Decorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> _Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a typed function a tool: `@tool`, `@tool(read_only=True)` or `tool(function, name="…")`.

    Raises:
        ToolDefinitionError: the function cannot be a tool; the message has the place and the fix.
    """
    frame = sys._getframe(1)
    # Only a function defined inside another needs names that its globals do not have.
    namespace = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    module = str(frame.f_globals.get("__name__", ""))

    def decorate(target: Callable[..., Any]) -> Tool[..., Any]:
        subject = read_subject(target, options.get("name"), module, namespace)
        return Tool(subject, _checked(subject, options))

    return decorate if function is None else decorate(function)


def _checked(subject: Subject, options: dict[str, Any]) -> Options:
    for name in options:
        if name not in ToolOptions.__annotations__:
            known = did_you_mean(name, ToolOptions.__annotations__)
            raise subject.refusal(f"@tool has no option '{name}'{known}", _FIX)
    for name in ("timeout", "max_chars"):
        value = options.get(name)
        if value is not None and not value > 0:
            raise subject.refusal(f"{name}={value!r} leaves nothing: it must be above zero", _FIX)
    return Options(**{name: value for name, value in options.items() if name != "name"})
