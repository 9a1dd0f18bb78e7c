"""One machine's share of the purse: its runs are promised parts of it, and what they do not use stays for the next.

A run gets a fair part of what is left: that, divided by all places of the batch, or its own limit if that is smaller.
The share is enlarged for all free places at once, so that not every run has to be written down where others see it.
Nothing here waits, and no clock is read.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.fleets.purse.ledger import CRUMBS, Amount, Holding, Ledger

_ENOUGH = 0.5


class SpentError(Exception):
    """Nothing is left for another run."""


class Share:
    """What one process holds of the purse. `places` are its own, `sharing` those of the whole batch."""

    def __init__(self, ledger: Ledger, *, places: int, sharing: int) -> None:
        self._ledger = ledger
        self._places = places
        self.sharing = sharing
        self._promised: dict[str, Amount] = {}
        self._used: Amount = dict(ledger.mine.used)

    def take(self, run: str, own: Mapping[str, float | None]) -> Amount | None:
        """The part that is promised to a run; None where others hold what is left, so that it has to wait.

        Raises:
            SpentError: the limit is used up.
            RunError: the store cannot be reached.
        """
        part = self._part(own)
        if (found := self._room_for(part)) is not None:
            self._promised[run] = found
            return found
        promised = self._all_promised()
        free_places = max(1, self._places - len(self._promised))
        wanted = {name: promised[name] + value * free_places for name, value in part.items()}
        least = {name: promised[name] + value for name, value in part.items()}
        if not self._ledger.enter(Holding(dict(self._used), wanted), at_least=least):
            found = self._room_for(self._part(own))  # by what the ledger says now
            if found is None:
                self.rest()  # what is free here may be what another one lacks
                return None
            part = found
        self._promised[run] = part
        return part

    def give_back(self, run: str, used: Amount) -> None:
        """A run is over, and used so much. The rest of its part stays here for the next one."""
        self._promised.pop(run, None)
        for name in self._ledger.balance.limit:
            self._used[name] = self._used.get(name, 0.0) + used.get(name, 0.0)

    def rest(self) -> None:
        """No run waits here: say what was used, and let go of what is not promised.

        Raises:
            RunError: the store cannot be reached.
        """
        mine, promised = self._ledger.mine, self._all_promised()
        if _differ(mine.used, self._used) or _differ(mine.held, promised):
            self._ledger.enter(Holding(dict(self._used), promised))

    def promised(self, run: str) -> Amount:
        """What a run was promised, as long as it is under way."""
        return self._promised.get(run, {})

    def _part(self, own: Mapping[str, float | None]) -> Amount:
        balance, mine = self._ledger.balance, self._ledger.mine
        parts = {}
        for name in balance.limit:
            left = balance.left(name) - (self._used.get(name, 0.0) - mine.used.get(name, 0.0))
            if left < CRUMBS[name]:
                raise SpentError
            fair, limit = max(left / max(1, self.sharing), CRUMBS[name]), own.get(name)
            parts[name] = fair if limit is None else min(fair, float(limit))
        return parts

    def _room_for(self, part: Amount) -> Amount | None:
        """A part, or a little less, of what is held here and neither promised nor used; None where that is too little.

        A little less, so that not every run that follows another has to ask for what that one used.
        """
        mine, promised = self._ledger.mine, self._all_promised()
        found = {}
        for name, value in part.items():
            used = self._used.get(name, 0.0) - mine.used.get(name, 0.0)
            free = mine.held.get(name, 0.0) - used - promised[name]
            if free < value * _ENOUGH - CRUMBS[name] / 2:
                return None
            found[name] = max(min(value, free), CRUMBS[name])
        return found

    def _all_promised(self) -> Amount:
        names = self._ledger.balance.limit
        return {name: sum(part[name] for part in self._promised.values()) for name in names}


def _differ(one: Amount, other: Amount) -> bool:
    return any(abs(one.get(name, 0.0) - other.get(name, 0.0)) >= CRUMBS[name] for name in CRUMBS)
