"""What can be said of a resource or a prompt beside its function."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from toolkit.tools.offers.icons import read_icons
from toolkit.tools.options import given_options, refuse_nothing_left, refuse_wrong_part
from toolkit.tools.plain_json import is_json_object
from toolkit.tools.schema import Subject

MOST_BYTES = 16_000_000
"""What a resource may hold unless it says otherwise: everything is sent as one message."""

Icons = (
    str | Path | Mapping[str, Any] | list[str | Path | Mapping[str, Any]] | tuple[str | Path | Mapping[str, Any], ...]
)
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


class Annotations(TypedDict, total=False):
    """The MCP annotations of a resource that the protocol gives a meaning."""

    audience: Sequence[Literal["user", "assistant"]]
    priority: float
    lastModified: str


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
            ToolDefinitionError: there is no such option, it is of another type, or its value cannot be.
        """
        # Some things that are no icon are told apart by what is in them, which says more than their type.
        icons = read_icons(options.get("icons"), subject.refusal)
        chosen = given_options(subject, f"@{subject.kind}", options, known)
        refuse_nothing_left(subject, chosen, ("timeout", "max_bytes"))
        ttl = chosen.get("ttl", 0)
        if ttl < 0 or not math.isfinite(ttl):
            raise subject.refusal(f"ttl={ttl!r} is no time that something can be kept", "Give seconds, 0 or more")
        for name in ("meta", "annotations"):
            if not is_json_object(chosen.get(name, {})):
                raise subject.refusal(f"its {name} cannot be sent: {options[name]!r}", f"Give a dict: {name}={{}}")
        _refuse_wrong_annotations(subject, chosen.get("annotations", {}))
        if "/" not in chosen.get("mime", "/"):
            raise subject.refusal(f"mime={chosen['mime']!r} is no MIME type", 'Write it as "text/markdown"')
        chosen.pop("name", None)
        return cls(**{**chosen, "icons": icons, "any_path": frozenset(chosen.get("any_path", ()))})

    def shown(self) -> dict[str, Any]:
        """The fields of a list entry that both kinds have."""
        entry = {"title": self.title, "icons": list(self.icons) or None, "_meta": dict(self.meta) or None}
        return {key: value for key, value in entry.items() if value is not None}


def _refuse_wrong_annotations(subject: Subject, annotations: Mapping[str, Any]) -> None:
    refuse_wrong_part(subject, "annotations", annotations, Annotations)
    priority = annotations.get("priority")
    if priority is not None and not 0 <= priority <= 1:
        what = f"in its annotations, priority={priority!r} cannot be used: it must be from 0 to 1"
        raise subject.refusal(what, 'Write it as: annotations={"priority": 0.5}')
