"""What can be said of a tool beside its function: hints for clients, limits, and how it is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from toolkit._base.words import did_you_mean
from toolkit.tools.declared import misfit
from toolkit.tools.plain_json import is_json_object
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


class EntryOptions(CommonOptions, total=False):
    """The options of `Tool.from_schema(...)`."""

    description: str | None
    """What the model reads."""
    annotations: Mapping[str, Any] | None
    """The entry's own MCP annotations."""
    meta: Mapping[str, Any] | None
    """What its `_meta` has beside our own entries."""
    render: Callable[[Any], Any] | None
    """What `@tool.renders` would take."""


class ToolHints(TypedDict, total=False):
    """The MCP annotations of a tool that the protocol gives a meaning."""

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


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
    def checked(cls, subject: Subject, options: Mapping[str, Any]) -> Options:
        """The options that `@tool` was given.

        Raises:
            ToolDefinitionError: there is no such option, it is of another type, or its value leaves nothing.
        """
        return cls(**_chosen(subject, "@tool", options, ToolOptions))

    @classmethod
    def of_entry(cls, subject: Subject, options: Mapping[str, Any]) -> tuple[Options, Callable[[Any], Any] | None]:
        """The options that `Tool.from_schema` was given, and the renderer among them.

        Raises:
            ToolDefinitionError: as for `checked`, or what is sent as it is cannot be sent.
        """
        chosen = _chosen(subject, "Tool.from_schema", options, EntryOptions)
        render, meta, annotations = (chosen.pop(name, None) for name in ("render", "meta", "annotations"))
        for what, mapping in (("annotations", annotations), ("meta", meta)):
            if not is_json_object(mapping or {}):
                fix = f"Give a dict of JSON values: {what}={{}}"
                raise subject.refusal(f"its {what} cannot be sent: {mapping!r}", fix)
        hints, more = _hints_as_options(subject, annotations or {})
        for name in hints.keys() & chosen.keys():
            if hints[name] != chosen[name]:
                said = f"its annotations say {_HINTS[name]}={hints[name]}, and the options {name}={chosen[name]}"
                raise subject.refusal(said, "Leave one of them out")
        if chosen.get("read_only") or chosen.get("destructive"):
            _refuse_both(subject, {**hints, **chosen})
        return cls(**{**hints, **chosen}, more_annotations=more, more_meta=dict(meta or {})), render

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


def _chosen(subject: Subject, where: str, options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """The options of a tool as `Options` has them."""
    chosen = given_options(subject, where, options, known)
    refuse_nothing_left(subject, chosen, ("timeout", "max_chars"))
    chosen.pop("name", None)
    _refuse_both(subject, chosen)
    if "icons" in chosen:
        from toolkit.tools.offers import read_icons

        chosen["icons"] = read_icons(chosen["icons"], subject.refusal)
    return chosen


def _refuse_both(subject: Subject, options: Mapping[str, Any]) -> None:
    """Raise where a tool is said to change nothing, and to lose what it changes."""
    if options.get("read_only") and options.get("destructive"):
        raise subject.refusal("it cannot be both read-only and destructive", "Leave read_only or destructive out")


def given_options(subject: Subject, where: str, options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """The options that were given, None among them left out: every one is what `known`, a TypedDict, declares.

    Raises:
        ToolDefinitionError: there is no such option, or it is of another type.
    """
    for name in options:
        if name not in known.__annotations__:
            near = did_you_mean(name, known.__annotations__)
            raise subject.refusal(f"{where} has no option '{name}'{near}", f"Change the arguments of {where}(...)")
    chosen = {name: value for name, value in options.items() if value is not None}
    if wrong := misfit(chosen, known):
        raise subject.refusal(wrong.what, f"Write {wrong.example} in {where}(...)")
    return chosen


def refuse_nothing_left(subject: Subject, options: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise where one of these numbers is not above zero."""
    for name in names:
        if name in options and not options[name] > 0:
            what = f"{name}={options[name]!r} leaves nothing: it must be above zero"
            raise subject.refusal(what, f"Give it more, or leave {name} out")


def refuse_wrong_part(subject: Subject, where: str, given: Mapping[str, Any], known: type) -> None:
    """Raise where a part of an MCP object that was given is not what the protocol says of it; others may be there."""
    if wrong := misfit({name: value for name, value in given.items() if value is not None}, known):
        name, _, example = wrong.example.partition("=")
        raise subject.refusal(f"in its {where}, {wrong.what}", f'Write it as: {where}={{"{name}": {example}}}')


def _hints_as_options(subject: Subject, annotations: Mapping[str, Any]) -> tuple[dict[str, bool], dict[str, Any]]:
    """MCP annotations as options of ours, and those that we have no option for.

    Raises:
        ToolDefinitionError: one is not what the protocol says of it.
    """
    refuse_wrong_part(subject, "annotations", annotations, ToolHints)
    ours = {name: annotations[hint] for name, hint in _HINTS.items() if annotations.get(hint) is not None}
    return ours, {key: value for key, value in annotations.items() if key not in _HINTS.values()}
