"""The model API of the simulation: it takes so many requests a second, refuses the rest, and writes bills."""

from __future__ import annotations

from collections import Counter

from tests.scale.world import World

TOKENS_A_CALL = 1000


class SimulatedAPI:
    """A bucket that fills at the API's rate and holds a second's worth."""

    def __init__(self, world: World, per_second: float, *, says_when: bool = True) -> None:
        self._world = world
        self._per_second = per_second
        self._says_when = says_when
        self._bucket = per_second
        self._filled = 0.0
        self._factor = 1.0
        self._room = 0.0
        self.bills: Counter[str] = Counter()
        """Tokens by run."""
        self.refused = 0
        self.accepted = 0

    def become(self, factor: float) -> None:
        """Take only a part of the usual rate from now on."""
        self._fill()
        self._factor = factor

    def room(self) -> float:
        """How many requests it could have taken until now."""
        self._fill()
        return self._room

    def ask(self, run: str) -> tuple[int, float | None]:
        """A status, and the seconds to wait where it says so."""
        self._fill()
        if self._bucket < 1.0:
            self.refused += 1
            return (429 if self._factor > 0.5 else 529), (1.0 if self._says_when else None)
        self._bucket -= 1.0
        self.accepted += 1
        self.bills[run] += TOKENS_A_CALL
        return 200, None

    def _fill(self) -> None:
        gained = (self._world.now - self._filled) * self._per_second * self._factor
        self._filled = self._world.now
        self._room += gained
        self._bucket = min(self._bucket + gained, max(1.0, self._per_second))
