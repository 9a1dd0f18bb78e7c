"""Simulated time: events in order, and nothing else moves the clock."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

MOST_EVENTS = 20_000_000


class World:
    """A clock, the events to come, and the dice."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.dice = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._depth = 0
        self.done = 0
        """Events that have happened."""

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen, so many seconds from now."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), what))

    def run(self, until: float, is_over: Callable[[], bool]) -> None:
        """Let everything happen until then, or until it is over."""
        while self._events and self._events[0][0] <= until and not is_over():
            self._next()
            assert self.done < MOST_EVENTS, "the simulation does not end"

    def meanwhile(self, within: float) -> None:
        """Somebody waits for an answer: let what others do in that moment happen before it."""
        if self._depth < 3 and self._events and self._events[0][0] <= self.now + within:
            self._depth += 1
            self._next()
            self._depth -= 1

    def _next(self) -> None:
        at, _, what = heapq.heappop(self._events)
        self.now = max(self.now, at)
        self.done += 1
        what()
