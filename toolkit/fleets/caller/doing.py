"""Work a batch off on a cluster: each task once, whatever becomes of workers, the scheduler and the caller.

The caller holds the journal. It sends an order for every task that is open, as many at a time as there are places, and
answers what workers ask. Whatever the engine does with an order (loses it, does it twice, gives it to another), the
claims decide who does the task.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolkit._base.files import write_whole
from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.caller.answering import Desk
from toolkit.fleets.caller.collecting import Collector
from toolkit.fleets.caller.finding import Finder
from toolkit.fleets.caller.key_door import KeyDoor
from toolkit.fleets.caller.packs import Packs
from toolkit.fleets.caller.records import JournalStore
from toolkit.fleets.caller.sending import Sender
from toolkit.fleets.caller.spending import Spending
from toolkit.fleets.claims import LEASE, take_name
from toolkit.fleets.engine import Cluster, Crew
from toolkit.fleets.journals import Attendance, attend
from toolkit.fleets.packs import Pack, require_code
from toolkit.fleets.rate import follow, take_up
from toolkit.fleets.store import Store, StoreError, address_of, check_store, open_shared, open_store
from toolkit.fleets.workers import MARK, Answer, Order, pack_spec
from toolkit.runs import RunResult, RunSpec
from toolkit.runs.batches import (
    MOST_LOSSES,
    Batch,
    Standing,
    Task,
    Wish,
    end_of,
    in_order,
    keep_decision,
    priority_of,
    tasks_digest,
    ungrouped,
)
from toolkit.runs.outcome import never_began
from toolkit.sandbox import find_api

Make = Callable[[Task], RunSpec]
OnResult = Callable[[Task, RunResult[Any]], None]
_MOST_REFUSALS = 5
"""Workers that may give a task back, or fail to read it, before that is how it ended."""
_MOST_STORELESS = 3
"""How often a worker may fail to reach the store, with nothing done meanwhile."""
_PAUSE = 0.5
_STORE_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Where a batch is worked off, and how."""

    address: str
    """Of the scheduler: `tcp://HOST:8786`."""
    parallel: int | None = None
    """Runs at once; as many as the workers have threads if not given."""
    lease: float = LEASE
    """Seconds after which a worker that says nothing is taken for dead."""
    patience: float = 300.0
    """Seconds that a lost scheduler, or workers, are waited for."""
    key_from: Literal["worker", "caller"] = "worker"
    """Who has the key for the model API: each worker in its environment, or the caller, whose gate serves them."""
    store: str | None = None
    """The address of a store that packs and runs go through; through the engine if not given."""
    code: Sequence[Path | str] = ()
    """Python files and packages that workers do not have, and that the runs' tools are in."""
    on_word: Callable[[str], None] = lambda word: None
    """Gets what the caller should know, a line at a time."""


async def work_off_on(
    batch: Batch,
    make: Make,
    fleet: Fleet,
    *,
    usd: float | None = None,
    tokens: int | None = None,
    on_result: OnResult | None = None,
    wishes: Sequence[Wish] = (),
) -> dict[str, Standing]:
    """Do what is not finished on a cluster, and say how every task stands then. `make` gives the spec for a task.

    `usd` and `tokens` limit the batch as a whole, from its first run on. Tasks that the limit leaves no room for wait.
    `wishes` are priorities in place of the tasks' own.

    Raises:
        RunError: somebody else works on the batch, or has begun one of that name in the store; it cannot be read;
            there is no cluster or no store; or the cluster was lost for good.
    """
    with batch.worked_on():
        store = None if fleet.store is None else open_shared(fleet.store)
        batch.check_store(None if store is None else address_of(store))
        if store is not None:
            await asyncio.to_thread(_have_name, batch, store)
        async with AsyncExitStack() as stack:
            cluster = Cluster(fleet.address, fleet.patience)
            await cluster.connect()
            stack.push_async_callback(cluster.close)
            begins = {"cluster": fleet.address, "at": time.time()}
            if store is None:
                batch.say(begins)
                attendance = Attendance()
            else:
                batch.say({**begins, "store": address_of(store)})
                lone = attend(batch, store, lease=fleet.lease, patience=fleet.patience, on_word=fleet.on_word)
                attendance = await stack.enter_async_context(lone)
            doing = _Doing(batch, make, fleet, cluster, on_result, wishes, attendance)
            return await attendance.during(doing.all(usd, tokens))


def _have_name(batch: Batch, store: Store) -> None:
    """Have the batch's name in a store that can be used."""
    check_store(store)
    facts = batch.facts
    tasks = [standing.task for standing in batch.standings().values()]
    known = {"tasks": tasks_digest(tasks), "most_losses": int(facts.get("most_losses", MOST_LOSSES))}
    take_name(store, batch.name, str(facts["uid"]), known)


async def reach(address: str, store: str | None = None) -> None:
    """Make sure that there is a cluster, and a store that can be used, before anything is begun.

    Raises:
        RunError: there is not.
    """
    if store is not None:
        await asyncio.to_thread(check_store, open_shared(store))
    cluster = Cluster(address)
    await cluster.connect()
    await cluster.close()


class _Doing:
    """One caller at work on a batch."""

    def __init__(
        self,
        batch: Batch,
        make: Make,
        fleet: Fleet,
        cluster: Cluster,
        on_result: OnResult | None,
        wishes: Sequence[Wish],
        attendance: Attendance,
    ) -> None:
        self._batch = batch
        self._make = make
        self._fleet = fleet
        self._cluster = cluster
        self._on_result = on_result
        self._wishes = wishes
        self._told: set[str] = set()
        """The runs whose results were told."""
        self._door: tuple[str, str] | None = None
        self._storeless = Counter[str]()
        """How often workers could not reach the store since they last did a run."""
        uid = batch.facts["uid"]
        self._topic = f"toolkit-{uid}"
        self._base = f"batches/{uid}"
        self._loop = asyncio.get_running_loop()
        self._changed: dict[str, asyncio.Event] = {}
        through = self._through = None if fleet.store is None else open_store(fleet.store)
        self._store = JournalStore(batch, self._base, self._heard, through)
        self._desk = Desk(self._store, self._topic, lambda: attendance.may_answer)
        self._finder = Finder(cluster, self._store, self._base, fleet.store)
        self._packs = Packs(batch.folder / "packs", through or self._store, fleet.on_word)
        self._collector = Collector(batch.folder / "packs", through, fleet.on_word)
        self._mark = _make_mark(batch.folder)

    async def all(self, usd: float | None, tokens: int | None) -> dict[str, Standing]:
        """Do all that is open."""
        await self._take_up_rate()
        self._cluster.on_connected = self._desk.listen
        self._desk.listen(self._cluster.client)
        desk = asyncio.ensure_future(self._desk.serve(lambda: self._cluster.client))
        rate = asyncio.ensure_future(self._follow_rate())
        try:
            await self._settle()
            todo = in_order((one for one in self._store.standings.values() if one.is_open), self._wishes)
            while todo:
                before = {standing.task.id: len(standing.runs) for standing in todo}
                await self._do(todo, usd, tokens)
                await self._settle()
                todo = in_order(self._wanted_again(before), self._wishes)
        finally:
            desk.cancel()
            rate.cancel()
            await asyncio.wait({desk, rate})
        return self._batch.standings()

    async def _follow_rate(self) -> None:
        """Keep with the batch what its workers decide about their rate."""
        folder = self._batch.folder
        await follow(self._store, self._base, lambda said: keep_decision(folder, said), after=self._decisions())

    async def _take_up_rate(self) -> None:
        """Go on with the rate that a caller elsewhere had; where that cannot be read, it begins low."""
        with contextlib.suppress(RunError):
            if self._through is not None:
                taken = await asyncio.to_thread(take_up, self._through, self._store, self._base)
                if taken is not None and taken["number"] > self._decisions():
                    keep_decision(self._batch.folder, taken)

    def _decisions(self) -> int:
        """The number of the last decision that is kept."""
        known = (int(said["number"]) for said in self._batch.rate_history if said.get("machine"))
        return max(known, default=0)

    def _wanted_again(self, before: dict[str, int]) -> list[Standing]:
        """The tasks that somebody wants done once more, meanwhile; not those that the limit left no room for."""
        wishes = next(iter(self._batch.standings().values())).again
        for standing in self._store.standings.values():
            standing.again |= wishes
        known = self._store.standings.values()
        return [one for one in known if one.begins_anew and len(one.runs) > before.get(one.task.id, 0)]

    async def _do(self, todo: list[Standing], usd: float | None, tokens: int | None) -> None:
        spec = self._make(todo[0].task)
        async with AsyncExitStack() as stack:
            if self._fleet.key_from == "caller" and spec.transport is None:
                door = await stack.enter_async_context(KeyDoor(find_api(**spec.reach()), self._fleet.address))
                self._door = (door.url, door.word)
            await self._do_all(todo, spec, usd, tokens)

    async def _do_all(self, todo: list[Standing], spec: RunSpec, usd: float | None, tokens: int | None) -> None:
        crew = Crew(
            self._cluster,
            confined=spec.transport is None,
            needs_key=spec.api_url is None and self._door is None,
            patience=self._fleet.patience,
            on_word=self._fleet.on_word,
        )
        require_code(pack_spec(spec), self._fleet.code)
        self._code = await self._packs.of_code(self._fleet.code)
        self._sender = Sender(self._cluster, crew, self._topic, lease=self._fleet.lease, on_lost=self._lost)
        places = self._fleet.parallel or sum((await crew.good()).values())
        self._spending = Spending(self._store.standings, usd, tokens, places=places, runs=len(todo))
        each = iter(todo)
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                for _ in range(min(places, len(todo))):
                    group.create_task(self._one_after_the_other(each))

    async def _one_after_the_other(self, todo: Iterator[Standing]) -> None:
        for standing in todo:
            task = standing.task
            try:
                spec = self._make(task)
            except ToolkitError as error:  # a model that cannot be, say: the others go on
                await self._end(standing, never_began(f"{self._batch.name}.{task.id}.{standing.number + 1}", error))
                continue
            limits = await self._spending.take(standing, spec.limits)
            if limits is None:
                return  # what the limit leaves no room for waits
            if self._spending.is_limited:
                await asyncio.to_thread(self._store.promise, task.id, limits)
            result = await self._see_through(standing, dataclasses.replace(spec, limits=limits))
            await self._spending.give_back(standing, result)
            self._tell(task, result)

    def _tell(self, task: Task, result: RunResult[Any] | None) -> None:
        """Tell of a result, once."""
        if result is not None and self._on_result is not None and result.run not in self._told:
            self._told.add(result.run)
            self._on_result(task, result)

    async def _see_through(self, standing: Standing, spec: RunSpec) -> RunResult[Any] | None:
        """Send orders for a task until it has ended; its result, where that is here."""
        task = standing.task
        if standing.begins_anew and standing.runs:
            await asyncio.to_thread(self._store.say, {"task": task.id, "run": standing.runs[-1], "again": True})
        try:
            pack = await self._packs.of(spec)
            packed = pack_spec(spec)
        except StoreError:
            raise  # all tasks stay as they are
        except ToolkitError as error:
            return await self._end(standing, never_began(f"{self._batch.name}.{task.id}.{standing.number + 1}", error))
        order = Order(
            self._batch.name,
            self._base,
            task.id,
            task.prompt,
            packed,
            after=standing.after,
            lease=self._fleet.lease,
            most_losses=standing.most_losses,
            priority=priority_of(task, self._wishes),
            mark=self._mark,
            store=self._fleet.store,
            door=self._door,
            pack=pack,
            code=self._code,
        )
        refusals: list[str] = []
        while len(refusals) < _MOST_REFUSALS:
            changed = self._changed[task.id] = asyncio.Event()
            answer = await self._sender.send(order)
            if isinstance(answer, str):
                refusals.append(answer)
                await asyncio.sleep(_PAUSE * len(refusals))
                await self._settle()
            elif answer.kind in ("ended", "unsaid"):
                self._storeless.pop(answer.worker, None)
                await self._collect(answer, pack)
                return await self._finder.result_of(standing, answer)
            elif answer.kind == "lost":
                continue
            elif answer.kind == "held":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), self._fleet.lease)
            elif answer.said.get("is_store"):
                await self._without_store(answer)
            else:  # another may be able to; this one gets no more
                refusals.append(f"{answer.worker}: {answer.said.get('why')}")
                self._sender.refuse(answer.worker, str(answer.said.get("why")))
        run = f"{self._batch.name}.{task.id}.{standing.number + 1}"
        return await self._end(standing, never_began(run, RunError("no worker can do it", where=refusals)))

    async def _without_store(self, answer: Answer) -> None:
        """A worker could not reach the store: that may pass, and no task ends by it. Too often, and it gets no more."""
        self._storeless[answer.worker] += 1
        if self._storeless[answer.worker] >= _MOST_STORELESS:
            self._sender.refuse(answer.worker, str(answer.said.get("why")))
        await asyncio.sleep(_STORE_PAUSE * self._storeless[answer.worker])

    async def _settle(self) -> None:
        """Find out what became of runs that nobody told the end of, and have those that are done stored here."""
        left = await self._finder.left()
        answers = {str(answer.said["run"]): answer for answer in left.values()}
        for standing in await self._finder.settle(left.values()):
            end = standing.ends[standing.runs[-1]]
            answer = answers.get(standing.runs[-1]) or Answer("ended", end, str(end.get("worker", "")))
            try:
                pack = await self._packs.of(self._make(standing.task))
            except ToolkitError:
                pack = None
            await self._collect(answer, pack)
            self._tell(standing.task, await self._finder.result_of(standing, answer))
        await self._finder.forget(left)

    async def _collect(self, answer: Answer, pack: Pack | None) -> None:
        """Have the run of a task that has ended stored here, wherever it was done."""
        run = str(answer.said.get("run"))
        if answer.is_stored or Collector.has(run):
            return
        sent = answer.sent or await self._finder.fetch(run, pack)
        if sent is not None and await self._collector.take(run, sent, pack) and answer.worker:
            await self._finder.drop(run, str(answer.said.get("worker") or answer.worker))

    async def _lost(self) -> None:
        """The scheduler was lost, and found again."""
        self._fleet.on_word(f"the scheduler at {self._cluster.address} was lost, and is there again")
        await self._settle()

    async def _end(self, standing: Standing, result: RunResult[Any]) -> RunResult[Any]:
        """Write down the end of a task that no worker had a part in."""
        number = result.run.rpartition(".")[2]
        end = {"task": standing.task.id, "run": result.run, **end_of(result)}
        await asyncio.to_thread(self._finder.write, f"ends/{standing.task.id}/{number}", end)
        return result

    def _heard(self, standing: Standing) -> None:
        """A line about a task was written, by whichever thread."""
        changed = self._changed.get(standing.task.id)
        if changed is not None and not standing.is_open:
            self._loop.call_soon_threadsafe(changed.set)


def _make_mark(folder: Path) -> str:
    """A word that says, to whoever finds it in the batch's folder, that it shares this disk."""
    word = secrets.token_hex(16)
    write_whole(folder / MARK, word)
    return word
