"""What a run has used until now, told as it happens: so it is known also when its worker is lost.

    BASE/books/TASK/N/K      the account of the Nth run of a task, its Kth version (only the latest is kept)

A model call is entered before it leaves, with what it may come to, and again when it has ended, with what it came to. A
call that was cut off with its worker stays open: it is charged as it was entered, and nobody says that it was free.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Account:
    """What one run has used."""

    tokens: int = 0
    """Of the calls that have ended."""
    calls: int = 0
    """The calls that have ended."""
    open: dict[str, int | None] = field(default_factory=dict)
    """The calls under way, each with the tokens it may come to; None where nobody knows."""
    known_cost: float = 0.0
    """Dollars, as far as they are known."""

    @property
    def charged(self) -> int:
        """The tokens it is charged with: calls under way with what they may come to."""
        return self.tokens + sum(most or 0 for most in self.open.values())

    def booked(self, call: str, tokens: int | None) -> Account:
        """The account when a call is about to leave."""
        return replace(self, open={**self.open, call: tokens})

    def settled(self, call: str, tokens: int) -> Account:
        """The account when a call has ended."""
        return replace(self.without(call), tokens=self.tokens + tokens, calls=self.calls + 1)

    def without(self, call: str) -> Account:
        """The account without a call that cost nothing."""
        return replace(self, open={name: most for name, most in self.open.items() if name != call})

    def to_data(self) -> dict[str, Any]:
        """The account as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Account:
        """The account that `to_data` gave."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})
