"""What is decided about the rate of a batch, and what follows from it until the next decision.

A decision is a function of time: who knows the last one and when it began knows the rate now, without being told of
every step. Only what is learned is a decision: that the API refused, or that it did not although the rate had grown.

    begin      low, and twice as much every few seconds until the API refuses for the first time
    lowered    a seventh less than what was refused; nothing at all as long as the API asked to wait
    then       up to just below what was refused, evenly; from there carefully, and the faster the longer it goes well
    raised     nothing was refused although the rate is well above what was once: from here as at the beginning
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

FIRST_RATE = 2.0
"""Requests a second at the beginning."""
LOWEST_RATE = 0.05
HIGHEST_RATE = 10_000.0
LONGEST_PAUSE = 900.0
"""The most that is believed of what an API asks to wait; longer, and somebody is asked again after that."""
_DOUBLING = 4.0
_STEPS_OF_BEGINNING = 8.0
_LESS = 0.85
_CLIMB_SECONDS = 5.0
_JUST_BELOW = 0.97
_CARE = 3.75e-6
"""How the rate grows after the climb: by this part of the ceiling, times the cube of the seconds; 3 % in 20 of them."""
_FAR_ABOVE = 1.5
_LATE = 0.85
_FURTHEST = 0.25
_ROUNDED = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision on the rate; it holds until the next."""

    number: int = 1
    why: str = "begin"
    """`begin`, `lowered` or `raised`."""
    base: float = FIRST_RATE
    """Requests a second that it begins with."""
    ceiling: float | None = None
    """Requests a second that were too many; None as long as the API has refused nothing."""
    pause: float = 0.0
    """Seconds at the beginning in which nothing leaves."""
    status: int | None = None
    """What the API answered, where that was the reason."""
    retry_after: float | None = None
    """Seconds that it asked to wait."""
    at: float = 0.0
    """When it was made, by the wall clock of whoever made it."""
    machine: str = ""
    """Who made it."""

    def rate(self, elapsed: float) -> float:
        """Requests a second, so many seconds after it began."""
        free = elapsed - self.pause
        if free < 0:
            return 0.0
        if self.ceiling is None:
            grown = self.base * math.pow(2.0, min(free / _DOUBLING, 60.0))
            return min(grown, self.base * _STEPS_OF_BEGINNING, HIGHEST_RATE)
        top = self.ceiling * _JUST_BELOW
        if free < _CLIMB_SECONDS:
            return self.base + (top - self.base) * free / _CLIMB_SECONDS
        beyond = self.ceiling * _CARE * (free - _CLIMB_SECONDS) ** 3
        return min(top + beyond, self.ceiling * _FAR_ABOVE, HIGHEST_RATE)

    def has_grown_out(self, elapsed: float) -> bool:
        """Whether the rate grows no further by itself: then somebody who still waits may raise it."""
        most = self.base * _STEPS_OF_BEGINNING if self.ceiling is None else self.ceiling * _FAR_ABOVE
        return self.rate(elapsed) >= min(most, HIGHEST_RATE) < HIGHEST_RATE

    def lowered(self, elapsed: float, used: float, passed: float, status: int, retry_after: float | None) -> Decision:
        """The decision after a refusal.

        `used` is the rate of what really left just now, which may be less than was allowed; `passed` the rate of all
        that left under this decision. An API that lets some through at once refuses late: then that was too many, too.
        """
        pause = _pause(retry_after)
        allowed = self.rate(elapsed) or self.base  # a refusal in a pause is of a request that left before
        seen = min(allowed, max(used, allowed * _FURTHEST))
        ceiling = max(min(seen, max(passed, seen * _LATE)), LOWEST_RATE / _LESS)
        return Decision(
            self.number + 1, "lowered", ceiling * _LESS, ceiling, pause, status=status, retry_after=retry_after
        )

    def paused(self, elapsed: float, status: int, retry_after: float) -> Decision | None:
        """The same with a longer pause, where a request that left before was told to wait longer; else None."""
        pause = _pause(retry_after)
        if elapsed + pause <= self.pause + 0.5:
            return None
        return dataclasses.replace(
            self, number=self.number + 1, why="lowered", pause=pause, status=status, retry_after=retry_after
        )

    def raised(self, elapsed: float) -> Decision:
        """The decision to go on from a rate that the API did not refuse: what it once refused counts no longer."""
        return Decision(self.number + 1, "raised", self.rate(elapsed))


def _pause(retry_after: float | None) -> float:
    """Seconds in which nobody sends anything. APIs round up to whole seconds: one second is a matter of one request."""
    return min(max(0.0, (retry_after or 0.0) - _ROUNDED), LONGEST_PAUSE)
