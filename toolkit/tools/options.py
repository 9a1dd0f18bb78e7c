"""What can be said of a tool beside its function: hints for clients, limits, and how it is listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from toolkit._base.words import did_you_mean
from toolkit.tools.schema import Subject

_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


class CommonOptions(TypedDict, total=False):
    """The options that every tool takes, whatever it is made of."""

    title: str
    """A name for people."""
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
    always_load: bool
    """False lets Claude Code hide the tool until it is searched for."""
    icons: Any
    """Pictures that clients may show beside it: an address, a file (`Path`), or a list of them."""


class ToolOptions(CommonOptions, total=False):
    """The options of `@tool(...)`."""

    name: str
    """What clients call it; the function's name if not given."""
    description: str
    """What the model reads; the docstring if not given."""
    structured: bool
    """Also declare an output schema and send structured content, which Claude Code shows instead of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a tool was given, but for its name; the signature and the docstring say the rest."""

    title: str | None = None
    description: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    timeout: float | None = None
    max_chars: int | None = None
    structured: bool = False
    always_load: bool = True
    icons: tuple[Mapping[str, Any], ...] = ()
    more_annotations: Mapping[str, Any] = field(default_factory=dict)
    """MCP annotations that we have no option for."""
    more_meta: Mapping[str, Any] = field(default_factory=dict)
    """What the tool's `_meta` has beside our own entries."""

    @classmethod
    def checked(cls, subject: Subject, options: Mapping[str, Any], known: type = ToolOptions) -> Options:
        """The options a user gave.

        Raises:
            ToolDefinitionError: there is no such option, or its value leaves nothing.
        """
        where = "@tool" if known is ToolOptions else "Tool.from_schema"
        fix = f"Change the arguments of {where}(...)"
        for name in options:
            if name not in known.__annotations__:
                near = did_you_mean(name, known.__annotations__)
                raise subject.refusal(f"{where} has no option '{name}'{near}", fix)
        for name in ("timeout", "max_chars"):
            value = options.get(name)
            if value is not None and not value > 0:
                raise subject.refusal(f"{name}={value!r} leaves nothing: it must be above zero", fix)
        chosen = {name: value for name, value in options.items() if name != "name"}
        if "icons" in chosen:
            from toolkit.tools.offers import read_icons

            chosen["icons"] = read_icons(chosen["icons"], subject.refusal)
        return cls(**chosen)

    def hints(self) -> dict[str, Any]:
        """The MCP annotations that were given."""
        given = {hint: getattr(self, name) for name, hint in _HINTS.items()}
        return {**self.more_annotations, **{hint: value for hint, value in given.items() if value is not None}}

    def meta(self) -> dict[str, Any]:
        """What Claude Code reads beside the MCP fields."""
        meta: dict[str, Any] = {}
        if self.always_load:
            meta["anthropic/alwaysLoad"] = True
        if self.max_chars is not None:
            meta["anthropic/maxResultSizeChars"] = self.max_chars
        return {**meta, **self.more_meta}


def hints_as_options(annotations: Mapping[str, Any]) -> tuple[dict[str, bool], dict[str, Any]]:
    """MCP annotations as options of ours, and those that we have no option for."""
    ours = {name: annotations[hint] for name, hint in _HINTS.items() if isinstance(annotations.get(hint), bool)}
    return ours, {key: value for key, value in annotations.items() if key not in _HINTS.values()}
