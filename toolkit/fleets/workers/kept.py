"""A run, done as long as its claim is held: the claim is renewed beside it, and a run that has lost it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.claims import Claim
from toolkit.fleets.workers.books import Books
from toolkit.runs import LiveRun, RunResult, RunSpec
from toolkit.runs.outcome import never_began

_AGAIN = 0.05
"""The part of a lease after which a renewal that failed is tried again."""
_PATIENCE = 10.0
"""Seconds that the last account of a run waits to be told."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A run that was ended because it lost its claim."""

    why: str


async def do_kept(spec: RunSpec, claim: Claim, books: Books, is_tied: Callable[[], bool]) -> RunResult[Any] | Kept:
    """The result of a run; or why it was ended before: somebody else has the claim, or may have it soon."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(_do(spec, books))
    teller = asyncio.ensure_future(books.keep())
    keeper = Keeper(claim, is_tied, lambda: loop.call_soon_threadsafe(work.cancel))
    try:
        await asyncio.wait({work})
        if work.cancelled():
            return Kept(keeper.why or "it was cancelled")
        return work.result()
    finally:
        keeper.stop()
        for task in (work, teller):
            task.cancel()
        await asyncio.wait({work, teller})
        with contextlib.suppress(RunError, TimeoutError):
            await asyncio.wait_for(books.tell(), _PATIENCE)


async def _do(spec: RunSpec, books: Books) -> RunResult[Any]:
    try:
        async with LiveRun[Any](spec, looks_early=False) as live:
            if not books.has_gate:
                live.bus.subscribe(books.hear)
            await live.result()
        return await live.result()
    except Exception as error:
        return never_began(spec.run_id, error)


def is_cut_off(result: RunResult[Any]) -> bool:
    """Whether a run's process was taken from it, because its worker shuts down: that is no end of its task.

    What a person ended has the same code, and is one.
    """
    return result.code == "aborted" and result.debug.get("error") == asyncio.CancelledError.__name__


class Keeper:
    """Renews a claim in a thread of its own: what blocks the loop of its holder does not lose the claim."""

    def __init__(self, claim: Claim, is_tied: Callable[[], bool], on_lost: Callable[[], object]) -> None:
        self.why: str | None = None
        """Why the claim could not be kept."""
        self._claim = claim
        self._is_tied = is_tied
        self._on_lost = on_lost
        self._over = threading.Event()
        threading.Thread(target=self._keep, name=f"claim-{claim.task}", daemon=True).start()

    def stop(self) -> None:
        """Let it be."""
        self._over.set()

    def _keep(self) -> None:
        pause = self._claim.next
        while not self._over.wait(pause):
            try:
                if not self._claim.renew():
                    self.why = "another worker has taken over"
                pause = self._claim.next
            except RunError as error:
                pause = self._claim.lease * _AGAIN
                if self._claim.is_due and not self._is_tied():
                    self.why = f"its claim could not be renewed: {error.what}"
            if self.why is not None and not self._over.is_set():
                with contextlib.suppress(RuntimeError):  # the run has ended meanwhile, with its loop
                    self._on_lost()
                return
