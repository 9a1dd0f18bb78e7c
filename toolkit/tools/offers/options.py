"""What can be said of a resource or a prompt beside its function."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from toolkit._base.words import did_you_mean
from toolkit.tools.offers.icons import read_icons
from toolkit.tools.plain_json import is_json_object
from toolkit.tools.schema import Subject

MOST_BYTES = 16_000_000
"""What a resource may hold unless it says otherwise: everything is sent as one message."""

Icons = str | Path | Mapping[str, Any] | list[str | Path | Mapping[str, Any]]
"""An address, a file that is sent along, or an MCP icon; one or several."""


class PromptOptions(TypedDict, total=False):
    """The options of `@prompt(...)`."""

    name: str
    """What clients call it; the function's name if not given."""
    title: str
    """A name for people."""
    description: str
    """What clients show about it; the docstring if not given."""
    icons: Icons
    """Pictures that clients may show beside it."""
    timeout: float
    """Seconds after which a request is answered with an error."""
    meta: Mapping[str, Any]
    """What its `_meta` has."""


class ResourceOptions(PromptOptions, total=False):
    """The options of `@resource("uri", ...)`."""

    mime: str
    """The MIME type; without it the type of the value and the first bytes tell."""
    ttl: float
    """Seconds for which a client may keep what it has read."""
    max_bytes: int
    """Bytes it may hold; 16 MB if not given."""
    annotations: Mapping[str, Any]
    """MCP annotations: audience, priority, lastModified."""
    any_path: Collection[str]
    """Parameters that may be absolute paths or hold `..`; all others are refused with those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferOptions:
    """What a resource or a prompt was given, but for its name."""

    title: str | None = None
    description: str | None = None
    icons: tuple[Mapping[str, Any], ...] = ()
    timeout: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    mime: str | None = None
    ttl: float | None = None
    max_bytes: int = MOST_BYTES
    annotations: Mapping[str, Any] = field(default_factory=dict)
    any_path: frozenset[str] = frozenset()

    @classmethod
    def checked(cls, subject: Subject, options: Mapping[str, Any], known: type) -> OfferOptions:
        """The options a user gave.

        Raises:
            ToolDefinitionError: there is no such option, or its value cannot be.
        """
        where = f"@{subject.kind}"
        fix = f"Change the arguments of {where}(...)"
        allowed = known.__annotations__
        for name in options:
            if name not in allowed:
                raise subject.refusal(f"{where} has no option '{name}'{did_you_mean(name, allowed)}", fix)
        for name in ("timeout", "max_bytes", "ttl"):
            value = options.get(name)
            least = 0 if name == "ttl" else 1e-9
            if value is not None and (not isinstance(value, int | float) or value < least):
                raise subject.refusal(f"{name}={value!r} leaves nothing: it must be a number above zero", fix)
        for name in ("meta", "annotations"):
            if not is_json_object(options.get(name, {})):
                raise subject.refusal(f"its {name} cannot be sent: {options[name]!r}", f"Give a dict: {name}={{}}")
        mime = options.get("mime")
        if mime is not None and not (isinstance(mime, str) and "/" in mime):
            raise subject.refusal(f"mime={mime!r} is no MIME type", 'Write it as "text/markdown"')
        chosen = {name: value for name, value in options.items() if name != "name"}
        chosen["icons"] = read_icons(options.get("icons"), subject.refusal)
        chosen["any_path"] = frozenset(options.get("any_path", ()))
        return cls(**chosen)

    def shown(self) -> dict[str, Any]:
        """The fields of a list entry that both kinds have."""
        entry = {"title": self.title, "icons": list(self.icons) or None, "_meta": dict(self.meta) or None}
        return {key: value for key, value in entry.items() if value is not None}
