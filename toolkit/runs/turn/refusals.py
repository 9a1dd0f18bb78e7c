"""What the gate refused in a turn, told as events: each thing once when it happens, and how often at the end.

A program that is refused often asks again at once, and an agent can make it ask for
ever new things, so what is repeated is counted and the number of events is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.sandbox import Refusal

MOST_TOLD = 50
"""Different refusals of one turn that have an event of their own; the rest is counted in one more."""
_REST = {
    "what": "further requests",
    "rule": "several",
    "why": "more was refused than is listed",
    "fix": "Look at what the agent runs",
}


class GateRefusals:
    """Takes refusals from the gate and tells them while a turn is under way, never between two."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}
        self._times: dict[tuple[str, str], int] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._is_open = False

    def take(self, refusal: Refusal) -> None:
        """Count one refusal, and tell it if it is the first of its kind."""
        key = (refusal.request, refusal.code)
        facts = {"what": refusal.request, "rule": refusal.code, "why": refusal.message, "fix": refusal.fix}
        if key not in self._facts and len(self._facts) >= MOST_TOLD:
            key, facts = (_REST["what"], _REST["rule"]), _REST
        self._facts.setdefault(key, facts)
        self._times[key] = self._times.get(key, 0) + 1
        if self._is_open and key not in self._told:
            self._tell_one(key)

    def begin(self) -> None:
        """A turn has begun: tell what was refused before it, and from now on at once."""
        self._is_open = True
        self._tell_new()

    def end(self) -> None:
        """The turn ends: tell how often each was refused, and forget."""
        self._tell_new()
        self._is_open = False
        for kept in (self._facts, self._times, self._told):
            kept.clear()

    def _tell_new(self) -> None:
        for key, times in self._times.items():
            if self._told.get(key) != times:
                self._tell_one(key)

    def _tell_one(self, key: tuple[str, str]) -> None:
        self._told[key] = self._times[key]
        self._tell(**self._facts[key], times=self._times[key])
