"""Attend to a batch as its one caller: everything about its tasks is in the store before it counts.

    BASE/claims/caller/N     the Nth caller; held, renewed and taken over like the claim of a task

A caller that was killed is followed at once by one with the same folder, who has its lock, and by one on another
machine after a lease without a word. Whoever follows writes the next piece of the journal, and what stands before it
is final then: a caller that only slept finds that piece when it writes, and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from toolkit._base.files import write_whole
from toolkit._base.words import safe_line
from toolkit.errors import RunError
from toolkit.fleets.claims import Claim, Claims, Ended, Held
from toolkit.fleets.journals.checked import checked
from toolkit.fleets.journals.pieces import Pieces
from toolkit.fleets.store import Store, StoreError
from toolkit.fleets.workers import Keeper
from toolkit.runs.batches import Batch

Value = TypeVar("Value")
_WHO = "caller"
_LOOK = 0.1
"""The part of a lease after which the claim of another caller is looked at again."""
_PAUSE = 2.0
_FOR_EVER = 10**9


class AttendanceLostError(RunError):
    """This caller must say nothing more: another works on the batch, or nothing can be written down."""


@dataclass(slots=True)
class Attendance:
    """The right to work on a batch, as long as nobody else has taken it."""

    claim: Claim | None = None
    why: AttendanceLostError | None = None
    """Why it was lost."""
    _on_lost: Callable[[], object] = lambda: None

    @property
    def may_answer(self) -> bool:
        """Whether what is known here is what holds. Not so where another may have taken over unseen."""
        return self.why is None and (self.claim is None or not self.claim.is_due)

    async def during(self, work: Coroutine[Any, Any, Value]) -> Value:
        """What some work comes to, done as long as this is not lost.

        Raises:
            AttendanceLostError: it was.
        """
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        self._on_lost = lambda: loop.call_soon_threadsafe(task.cancel)
        if self.why is not None:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if self.why is None:
                raise
            raise self.why from None
        finally:
            self._on_lost = lambda: None

    def taken_over(self) -> AttendanceLostError:
        """Another caller has it now."""
        return self.lose("another caller has taken the batch over", "Its journal is in the store: look there")

    def lose(self, what: str, fix: str) -> AttendanceLostError:
        """It is lost, as whichever thread finds."""
        self.why = self.why or AttendanceLostError(what, fix=fix)
        with contextlib.suppress(RuntimeError):  # the work has ended meanwhile, with its loop
            self._on_lost()
        return self.why


@asynccontextmanager
async def attend(
    batch: Batch, store: Store, *, lease: float, patience: float = 300.0, on_word: Callable[[str], None]
) -> AsyncIterator[Attendance]:
    """Be the one caller of a batch that is held here, with its journal in the store.

    The journal here is brought up to date first. `patience` is for how many seconds a store that cannot be reached is
    waited for.

    Raises:
        RunError: another caller works on it, or the two journals differ.
        StoreError: the store cannot be reached.
    """
    base = f"batches/{batch.facts['uid']}"
    holder = {"machine": platform.node(), "process": os.getpid(), "place": _place(batch)}
    claims = Claims(store, base, batch.name, holder, lease=lease, most_losses=_FOR_EVER, clock=_clock)
    claim = await _take(claims, batch, on_word)
    attendance = Attendance(claim)
    keeper = Keeper(claim, lambda: True, attendance.taken_over)
    mirror = _Mirror(Pieces(store, base), attendance, claim.number, patience, on_word)
    try:
        await asyncio.to_thread(mirror.begin, batch, base)
        batch.mirror = mirror.write
        yield attendance
    finally:
        batch.mirror = None
        keeper.stop()
        mirror.stop()
        with contextlib.suppress(RunError):
            await asyncio.to_thread(claim.release, "it has ended")


def _clock() -> float:
    """Seconds that go on also while the machine sleeps: others take over meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def _take(claims: Claims, batch: Batch, on_word: Callable[[str], None]) -> Claim:
    """The claim of the caller, as soon as nobody else has it.

    Raises:
        RunError: another caller lives.
    """
    first: float | None = None
    is_told = False
    while True:
        found = await asyncio.to_thread(claims.take, _WHO)
        if isinstance(found, Claim):
            return found
        assert not isinstance(found, Ended), "the calling for a batch has no end"
        if found.by.get("place") == claims.holder["place"] and not is_told:  # we have its lock, so it is dead
            await asyncio.to_thread(claims.found_dead, found, {})
            is_told = True
            continue
        if first is not None and found.left > first:
            raise _held(batch, found)
        if first is None:
            seconds = f"{claims.lease:.0f} s"
            on_word(f"waiting to see whether the caller on {_machine(found)} is still there (at most {seconds})")
        first = found.left
        await asyncio.sleep(min(found.left, claims.lease * _LOOK) + 0.01)


def _held(batch: Batch, found: Held) -> RunError:
    process = found.by.get("process")
    return RunError(
        f"somebody works on the batch '{batch.name}' already, on {_machine(found)}",
        where=[f"process {process}"] if isinstance(process, int) else [],
        fix="End it there, or wait until its lease is over, then go on: --resume",
    )


def _machine(found: Held) -> str:
    return safe_line(str(found.by.get("machine") or "another machine"), 80)


class _Mirror:
    """What is said about tasks, written into the store before it counts."""

    def __init__(
        self, pieces: Pieces, attendance: Attendance, by: int, patience: float, on_word: Callable[[str], None]
    ) -> None:
        self._pieces = pieces
        self._attendance = attendance
        self._by = by
        self._patience = patience
        self._on_word = on_word
        self._over = threading.Event()

    def begin(self, batch: Batch, base: str) -> None:
        """Make the end of the journal ours, and both journals the same."""
        tasks = batch.standings()
        theirs = self._pieces.read_on()
        while not self._pieces.append([], self._by):  # from here on nobody else's lines count
            theirs += self._pieces.read_on()
        ours = checked((said for said in batch.lines() if "task" in said), batch.name, tasks, str(batch.folder))
        known = checked(theirs, batch.name, tasks, f"{base}/journal")
        if known[: len(ours)] == ours:
            if known[len(ours) :]:
                batch.say(*known[len(ours) :])
        elif not known:  # it was begun without this store
            self.write(ours)
        else:
            raise RunError(
                f"the journal of batch '{batch.name}' here and the one in the store differ",
                where=[str(batch.folder / "journal.jsonl"), f"{base}/journal"],
            )

    def write(self, lines: Sequence[dict[str, Any]]) -> None:
        """Have lines in the store; a store that cannot be reached is waited for.

        Raises:
            AttendanceLostError: another caller has taken over, or the store was out of reach for too long.
        """
        until: float | None = None
        while self._attendance.why is None:
            try:
                if self._pieces.append(lines, self._by):
                    return
                self._attendance.taken_over()
            except StoreError as error:
                if until is None:
                    until = _clock() + self._patience
                    self._on_word(f"nothing goes on until the store can be reached: {error.what}")
                if _clock() > until or self._over.wait(_PAUSE):
                    self._attendance.lose(error.what, "Mend that, then go on: --resume")
        raise self._attendance.why

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._over.set()


def _place(batch: Batch) -> str:
    """What no other folder has, also none that was copied from this one: who has its lock is the only one there."""
    file = batch.folder / "place"
    if not file.exists():
        write_whole(file, secrets.token_hex(16), durable=True)
    said = f"{file.read_text(encoding='utf-8')} {platform.node()} {batch.folder.stat().st_ino}"
    return hashlib.sha256(said.encode()).hexdigest()
