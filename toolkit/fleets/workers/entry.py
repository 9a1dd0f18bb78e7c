"""What a worker does with an order: claim its task, do the run, tell what it came to.

A task that the engine hands out twice runs once: the second worker finds the claim. It waits until the holder has
ended or is dead for certain, or has been silent for a lease; then it takes over. A holder that is seen to live is
not waited for: that answer goes back to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.claims import Claim, Claims, Ended, Held
from toolkit.fleets.packs import load_code, unpack
from toolkit.fleets.parcels import ParcelError
from toolkit.fleets.rate import paced_here
from toolkit.fleets.store import Store, StoreError, open_store
from toolkit.fleets.workers.books import Books
from toolkit.fleets.workers.kept import Kept, do_kept, is_cut_off
from toolkit.fleets.workers.leaving import leave
from toolkit.fleets.workers.orders import MARK, Answer, Kind, Order, unpack_spec
from toolkit.fleets.workers.returning import drop_run, send_back
from toolkit.fleets.workers.telling import tell_of
from toolkit.runs import InPlace, RunResult, RunSpec
from toolkit.runs.batches import end_of, going_on, lost_end
from toolkit.runs.outcome import as_line, never_began
from toolkit.runs.storage import runs_home

_LOOK = 0.1
"""The part of a lease after which a claim is looked at again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Worker:
    """Where an order is done, and how to reach the others from here."""

    name: str
    machine: str
    store: Store
    is_tied: Callable[[], bool] = lambda: False
    """Whether nobody could take over while the store is out of reach, so that a run may go on without it."""

    @property
    def holder(self) -> dict[str, Any]:
        """What it writes down of itself."""
        return {"worker": self.name, "machine": self.machine}


async def work_on(order: Order, worker: Worker) -> Answer:
    """See an order through.

    Raises:
        StoreError: the store cannot be reached, so nothing was begun, or nobody could be told that it was cut off.
    """
    claims = Claims(
        worker.store, order.base, order.batch, worker.holder, lease=order.lease, most_losses=order.most_losses
    )
    found = await _take(claims, order)
    if isinstance(found, Ended):
        return Answer("ended", found.end, worker.name)
    if isinstance(found, Held):
        return Answer("held", found.by, worker.name)
    return await _do(order, worker, found)


async def _do(order: Order, worker: Worker, claim: Claim) -> Answer:
    """Do the run of a claim."""
    books = Books(worker.store, order.base, claim, worker.holder)
    async with AsyncExitStack() as stack:
        try:
            spec = await asyncio.to_thread(_placed, order, worker, stack)
            spec = _for_claim(spec, order, claim, books)
        except StoreError as error:
            return await _released(worker, claim, error, is_store=True)
        except ToolkitError as error:
            if _is_only_here(error, order):
                return await _released(worker, claim, error)
            return await _ended(order, worker, claim, never_began(claim.run, error), books)
        spec = await stack.enter_async_context(paced_here(spec, worker.store, order.base, worker.name, order.priority))
        kept = await do_kept(spec, claim, books, worker.is_tied)
    if isinstance(kept, Kept):
        return Answer("held", {"run": claim.run, "why": kept.why}, worker.name)
    if books.is_unheard:
        return await _given_back(worker, claim)
    return await _ended(order, worker, claim, kept, books)


async def _released(worker: Worker, claim: Claim, error: ToolkitError, *, is_store: bool = False) -> Answer:
    """Give a task back that this worker cannot do, or not as long as a store is out of its reach."""
    await asyncio.to_thread(claim.release, str(error))
    return Answer("released", {"run": claim.run, "why": str(error), "is_store": is_store}, worker.name)


async def _given_back(worker: Worker, claim: Claim) -> Answer:
    """Give a task back whose run did not begin because nobody could be told: it has not ended, either."""
    why = "nobody could be told that it begins, so nothing was sent"
    with contextlib.suppress(RunError):
        await asyncio.to_thread(claim.release, why)
    await asyncio.to_thread(drop_run, claim.run)
    return Answer("held", {"run": claim.run, "why": why}, worker.name)


def _is_only_here(error: ToolkitError, order: Order) -> bool:
    """Whether another worker may be able to do what this one cannot: its disk is full, or it lacks what is lent."""
    return order.pack is not None and not isinstance(error, ParcelError)


async def _take(claims: Claims, order: Order) -> Claim | Held | Ended:
    """The claim of the order's task; who holds it, where the holder lives; or how it ended."""
    first: float | None = None
    while True:
        found = await asyncio.to_thread(claims.take, order.task, order.after)
        if not isinstance(found, Held):
            return found
        told = await asyncio.to_thread(tell_of, str(found.by.get("run")))
        if told is not None and told.state != "running":
            tell = claims.found_dead if told.state == "crashed" else claims.found_ended
            end = told.end if told.used is None or told.state == "finished" else lost_end(told.used, told.end)
            await asyncio.to_thread(tell, found, {**end, "told": True})
            continue
        if first is not None and found.left > first:
            return found  # it said something meanwhile
        first = found.left
        await asyncio.sleep(min(found.left, order.lease * _LOOK) + 0.01)


def _placed(order: Order, worker: Worker, stack: AsyncExitStack) -> RunSpec:
    """The spec with what it works on: as it is where the caller's disk is, else from the batch's pack.

    Raises:
        RunError: the pack cannot be had or kept here, or the run is to work in place.
        WorkspaceError: something that is lent is not here.
        TargetError: a file of tools cannot be imported here.
    """
    store = worker.store if order.store is None else open_store(order.store)
    if order.code is not None:
        load_code(order.code, store)
    spec = unpack_spec(order.spec)
    if is_shared(order):
        return spec
    if order.pack is None:
        if isinstance(spec.workspace, InPlace):
            raise RunError("a run in place needs the caller's disk, which this worker does not have")
        return spec
    unpacked = stack.enter_context(unpack(order.pack, store))
    return dataclasses.replace(spec, workspace=unpacked.section(makes_lent=spec.setup is not None))


def _for_claim(spec: RunSpec, order: Order, claim: Claim, books: Books) -> RunSpec:
    """The run for a claim: it goes on where the one before was cut off, if its conversation is here."""
    more: dict[str, Any] = {}
    if claim.before and spec.transport is None:
        more = going_on(str(claim.before[-1].get("run")), order.prompt)
    given = spec.before_run
    books.has_gate = spec.transport is None

    async def begins(one: RunSpec) -> str | None:
        await books.begin()
        said = None if given is None else given(one)
        return said if said is None or isinstance(said, str) else await said

    more |= {"books": books} if books.has_gate else {}
    more |= {} if order.door is None else {"api_url": order.door[0], "api_key": order.door[1]}
    return dataclasses.replace(spec, run_id=claim.run, before_run=begins, **more)


async def _ended(order: Order, worker: Worker, claim: Claim, result: RunResult[Any], books: Books) -> Answer:
    is_stored = await asyncio.to_thread(is_shared, order)
    end = {**end_of(result), **worker.holder}
    if books.has_gate:  # the gate saw all calls, also those of the agent's own programs
        end["tokens"] = max(int(end["tokens"]), books.account.charged)
        if books.account.open:
            end |= {"unknown_calls": len(books.account.open)}
    if is_cut_off(result):
        await asyncio.to_thread(claim.lose, {**lost_end(books.account.to_data(), end), **worker.holder})
        return Answer("lost", {"run": claim.run, "why": result.cause}, worker.name)
    kind: Kind = "ended"
    try:
        if not await asyncio.to_thread(claim.finish, end):
            return Answer("held", {"run": claim.run, "why": "another worker has taken over"}, worker.name)
    except RunError:
        kind = "unsaid"
    sent = None
    if not is_stored and (runs_home() / claim.run).is_dir():
        pack = None if order.pack is None else order.pack.hash
        sent = await asyncio.to_thread(send_back, claim.run, order.base, pack, order.store)
    data = json.loads(as_line(result.to_data()))
    said = {"task": order.task, "run": claim.run, **end}
    answer = Answer(kind, said, worker.name, data, is_stored, sent)
    if kind == "unsaid":
        await asyncio.to_thread(leave, order, answer)
    return answer


def is_shared(order: Order) -> bool:
    """Whether runs are stored here where the caller's are: then it is the caller's disk."""
    try:
        mark = runs_home().parent / "batches" / order.batch / MARK
        return mark.read_text(encoding="utf-8") == order.mark
    except (OSError, UnicodeDecodeError):
        return False
