"""What is left of a limit that several machines share: a row of records, each with how everything stands after it.

    BASE/purse/N          the Nth record: the limit, what all have used and hold, and what the one who wrote it does
    BASE/settled/WHO      somebody else has written of WHO, who was gone for certain

Who wants to spend holds a part first. It can be held only if it is there: the records are numbered, so of two who want
the last part one is told to look again. What somebody holds who is never heard of again stays held: as long as nobody
knows what became of it, it counts as spent.

Amounts are dollars and tokens by name. Nothing here waits, and no clock is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import Row, Store

Amount = dict[str, float]
NAMES = ("usd", "tokens")
CRUMBS = {"usd": 1e-9, "tokens": 1.0}
"""Less than this is nothing."""
_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Holding:
    """What one has used, and holds for what it is about to use."""

    used: Amount = field(default_factory=dict)
    held: Amount = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Balance:
    """How everything stands after a record."""

    limit: Amount = field(default_factory=dict)
    used: Amount = field(default_factory=dict)
    """By all, as far as they have said so."""
    held: Amount = field(default_factory=dict)
    """By all together."""

    def left(self, name: str) -> float:
        """What is not used; a part of it is held."""
        return self.limit[name] - self.used.get(name, 0.0)

    def free(self, name: str) -> float:
        """What is neither used nor held."""
        return self.left(name) - self.held.get(name, 0.0)

    @property
    def is_empty(self) -> bool:
        """Whether one of the limits is used up."""
        return any(self.left(name) < CRUMBS[name] for name in self.limit)


class Ledger:
    """The row as one who takes part sees them. `who` is a name that nobody else has."""

    def __init__(self, store: Store, base: str, who: str) -> None:
        self._row = Row(store, f"{base}/purse")
        self._settled = f"{base}/settled"
        self._who = who
        self.balance = Balance()
        self.mine = Holding()

    def open(self, limit: Mapping[str, float]) -> None:
        """Read how everything stands, and enter the limit, where it is another one than before.

        Raises:
            RunError: the store cannot be reached, or a record is damaged.
        """
        wanted = {name: float(limit[name]) for name in NAMES if name in limit}
        for _ in range(_ROUNDS):
            self._look()
            if self.balance.limit == wanted:
                return
            if self._append(Balance(wanted, self.balance.used, self.balance.held), self.mine, self._who):
                return
        raise _busy(self._who)

    def enter(self, mine: Holding, *, at_least: Amount | None = None) -> bool:
        """Enter what we have used and now hold. More can be held only as far as it is free: what there is, is taken.

        False where that is less than `at_least`: then nothing is entered. Raises as `open`.
        """
        for _ in range(_ROUNDS):
            self._look()
            possible = self._possible(mine)
            if any(possible.held.get(name, 0.0) < least - CRUMBS[name] / 2 for name, least in (at_least or {}).items()):
                return False
            if self._append(self._after(self.mine, possible), possible, self._who):
                return True
        raise _busy(self._who)

    def settle(self, who: str, used: Amount) -> None:
        """Enter what somebody used who is gone for certain, in place of what it held. Raises as `open`."""
        self._row.store.create(f"{self._settled}/{who}", b"{}")
        for _ in range(_ROUNDS):
            self._look()
            before = self.holdings().get(who, Holding())
            if not before.held and before.used == used:
                return
            if self._append(self._after(before, Holding(used)), Holding(used), who):
                return
        raise _busy(self._who)

    def holdings(self) -> dict[str, Holding]:
        """What each of those who ever took part has used and holds. Reads all records; raises as `open`."""
        found: dict[str, Holding] = {}
        whole = Row(self._row.store, self._row.folder)
        for said in whole.read_on():
            found[str(said["who"])] = Holding(dict(said["mine"]["used"]), dict(said["mine"]["held"]))
        return found

    def _look(self) -> None:
        said = self._row.newest() if self._row.last else self._row.latest()
        if said is None:
            return
        try:
            self.balance = Balance(dict(said["limit"]), dict(said["used"]), dict(said["held"]))
        except (KeyError, TypeError, ValueError):
            raise RunError("a record of the purse is damaged", where=[str(said)[:200]]) from None
        if said.get("who") == self._who or self._row.store.read(f"{self._settled}/{self._who}") is not None:
            self.mine = self.holdings().get(self._who, self.mine)

    def _possible(self, mine: Holding) -> Holding:
        held = {}
        for name in self.balance.limit:
            more = mine.used.get(name, 0.0) - self.mine.used.get(name, 0.0)
            most = self.balance.free(name) + self.mine.held.get(name, 0.0) - more
            held[name] = max(0.0, min(mine.held.get(name, 0.0), most))
        return Holding(dict(mine.used), held)

    def _after(self, before: Holding, after: Holding) -> Balance:
        balance = self.balance
        return Balance(
            balance.limit,
            {name: _moved(balance.used, before.used, after.used, name) for name in NAMES},
            {name: _moved(balance.held, before.held, after.held, name) for name in NAMES},
        )

    def _append(self, balance: Balance, mine: Holding, who: str) -> bool:
        said: dict[str, Any] = {"who": who, "mine": {"used": mine.used, "held": mine.held}}
        if not self._row.append({**said, "limit": balance.limit, "used": balance.used, "held": balance.held}):
            return False
        self.balance = balance
        if who == self._who:
            self.mine = mine
        return True


def _moved(all_of_it: Amount, before: Amount, after: Amount, name: str) -> float:
    return max(0.0, all_of_it.get(name, 0.0) - before.get(name, 0.0) + after.get(name, 0.0))


def _busy(who: str) -> RunError:
    return RunError(f"the purse of the batch is written by others again and again, '{who}' cannot")
