"""One simulated machine: it does what a worker does, with the real claims, purse and rate, and no time of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.scale.model_api import TOKENS_A_CALL
from tests.scale.network import Way
from toolkit.errors import RunError
from toolkit.fleets.claims import Claim, Claims, Ended
from toolkit.fleets.purse import Ledger, Share, SpentError
from toolkit.fleets.rate import SharedRate
from toolkit.fleets.rate.line import Ticket

if TYPE_CHECKING:
    from tests.scale.fleet import SimulatedFleet, SimulatedTask

EVERY = 3.0
_SOON = 0.05
_LATER = 2.0


@dataclass(slots=True, eq=False)
class SimulatedRun:
    """A run under way."""

    task: SimulatedTask
    claim: Claim
    calls: int
    part: float = 0.0
    used: int = 0
    ticket: Ticket | None = None
    is_over: bool = False


class Machine:
    """A worker with a few places. It begins as soon as it reaches the store."""

    def __init__(self, fleet: SimulatedFleet, name: str, way: Way, places: int) -> None:
        self.name = name
        self.way = way
        self.places = places
        self.is_alive = True
        self.runs: dict[str, SimulatedRun] = {}
        self.did: list[str] = []
        """All runs that it ever began."""
        self.orders: dict[SimulatedTask, None] = {}
        """The tasks that it was asked to do and has said nothing of yet."""
        self.accepted = 0
        self.began = fleet.world.now
        self._fleet = fleet
        self._world = fleet.world
        ahead, wrong = fleet.world.dice.uniform(0, 1e5), fleet.world.dice.uniform(-30, 30)
        self._clock: Callable[[], float] = lambda: fleet.world.now + ahead
        self.claims = Claims(
            way, fleet.base, "sim", {"machine": name, "worker": name}, lease=fleet.lease, clock=self._clock
        )
        self.rate = SharedRate(
            way, fleet.base, name, every=EVERY, clock=self._clock, wall=lambda: fleet.world.now + 1e6 + wrong
        )
        self.ledger = Ledger(way, fleet.base, name)
        self.share: Share | None = None
        self._next_look = float("inf")
        self._sending: dict[Ticket, SimulatedRun] = {}
        self._open()

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something later, if the machine is still there."""
        self._world.after(seconds, lambda: what() if self.is_alive else None)

    def _open(self) -> None:
        try:
            self.ledger.open({"tokens": float(self._fleet.limit)})
            self.rate.exchange()
        except RunError:
            self._later(1.0, self._open)
            return
        self.share = Share(self.ledger, places=self.places, sharing=self._fleet.places)
        for seconds in (0.25, 0.75, 1.75):
            self._later(seconds, self._tell)
        self._later(EVERY * self._world.dice.uniform(0.9, 1.1), self._exchange)
        for _ in range(self.places):
            self._later(self._world.dice.uniform(0, 1), self.look_for_work)

    def _exchange(self) -> None:
        self._tell()
        self._later(EVERY, self._exchange)

    def _tell(self) -> None:
        try:
            self.rate.exchange()
        except RunError:
            return
        self._look()

    def look_for_work(self) -> None:
        """A place is free."""
        if not self.is_alive:
            return
        task = self._fleet.next_task()
        if task is None:
            self._rest()
            self._later(5.0, self.look_for_work)
            return
        self.orders[task] = None
        self._take(task, None)

    def _rest(self) -> None:
        assert self.share is not None
        with contextlib.suppress(RunError):  # the next time
            self.share.rest()

    def _take(self, task: SimulatedTask, first: float | None) -> None:
        """As `toolkit.fleets.workers` takes an order: a holder that lives is not waited for."""
        try:
            found = self.claims.take(task.id)
        except RunError:
            self._answer(task, self._fleet.failed)
            return
        if isinstance(found, Claim):
            run = SimulatedRun(task, found, task.calls)
            self.runs[found.run] = run
            self.did.append(found.run)
            self._later(found.next, lambda: self._renew(run))
            self._pay(run)
        elif isinstance(found, Ended):
            self._answer(task, self._fleet.ended)
        elif first is not None and found.left > first:
            self._answer(task, self._fleet.held)
        else:
            wait, left = min(found.left, self._fleet.lease * 0.1) + 0.01, found.left
            self._later(wait, lambda: self._take(task, left))

    def _answer(self, task: SimulatedTask, told: Callable[[SimulatedTask], None]) -> None:
        """Tell the engine what became of an order; the place is free."""
        self.orders.pop(task, None)
        told(task)
        self._later(_LATER if self.way.is_cut else 0.0, self.look_for_work)

    def _renew(self, run: SimulatedRun) -> None:
        if run.is_over:
            return
        try:
            if not run.claim.renew():
                self._stop(run)
                return
            pause = run.claim.next
        except RunError:
            if run.claim.is_due:
                self._stop(run)
                return
            pause = self._fleet.lease * 0.05
        self._later(pause, lambda: self._renew(run))

    def _pay(self, run: SimulatedRun) -> None:
        """Take a part of the purse, then begin."""
        assert self.share is not None
        if run.is_over:
            return
        try:
            part = self.share.take(run.claim.run, {})
        except SpentError:
            self._release(run)
            return
        except RunError:
            part = None
        if part is None:
            self._later(_LATER, lambda: self._pay(run))
            return
        run.part = part["tokens"]
        self._fleet.begins(self, run)
        self._ask(run)

    def _release(self, run: SimulatedRun) -> None:
        with contextlib.suppress(RunError):
            run.claim.release("the limit is used up")
        self._leave(run, self._fleet.spent)

    def _ask(self, run: SimulatedRun, *, again: bool = False, after: float = 0.0) -> None:
        if run.is_over:
            return
        run.ticket = Ticket(run.task.project, run.task.priority, again, run=run.claim.run, wait=after)
        self._sending[run.ticket] = run
        self.rate.pacer.enter(run.ticket, self._clock())
        self._look()

    def _look(self) -> None:
        """Let go what may leave, and look again when the pacer says so."""
        gone, again = self.rate.pacer.due(self._clock())
        for ticket in gone:
            self._send(ticket)
        if self.rate.has_news:
            self._later(_SOON, self._tell_news)
        if again is not None:
            at = self._world.now + max(again - self._clock(), 0.001)
            if at < self._next_look - 1e-9 or self._next_look <= self._world.now:
                self._next_look = at
                self._later(at - self._world.now, lambda: self._look_at(at))

    def _look_at(self, at: float) -> None:
        if at == self._next_look:
            self._next_look = float("inf")
            self._look()

    def _tell_news(self) -> None:
        if self.rate.has_news:
            self._tell()

    def _send(self, ticket: Ticket) -> None:
        run = self._sending.pop(ticket)
        if run.is_over:
            return
        status, wait = self._fleet.api.ask(run.claim.run)
        self._fleet.waited(ticket)
        if status == 200:
            self.accepted += 1
            run.used += TOKENS_A_CALL  # it is owed from now on, whatever becomes of the answer
        seconds = self._world.dice.uniform(2, 8) if status == 200 else _SOON
        self._later(seconds, lambda: self._hear(run, ticket, status, wait))

    def _hear(self, run: SimulatedRun, ticket: Ticket, status: int, wait: float | None) -> None:
        self.rate.pacer.answered(ticket, status, wait, self._clock())
        if self.rate.has_news:
            self._later(_SOON, self._tell_news)
        if status != 200:
            self._ask(run, again=True, after=wait or 0.0)
            return
        run.calls -= 1
        if run.is_over:
            return
        if run.used >= run.part:
            self._end(run, "budget")
        elif run.calls <= 0:
            self._end(run, "ok")
        else:
            self._later(self._world.dice.uniform(0.5, 3), lambda: self._ask(run))

    def _end(self, run: SimulatedRun, code: str) -> None:
        end = {"code": code, "tokens": run.used}
        try:
            counts = run.claim.finish(end)
        except RunError:
            self._fleet.unsaid(run, end)  # the answer goes to the caller, who writes it down
            counts = True
        self._leave(run, self._fleet.ended if counts else self._fleet.held)

    def _stop(self, run: SimulatedRun) -> None:
        """The claim is lost: end the run."""
        self._leave(run, self._fleet.held)

    def _leave(self, run: SimulatedRun, told: Callable[[SimulatedTask], None]) -> None:
        assert self.share is not None
        run.is_over = True
        del self.runs[run.claim.run]
        if run.ticket is not None:
            self.rate.pacer.line.leave(run.ticket)
        self.share.give_back(run.claim.run, {"tokens": float(run.used)})
        self._fleet.leaves(run)
        self._answer(run.task, told)
