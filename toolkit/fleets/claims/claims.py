"""A claim: the right to do a task, held by one worker at a time, and given up by death.

    BASE/claims/TASK/N       the Nth worker that does it, and the run it does it as
    BASE/beats/TASK/N/K      that worker lives: its Kth word (only the latest is kept)
    BASE/released/TASK/N     it gave the task back without having done it, and why
    BASE/lost/TASK/N         it was found dead, and what is known of its run
    BASE/ends/TASK/N         what the task came to: nobody does it any more

Whoever creates the next number holds the claim. It is held until it is released or found dead, or until no new beat was
seen for a whole lease. That is measured with the clock of whoever looks, so that clocks need not agree. A holder that
cannot renew must stop before the lease is over (`Claim.is_due`): so two never work at one time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import Store, read_said

LEASE = 60.0
"""Seconds without a word after which a holder is taken for dead."""
MOST_LOSSES = 2
"""Holders that a task may outlive; it may be what killed them."""
_RENEWED = 0.25
"""The part of a lease after which it is renewed."""
_STOPPED = 0.6
"""The part of a lease after which a holder that could not renew it stops."""
_ROUNDS = 100

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else does the task."""

    by: dict[str, Any]
    """What the holder wrote down of itself."""
    left: float
    """Seconds until it may be taken over, if the holder says nothing more."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The task is done with."""

    end: dict[str, Any]
    """What was written down of its end."""


@dataclass(slots=True)
class Claim:
    """The right to do a task, as its holder has it."""

    task: str
    number: int
    run: str
    before: tuple[dict[str, Any], ...]
    """Those who held it before and were lost, the latest last."""
    after: int
    """The claims up to this number do not count."""
    _claims: Claims
    _said: float
    """When the last word was heard, by the holder's clock: from before it was sent."""
    _beat: int = 0

    @property
    def lease(self) -> float:
        """Seconds without a word after which its holder is taken for dead."""
        return self._claims.lease

    @property
    def next(self) -> float:
        """Seconds until it should be renewed."""
        return max(0.0, self._said + self._claims.lease * _RENEWED - self._claims.clock())

    @property
    def is_due(self) -> bool:
        """Whether it was not renewed for so long that the holder has to stop."""
        return self._claims.clock() - self._said > self._claims.lease * _STOPPED

    def renew(self) -> bool:
        """Say that the holder lives. False where somebody has taken over, or the task is done with: then stop.

        Raises:
            RunError: the store cannot be reached; try again until `is_due`.
        """
        began = self._claims.clock()
        if not self._claims.beats(self, self._beat + 1):
            return False
        self._beat += 1
        self._said = began
        return True

    def release(self, why: str) -> None:
        """Give it back, not done: another may take it at once. Raises as `renew`."""
        self._claims.released(self, why)

    def lose(self, facts: Mapping[str, Any]) -> None:
        """Give it back, begun and cut off: another may take it at once, and it is a loss. Raises as `renew`."""
        self._claims.found_dead(Held({"task": self.task, "run": self.run}, 0.0), facts)

    def finish(self, end: Mapping[str, Any]) -> bool:
        """Write down what the task came to. False where somebody else has: then this end does not count.

        Raises:
            RunError: the store cannot be reached; the end is not written down then.
        """
        return self._claims.finished(self, end)


@dataclass(slots=True)
class Claims:
    """The claims of one batch, as one worker sees them."""

    store: Store
    base: str
    """Where the batch keeps its records."""
    batch: str
    """Its name: runs are called after it."""
    holder: Mapping[str, Any] = field(default_factory=dict)
    """What the worker writes down of itself."""
    lease: float = LEASE
    most_losses: int = MOST_LOSSES
    clock: Clock = time.monotonic
    _seen: dict[str, tuple[tuple[int, int], float]] = field(default_factory=dict)
    """The latest claim and beat of a task, and when they were first seen."""

    def take(self, task: str, after: int = 0) -> Claim | Held | Ended:
        """The claim, if it is free or its holder is dead; who has it; or how the task ended.

        What was up to the claim with the number `after` does not count: the task is wanted again. What has outlived too
        many holders is ended here: it is set aside.

        Raises:
            RunError: the store cannot be reached, or says what it cannot.
        """
        for _ in range(_ROUNDS):
            end = self._end(task, after)
            if end is not None:
                return Ended(end)
            numbers = self._numbers(f"claims/{task}")
            if numbers and numbers[-1] > after and (held := self._held(task, numbers[-1])) is not None:
                return held
            gone = [number for number in numbers if number > after and not self._has("released", task, number)]
            lost = [self._read(f"claims/{task}/{number}") or {} for number in gone]
            if len(lost) >= self.most_losses:
                self._set_aside(task, gone[-1], lost)
                continue
            number = max([after, *numbers]) + 1
            claim = Claim(task, number, f"{self.batch}.{task}.{number}", tuple(lost), after, self, self.clock())
            said = {"task": task, "run": claim.run, "claimed": time.time(), **self.holder}
            if self._create(f"claims/{task}/{number}", said):
                self._seen.pop(task, None)
                end = self._end(task, after)  # its holder came to an end in the very last moment
                return claim if end is None else Ended(end)
        raise RunError(f"task '{task}': others take it again and again", where=[self.base])

    def found_dead(self, held: Held, facts: Mapping[str, Any]) -> None:
        """Write down that a holder is dead for certain, so that nobody waits for it; `facts` is what its run used."""
        self._found("lost", held, {**facts, "lost": True})

    def found_ended(self, held: Held, end: Mapping[str, Any]) -> None:
        """Write down the end of a run that its holder could tell to nobody."""
        self._found("ends", held, end)

    def _found(self, what: str, held: Held, facts: Mapping[str, Any]) -> None:
        task, run = str(held.by["task"]), str(held.by["run"])
        said = {"task": task, "run": run, "ended": time.time(), **facts}
        self._create(f"{what}/{task}/{run.rpartition('.')[2]}", said)

    def _held(self, task: str, number: int) -> Held | None:
        """Who holds a claim; None where it was given back, or its holder is dead or has been silent for a lease."""
        if self._has("released", task, number) or self._has("lost", task, number):
            return None
        beats = self._numbers(f"beats/{task}/{number}")
        now, state = self.clock(), (number, beats[-1] if beats else 0)
        seen = self._seen.get(task)
        if seen is None or seen[0] != state:
            seen = self._seen[task] = (state, now)
        left = seen[1] + self.lease - now
        return Held(self._read(f"claims/{task}/{number}") or {}, left) if left > 0 else None

    def _set_aside(self, task: str, number: int, lost: list[dict[str, Any]]) -> None:
        where = ", ".join(str(one.get("machine") or one.get("worker") or "?") for one in lost)
        why = f"set aside: its worker was lost {len(lost)} times ({where})"
        self._create(f"ends/{task}/{number}", {"task": task, "run": lost[-1].get("run"), "aside": why})

    def beats(self, claim: Claim, beat: int) -> bool:
        """Write a beat of a claim; False where the claim is not the latest any more, or the task is done with."""
        task, number = claim.task, claim.number
        if not self._is_current(claim):
            return False
        self._create(f"beats/{task}/{number}/{beat}", {})
        if beat > 1:
            self.store.remove(self._name(f"beats/{task}/{number}/{beat - 1}"))
        return True

    def released(self, claim: Claim, why: str) -> None:
        """Write down that a claim was given back."""
        said = {"task": claim.task, "run": claim.run, "released": time.time(), "why": why}
        self._create(f"released/{claim.task}/{claim.number}", said)

    def finished(self, claim: Claim, end: Mapping[str, Any]) -> bool:
        """Write down the end of a task, if nobody else has taken it over or ended it."""
        said = {"task": claim.task, "run": claim.run, "ended": time.time(), **end}
        return self._is_current(claim) and self._create(f"ends/{claim.task}/{claim.number}", said)

    def _is_current(self, claim: Claim) -> bool:
        """Whether nobody has taken a task over, and it is not done with."""
        numbers = self._numbers(f"claims/{claim.task}")
        return numbers[-1:] == [claim.number] and self._end(claim.task, claim.after) is None

    def _end(self, task: str, after: int) -> dict[str, Any] | None:
        numbers = [number for number in self._numbers(f"ends/{task}") if number > after]
        return self._read(f"ends/{task}/{numbers[-1]}") if numbers else None

    def _has(self, what: str, task: str, number: int) -> bool:
        return self._read(f"{what}/{task}/{number}") is not None

    def _name(self, name: str) -> str:
        return f"{self.base}/{name}"

    def _create(self, name: str, said: Mapping[str, Any]) -> bool:
        return self.store.create(self._name(name), json.dumps(said).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        return read_said(self.store, self._name(name))

    def _numbers(self, folder: str) -> list[int]:
        """The numbers of the records in a folder, the lowest first."""
        names = self.store.names(self._name(folder))
        return sorted(int(last) for name in names if (last := name.rpartition("/")[2]).isdigit())
