"""The rate that several machines, or processes of one machine, share: a row of decisions, and who takes part.

    BASE/rate/decisions/N        the Nth decision; whoever creates it has made it for all
    BASE/rate/here/WHO/K.W       WHO takes part with W runs: its Kth word (only the latest is kept)

Each takes the part of the rate that its runs are of all runs. Who has said nothing for a while is left out. That is
measured by the clock of whoever looks; the clocks of machines need not agree.

Nothing here waits, and no clock is read, so the same code serves a simulation.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.rate.decisions import Decision
from toolkit.fleets.store import Row, Store

BEAT = 20.0
"""Seconds after which one who takes part says so again."""
_SILENCES = 3.5
"""Beats without a word after which somebody is left out."""
_FEW = 20
_KEPT_DECISIONS = 2000
_OLDEST_NEWS = 20.0
"""The most that is believed of how long a decision has held already: it has grown to what was refused then."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one exchange came to."""

    share: float
    """The part of the whole rate that is ours."""
    news: tuple[Decision, ...]
    """Decisions that others have made, or that were ours and hold now; the last one holds."""
    elapsed: float
    """Seconds for which that one has held already."""
    is_ours: bool
    """Whether that one is the decision that was told here."""


class Agreement:
    """One who takes part. `who` is a name that nobody else has; `every` is how often it looks."""

    def __init__(self, store: Store, base: str, who: str, *, every: float) -> None:
        self._store = store
        self._row = Row(store, f"{base}/rate/decisions")
        self._here = f"{base}/rate/here"
        self._who = re.sub(r"[^A-Za-z0-9_-]+", "-", who).strip("-_")[-90:] or "x"
        self._every = every
        self._has_begun = False
        self._said: tuple[str, int, float] | None = None
        """Our latest word: its name, how many runs it told of, and when."""
        self._words = 0
        self._runs_elsewhere = 0
        self._looks = 0
        self._look_again = -float("inf")
        """When to look who else is there: the more there are, the less often."""
        self._others: dict[str, tuple[int, int, float]] = {}
        """The latest word of each other: its number, its runs, and when it was first seen."""

    def exchange(self, ours: Decision | None, runs: int, now: float, wall: float) -> Heard:
        """Tell the others what was decided here (None: nothing) and how many runs there are, and hear what they say.

        Raises:
            RunError: the store cannot be reached; what was decided here is then told the next time.
        """
        share = self._tell(runs, now)
        news, oldest = self._read_on(wall)
        is_ours = False
        if ours is not None and not any(one.why == "lowered" for one in news):
            ours = dataclasses.replace(ours, number=self._row.last + 1, at=wall, machine=self._who)
            is_ours = self._row.append(dataclasses.asdict(ours))
            news += [ours] if is_ours else self._read_on(wall)[0]
            self._row.forget(self._row.last - _KEPT_DECISIONS)
        elapsed = min(max(wall - news[-1].at, 0.0), oldest) if news else 0.0
        return Heard(share, tuple(news), elapsed, is_ours)

    def leave(self) -> None:
        """Take part no longer: the others share the rate."""
        if self._said is not None:
            self._store.remove(self._said[0])
            self._said = None

    def _read_on(self, wall: float) -> tuple[list[Decision], float]:
        """New decisions, and how old the last may be believed to be."""
        if self._has_begun:
            return [read_decision(said) for said in self._row.read_on()], self._every
        latest = self._row.latest()
        if latest is None:
            first = Decision(at=wall, machine=self._who)
            news = (
                [first]
                if self._row.append(dataclasses.asdict(first))
                else [read_decision(one) for one in self._row.read_on()]
            )
        else:
            news = [read_decision(latest)]
        self._has_begun = True
        return news, _OLDEST_NEWS

    def _tell(self, runs: int, now: float) -> float:
        runs = max(runs, 1)
        if self._said is None or now - self._said[2] >= BEAT or _is_far(runs, self._said[1]):
            before, self._words = self._said, self._words + 1
            name = f"{self._here}/{self._who}/{self._words}.{runs}"
            self._store.create(name, b"{}")
            self._said = (name, runs, now)
            if before is not None:
                self._store.remove(before[0])
        if now >= self._look_again:
            self._runs_elsewhere = sum(runs for who, runs in self._living(now) if who != self._who)
            self._looks = min(self._looks + 1, 10)
            self._look_again = now + min(self._every * len(self._others) / _FEW, BEAT, 0.5 * 2**self._looks)
        return self._said[1] / (self._said[1] + self._runs_elsewhere)

    def _living(self, now: float) -> Iterator[tuple[str, int]]:
        said: dict[str, tuple[int, int]] = {}
        for name in self._store.names(self._here):
            who, _, word = name.removeprefix(f"{self._here}/").rpartition("/")
            first, _, second = word.partition(".")
            if first.isdigit() and second.isdigit():
                said[who] = max(said.get(who, (0, 0)), (int(first), int(second)))
        for who, (number, runs) in said.items():
            known = self._others.get(who)
            if known is None or known[0] != number:
                known = self._others[who] = (number, runs, now)
            if now - known[2] < BEAT * _SILENCES:
                yield who, runs
        for who in self._others.keys() - said.keys():
            del self._others[who]


def _is_far(runs: int, told: int) -> bool:
    """Whether what was told of our runs is so far from what is true that others should know at once."""
    return runs > 1.5 * told or runs < 0.5 * told


def read_decision(said: dict[str, Any]) -> Decision:
    known = {field.name: said[field.name] for field in dataclasses.fields(Decision) if field.name in said}
    decision = Decision(**known)
    numbers = (decision.base, decision.pause, decision.at, 1.0 if decision.ceiling is None else decision.ceiling)
    if not all(isinstance(value, int | float) and 0 <= value < 1e12 for value in numbers) or decision.base == 0:
        raise RunError("a decision on the rate is damaged", where=[str(said)[:200]])
    return decision
