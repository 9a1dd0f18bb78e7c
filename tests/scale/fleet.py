"""A simulated batch on a simulated cluster: an engine that loses and doubles orders, and what must hold all the same."""

from __future__ import annotations

import heapq
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.scale.machine import Machine, SimulatedRun
from tests.scale.model_api import TOKENS_A_CALL, SimulatedAPI
from tests.scale.network import Records, Way
from tests.scale.world import World
from toolkit.errors import RunError
from toolkit.fleets.claims import Claims, Held
from toolkit.fleets.purse import Ledger
from toolkit.fleets.rate.line import Ticket

FIRST_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and when (in simulated seconds)."""

    lost: tuple[tuple[float, int], ...] = ()
    """Machines that are killed, by their number; another takes the place of each a minute later."""
    cuts: tuple[tuple[float, float, int, int], ...] = ()
    """From when and for how long which machines (the first, how many) do not reach the store."""
    storms: tuple[tuple[float, float, float], ...] = ()
    """From when and for how long the API takes only a part of its rate."""
    lost_answers: float = 0.0
    overtaken: float = 0.0
    doubled_orders: float = 0.0
    says_when: bool = True
    """Whether a refusal says when to try again."""


NONE = Faults()


@dataclass(frozen=True, slots=True)
class SimulatedTask:
    """One task."""

    id: str
    calls: int
    priority: int
    project: str


@dataclass(slots=True)
class Figures:
    """What came of it."""

    tasks: int = 0
    ok: int = 0
    aside: int = 0
    out_of_budget: int = 0
    waiting: int = 0
    doubled: list[str] = field(default_factory=list)
    """Tasks that two runs worked on at one time."""
    seconds: float = 0.0
    requests: int = 0
    refused: int = 0
    utilisation: float = 0.0
    over: float = 0.0
    """Tokens billed beyond the limit."""
    most_over: float = 0.0
    """The most that one run used beyond its part."""
    fairness: float = 0.0
    """Jain's index of what machines that were there all the time could send: 1 is the same for all."""
    wait: float = 0.0
    """The median of the seconds that a request waited for its turn."""
    longest_waits: float = 0.0
    """The 99th percentile of these."""
    ended_at: dict[int, float] = field(default_factory=dict)
    """By priority: when half of the tasks were done."""
    decisions: int = 0
    store_requests: int = 0
    events: int = 0

    def lines(self) -> list[str]:
        """The figures in words."""
        done = ", ".join(f"{at:.0f} s with priority {rank}" for rank, at in self.ended_at.items())
        return [
            f"{self.tasks} tasks in {self.seconds:.0f} simulated seconds: {self.ok} ok, {self.out_of_budget} out of "
            f"budget, {self.aside} set aside, {self.waiting} waiting; {len(self.doubled)} doubled",
            f"{self.requests} requests, {self.refused} refused; {self.utilisation:.1%} of the API's rate used after "
            f"the first minute; {self.decisions} decisions on the rate",
            f"limit passed by {self.over:.0f} tokens in all, by {self.most_over:.0f} at most in one run",
            f"fairness between machines {self.fairness:.3f}; a request waited {self.wait:.1f} s (median), "
            f"{self.longest_waits:.1f} s (99 %); half of the tasks were done after {done}",
            f"{self.store_requests} requests to the store, {self.events} events",
        ]


class SimulatedFleet:
    """A batch, its engine and its machines."""

    base = "batches/sim"
    lease = 60.0

    def __init__(
        self,
        *,
        seed: int,
        runs: int,
        machines: int,
        places: int = 8,
        per_second: float,
        limit: int | None = None,
        faults: Faults = NONE,
    ) -> None:
        self.world = World(seed)
        self.records = Records()
        self.api = SimulatedAPI(self.world, per_second, says_when=faults.says_when)
        self.places = machines * places
        dice = self.world.dice
        self.tasks = [
            SimulatedTask(f"t{n}", dice.randint(1, 5), dice.choice((0, 0, 0, 5)), f"p{n % 7}") for n in range(runs)
        ]
        self.limit = limit or sum(task.calls for task in self.tasks) * TOKENS_A_CALL * 50
        self._faults = faults
        self._numbers = itertools.count()
        self._pending = [(-task.priority, next(self._numbers), task) for task in self.tasks]
        heapq.heapify(self._pending)
        self._open = {task.id for task in self.tasks}
        self._is_spent = False
        self._active: dict[str, set[str]] = defaultdict(set)
        self._parts: dict[str, float] = {}
        self._waits: list[float] = []
        self._ended_at: dict[int, list[float]] = defaultdict(list)
        self.figures = Figures(tasks=runs)
        self._from: tuple[float, int] | None = None
        self._to: tuple[float, int] | None = None
        self._caller = Way(self.records, self.world)
        self._books = Ledger(self._caller, self.base, "caller")
        self._books.open({"tokens": float(self.limit)})
        self._claims = Claims(self._caller, self.base, "sim", {"worker": "caller"}, clock=lambda: self.world.now)
        self.machines = [self._machine(f"m{number}", places) for number in range(machines)]
        self._plan()

    def _machine(self, name: str, places: int) -> Machine:
        faults = self._faults
        way = Way(self.records, self.world, faults.lost_answers, faults.overtaken)
        return Machine(self, name, way, places)

    def _plan(self) -> None:
        for number, (at, machine) in enumerate(self._faults.lost):
            self.world.after(at, lambda m=machine, n=number: self._lose(m % len(self.machines), n))  # type: ignore[misc]
        for at, seconds, first, count in self._faults.cuts:
            cut = [machine % len(self.machines) for machine in range(first, first + count)]
            self.world.after(at, lambda cut=cut: self._cut(cut, True))  # type: ignore[misc]
            self.world.after(at + seconds, lambda cut=cut: self._cut(cut, False))  # type: ignore[misc]
        for at, seconds, factor in self._faults.storms:
            self.world.after(at, lambda factor=factor: self.api.become(factor))  # type: ignore[misc]
            self.world.after(at + seconds, lambda: self.api.become(1.0))
        self.world.after(FIRST_MINUTE, self._begin_to_measure)

    def run(self, most_seconds: float = 36_000.0) -> Figures:
        """Let everything happen, and count."""
        self.world.run(most_seconds, self._is_over)
        if self._is_spent:
            self._end_measuring()
        self._count()
        return self.figures

    def _is_over(self) -> bool:
        if not self._open:
            return True
        return self._is_spent and not any(machine.runs for machine in self.machines if machine.is_alive)

    # What the engine does with orders.

    def next_task(self) -> SimulatedTask | None:
        """The next order for a machine; the engine may hand it out twice."""
        while self._pending and not self._is_spent:
            task = heapq.heappop(self._pending)[2]
            if not self._pending:
                self._end_measuring()
            if task.id not in self._open:
                continue
            if self.world.dice.random() < self._faults.doubled_orders:
                self._again(task, 0.0)
            return task
        return None

    def _again(self, task: SimulatedTask, seconds: float) -> None:
        if task.id in self._open:
            entry = (-task.priority, next(self._numbers), task)
            self.world.after(seconds, lambda: heapq.heappush(self._pending, entry))

    def failed(self, task: SimulatedTask) -> None:
        """A worker could not even look at an order."""
        self._again(task, 1.0)

    def held(self, task: SimulatedTask) -> None:
        """Somebody else does it, or had to stop: ask again after a lease."""
        self._again(task, self.lease)

    def ended(self, task: SimulatedTask) -> None:
        """It is done with, as a worker says."""
        if task.id in self._open:
            self._open.remove(task.id)
            self._ended_at[task.priority].append(self.world.now)

    def unsaid(self, run: SimulatedRun, end: dict[str, object]) -> None:
        """A worker could not write an end down; its answer came, so the caller does."""
        self._claims.found_ended(Held({"task": run.task.id, "run": run.claim.run}, 0.0), end)

    def spent(self, task: SimulatedTask) -> None:
        """There is nothing left for it."""
        self._is_spent = True

    # What must hold.

    def begins(self, machine: Machine, run: SimulatedRun) -> None:
        """A run may send requests from now on."""
        active = self._active[run.task.id]
        if active:
            self.figures.doubled.append(run.task.id)
        active.add(run.claim.run)
        self._parts[run.claim.run] = run.part

    def leaves(self, run: SimulatedRun) -> None:
        """A run sends nothing any more."""
        self._active[run.task.id].discard(run.claim.run)

    def waited(self, ticket: Ticket) -> None:
        """A request has left."""
        assert ticket.left is not None
        if self._from is not None and not ticket.again:
            self._waits.append(ticket.left - ticket.since)

    # What goes wrong.

    def _lose(self, number: int, count: int) -> None:
        machine = self.machines[number]
        if not machine.is_alive:
            return
        machine.is_alive = False
        for run in machine.runs.values():
            self.leaves(run)
        for task in machine.orders:
            self._again(task, 10.0)

        def known() -> None:
            self._books.settle(machine.name, {"tokens": float(sum(self.api.bills[run] for run in machine.did))})

        def back() -> None:
            self.machines[number] = self._machine(f"{machine.name}-{count}", machine.places)

        self.world.after(120.0, known)
        self.world.after(60.0, back)

    def _cut(self, machines: Sequence[int], is_cut: bool) -> None:
        for number in machines:
            self.machines[number].way.is_cut = is_cut

    # Figures.

    def _begin_to_measure(self) -> None:
        self._from = (self.api.room(), self.api.accepted)

    def _end_measuring(self) -> None:
        if self._to is None and self._from is not None:
            self._to = (self.api.room(), self.api.accepted)

    def _count(self) -> None:
        figures = self.figures
        figures.seconds, figures.events = self.world.now, self.world.done
        figures.requests, figures.refused = self.api.accepted + self.api.refused, self.api.refused
        figures.store_requests = self.records.requests
        figures.decisions = len(self.records.names(f"{self.base}/rate/decisions"))
        for task in self.tasks:
            self._count_task(task)
        billed = sum(self.api.bills.values())
        figures.over = max(0.0, billed - self.limit)
        figures.most_over = max(
            (tokens - self._parts.get(run, 0.0) for run, tokens in self.api.bills.items()), default=0.0
        )
        if self._from is not None and self._to is not None and self._to[0] > self._from[0]:
            figures.utilisation = (self._to[1] - self._from[1]) / (self._to[0] - self._from[0])
        steady = [machine.accepted for machine in self.machines if machine.began == 0.0 and machine.is_alive]
        if sum(steady):
            figures.fairness = sum(steady) ** 2 / (len(steady) * sum(one * one for one in steady))
        if self._waits:
            figures.wait, figures.longest_waits = (
                statistics.median(self._waits),
                sorted(self._waits)[-len(self._waits) // 100],
            )
        figures.ended_at = {rank: statistics.median(ends) for rank, ends in sorted(self._ended_at.items())}

    def _count_task(self, task: SimulatedTask) -> None:
        claims, figures = self._claims, self.figures
        try:
            found = claims.take(task.id)
        except RunError:
            found = None
        end = getattr(found, "end", None)
        if end is None:
            figures.waiting += 1
        elif "aside" in end:
            figures.aside += 1
        elif end["code"] == "budget":
            figures.out_of_budget += 1
        else:
            figures.ok += 1
