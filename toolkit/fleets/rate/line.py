"""Who goes next: the requests that wait on one machine, in order.

1. what was sent before and met the limit
2. what has waited too long: nobody starves
3. the higher priority
4. the project of the request that left last, whose prompt the API has in its cache; then the longest wait
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

PATIENCE = 30.0
"""Seconds after which a request goes before those with a higher priority or of another project."""
_numbers = itertools.count()


@dataclass(slots=True, eq=False)
class Ticket:
    """One request that waits for its turn, or has had it."""

    project: str = ""
    priority: int = 0
    again: bool = False
    run: str = ""
    wait: float = 0.0
    """Seconds after it came in which it may not leave: the API asked for that."""
    since: float = 0.0
    """When it came, by the clock of its pacer."""
    left: float | None = None
    """When it was let go."""
    number: int = field(default_factory=lambda: next(_numbers))


class Line:
    """The tickets that wait."""

    def __init__(self) -> None:
        self._waiting: dict[Ticket, None] = {}
        self._last = ""

    def __len__(self) -> int:
        return len(self._waiting)

    def runs(self) -> set[str]:
        """The runs that wait."""
        return {ticket.run for ticket in self._waiting}

    def enter(self, ticket: Ticket) -> None:
        """Stand in line."""
        self._waiting[ticket] = None

    def leave(self, ticket: Ticket) -> None:
        """Give the place up, where there was one."""
        self._waiting.pop(ticket, None)

    def first(self, now: float) -> Ticket | None:
        """Whose turn is next; it stays in line. None where nobody may leave yet."""
        ready = [ticket for ticket in self._waiting if ticket.since + ticket.wait <= now]
        return min(ready, key=lambda ticket: self._place(ticket, now), default=None)

    def ready_at(self) -> float:
        """When the next one of those who wait may leave, at the earliest."""
        return min((ticket.since + ticket.wait for ticket in self._waiting), default=0.0)

    def watcher(self, now: float) -> Ticket | None:
        """Who keeps watch over the time for all: whose turn is next, or who may leave first."""
        return self.first(now) or min(self._waiting, key=lambda ticket: ticket.since + ticket.wait, default=None)

    def take(self, now: float) -> Ticket | None:
        """Let the next one go."""
        ticket = self.first(now)
        if ticket is not None:
            self.leave(ticket)
            ticket.left = now
            self._last = ticket.project
        return ticket

    def _place(self, ticket: Ticket, now: float) -> tuple[bool, bool, int, bool, int]:
        is_late = now - ticket.since > PATIENCE
        other = ticket.project != self._last
        return (not ticket.again, not is_late, 0 if is_late else -ticket.priority, not is_late and other, ticket.number)
