"""What a token covers, read from its scopes.

    tools               every tool, prompt and resource
    tools:read-only     tools that say they only read; prompts and resources
    tools:NAME          the tool or prompt of that name
    metrics             /metrics, and nothing else

A scope that is none of these covers nothing, so a token without one of them calls nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TOOLS = "tools"
READ_ONLY = "tools:read-only"
METRICS = "metrics"
_NAMED = "tools:"

_READS = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_LISTEN = "subscriptions/listen"
_ABOUT_RESOURCES = ("resourceSubscriptions", "resourcesListChanged")
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What the scopes of one token cover."""

    everything: bool
    read_only: bool
    metrics: bool
    names: frozenset[str]

    @classmethod
    def of(cls, scopes: Iterable[str]) -> Grant:
        """The sum of the scopes."""
        given = frozenset(scopes)
        named = frozenset(scope.removeprefix(_NAMED) for scope in given if scope.startswith(_NAMED))
        return cls(TOOLS in given, READ_ONLY in given, TOOLS in given or METRICS in given, named - {"read-only"})

    def missing(self, method: str, params: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> str | None:
        """The scope that a request needs and this grant lacks; None when it is covered.

        `entries` are the tools as they are listed, with their hints.
        """
        if self.everything:
            return None
        name = params.get("name")
        if method == "tools/call":
            covered = name in self.names or (self.read_only and _reads_only(name, entries))
        elif method == "prompts/get":
            covered = self.read_only or name in self.names
        elif method == "completion/complete":
            ref = params.get("ref")
            name = ref.get("name", "read-only") if isinstance(ref, dict) else None
            covered = self.read_only or name in self.names
        elif method in _READS or (method == _LISTEN and _names_resources(params)):
            covered, name = self.read_only, "read-only"
        else:
            covered, name = self.read_only or bool(self.names), None
        if covered:
            return None
        return f"{_NAMED}{name}" if isinstance(name, str) and name.isprintable() and len(name) <= 128 else TOOLS

    def visible(self, method: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """A list as the holder of the token sees it: what it may not use is not there."""
        key = _LISTS.get(method)
        listed = result.get(key) if key else None
        if self.everything or key is None or not isinstance(listed, list):
            return result
        return {**result, key: [entry for entry in listed if self._shows(method, entry)]}

    def _shows(self, method: str, entry: Mapping[str, Any]) -> bool:
        if method == "tools/list":
            return entry.get("name") in self.names or (self.read_only and _is_read_only(entry))
        return self.read_only or (method == "prompts/list" and entry.get("name") in self.names)


def _names_resources(params: Mapping[str, Any]) -> bool:
    """Whether somebody who listens wants to hear of resources."""
    wanted = params.get("notifications")
    return isinstance(wanted, dict) and any(wanted.get(key) for key in _ABOUT_RESOURCES)


def _reads_only(name: object, entries: Iterable[Mapping[str, Any]]) -> bool:
    return any(entry["name"] == name and _is_read_only(entry) for entry in entries)


def _is_read_only(entry: Mapping[str, Any]) -> bool:
    return (entry.get("annotations") or {}).get("readOnlyHint") is True
