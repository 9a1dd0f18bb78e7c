"""What the servers of a run say of their tools: the definition that each gave first, and the one it gives now.

A server can announce a changed list at any time, and the CLI takes it without a word. So each line of a
server is heard before the CLI reads it. A line that cannot be read here is kept back: nobody could say
what the CLI would find in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolkit.runs.turn.servers.names import tool_name

if TYPE_CHECKING:
    from toolkit.tools import Toolbox

_MOST_TOOLS = 10_000


class Definitions:
    """Of one run, with all its processes: one that is started again is known by what the first one said."""

    def __init__(self) -> None:
        self.known: dict[str, set[str]] = {}
        """The tools that each server had when it was started first, by the names that the model uses."""
        self._offering: set[str] = set()
        """The servers that said that they have tools."""
        self._first: dict[str, dict[str, str]] = {}
        self._now: dict[str, dict[str, str]] = {}

    def hear(self, server: str, line: bytes) -> list[str] | None:
        """The tools that a line of a server tells of, mostly none; None for a line that cannot be read."""
        try:
            # A JavaScript program reads it next: bytes that are no text are replaced, and every number is a float.
            said = json.loads(line.decode("utf-8", "replace"), parse_int=float)
        except (ValueError, RecursionError):
            return None
        if any(_offers_tools(result) for result in _results(said)):
            self._offering.add(server)
        return [name for tools in _lists(said) for name in self._take(server, tools)]

    def forget(self, servers: Iterable[str]) -> None:
        """The caller has set these anew."""
        for server in servers:
            self._offering.discard(server)
            for kept in (self.known, self._first, self._now):
                kept.pop(server, None)

    def why_without(self, server: str) -> str | None:
        """Why a server of which the CLI has no tool lacks them; None where it never said that it has some."""
        listed = self._first.get(server)
        if server not in self._offering or listed == {}:
            return None
        return "it did not list its tools" if listed is None else "the CLI takes none of its tools"

    def now(self, server: str, tool: str) -> str | None:
        """What tells the definition that a tool has now from any other; None where none was heard."""
        return self._now.get(server, {}).get(tool)

    def has_changed(self, server: str, tool: str) -> bool:
        """Whether a tool is another one than it was, as far as anybody can know."""
        now = self.now(server, tool)
        return now is None or now != self._first[server][tool]

    def _take(self, server: str, tools: list[Any]) -> Iterable[str]:
        first, now = self._first.setdefault(server, {}), self._now.setdefault(server, {})
        listed: dict[str, set[str]] = {}
        for tool in tools[:_MOST_TOOLS]:
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                listed.setdefault(tool_name(server, tool["name"]), set()).add(mark_of(tool))
        for name, marks in listed.items():
            if name in first or len(first) < _MOST_TOOLS:
                now[name] = "+".join(sorted(marks))
                first.setdefault(name, now[name])
        return listed


def definition_in(boxes: Iterable[Toolbox], tool: str) -> str | None:
    """The same of a tool of the run's own boxes; None where they do not have it."""
    for box in boxes:
        for one in box:
            if tool == tool_name(box.name, one.name):
                return mark_of(one.listing())
    return None


def _lists(said: Any) -> Iterator[list[Any]]:
    """The lists of tools in a message, or in several that came together, whatever they answer."""
    for result in _results(said):
        if isinstance(tools := result.get("tools"), list):
            yield tools


def _results(said: Any) -> Iterator[dict[str, Any]]:
    for one in said if isinstance(said, list) else [said]:
        if isinstance(one, dict) and isinstance(result := one.get("result"), dict):
            yield result


def _offers_tools(result: dict[str, Any]) -> bool:
    able = result.get("capabilities")
    return isinstance(able, dict) and isinstance(able.get("tools"), dict)


def mark_of(definition: dict[str, Any]) -> str:
    """Letters that stand for this definition of a tool, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()[:32]
