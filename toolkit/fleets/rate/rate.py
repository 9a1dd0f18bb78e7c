"""One rate for the runs of a batch in one process: the object that their gates ask and tell.

    rate = Rate()
    specs = [replace(spec, pace=rate.of_run(project="shop", priority=0)) for spec in specs]

The runs may be in several event loops and threads. Whoever is first in line keeps watch over the time for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from toolkit.fleets.rate.decisions import Decision
from toolkit.fleets.rate.line import Ticket
from toolkit.fleets.rate.pacer import Pacer

KEPT_DECISIONS = 10_000
Clock = Callable[[], float]


class Rate:
    """How quickly the runs of a batch ask the model API, all together."""

    def __init__(self, *, clock: Clock = time.monotonic, on_decision: Callable[[Decision], None] | None = None) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._decisions: deque[Decision] = deque(maxlen=KEPT_DECISIONS)
        self._heard = on_decision
        self._waiters: dict[Ticket, _Waiter] = {}
        self.pacer = Pacer(clock(), on_decision=self._decided)
        """What decides; it knows no time but what it is told."""
        self._begin()

    def _begin(self) -> None:
        self._decided(self.pacer.decision)

    def of_run(self, *, project: str = "", priority: int = 0) -> RunPace:
        """What the gate of one run is given: requests of one project go one after the other, high priorities first."""
        return RunPace(self, project, priority)

    @property
    def history(self) -> list[Decision]:
        """What was decided, oldest first; the last ten thousand."""
        with self._lock:
            return list(self._decisions)

    @property
    def now(self) -> float:
        """Requests a second that may leave now."""
        with self._lock:
            return self.pacer.rate(self._clock())

    @property
    def share(self) -> float:
        """The part of the whole rate that this process has."""
        with self._lock:
            return self.pacer.share

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        with self._lock:
            return len(self.pacer.line)

    async def admit(self, ticket: Ticket, within: float) -> bool:
        """Wait for the turn of a request, `within` seconds at most; whether it came."""
        waiter = _Waiter()
        with self._lock:
            self._waiters[ticket] = waiter
            self.pacer.enter(ticket, self._clock())
        try:
            async with asyncio.timeout(within):
                while (wait := self._look(ticket)) != 0:
                    await waiter.sleep(wait)
            return True
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiters.pop(ticket, None)
                self.pacer.line.leave(ticket)
                self._wake_watcher()

    def answered(self, ticket: Ticket, status: int, retry_after: float | None) -> None:
        """The API answered a request that was admitted."""
        with self._lock:
            self.pacer.answered(ticket, status, retry_after, self._clock())
            self._wake_watcher()

    def _look(self, ticket: Ticket) -> float | None:
        """Let go whoever may leave. 0: this one may; else seconds after which it looks again, None for being woken."""
        with self._lock:
            now = self._clock()
            gone, again = self.pacer.due(now)
            for other in gone:
                if other is not ticket and (waiter := self._waiters.get(other)) is not None:
                    waiter.wake()
            if ticket.left is not None:
                return 0
            if self.pacer.line.watcher(now) is ticket and again is not None:
                return max(again - now, 0.0005)
            self._wake_watcher()  # it may be another one than before
            return None

    def _wake_watcher(self) -> None:
        first = self.pacer.line.watcher(self._clock())
        if first is not None and (waiter := self._waiters.get(first)) is not None:
            waiter.wake()

    def _decided(self, decision: Decision) -> None:
        self._keep(dataclasses.replace(decision, at=time.time()))

    def _keep(self, decision: Decision) -> None:
        self._decisions.append(decision)
        if self._heard is not None:
            self._heard(decision)


class _Waiter:
    """Somebody who waits in a loop, which may be that of another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    async def sleep(self, seconds: float | None) -> None:
        """Wait to be woken, or for so many seconds."""
        timer = None if seconds is None else self._loop.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
            self._event.clear()
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """End the wait, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop was closed, and with it the wait
            self._loop.call_soon_threadsafe(self._event.set)


class RunPace:
    """The pace of one run: a `toolkit.sandbox.Pace`."""

    def __init__(self, rate: Rate, project: str, priority: int) -> None:
        self._rate = rate
        self._project = project
        self._priority = priority
        self._run = secrets.token_hex(8)

    async def admit(self, within: float, *, again: bool = False, after: float = 0.0) -> RunPermit | None:
        """Wait for the turn of one request of the run."""
        ticket = Ticket(self._project, self._priority, again, run=self._run, wait=after)
        return RunPermit(self._rate, ticket) if await self._rate.admit(ticket, within) else None

    def __reduce__(self) -> Any:
        raise TypeError("a pace belongs to its process: give the run a new one where it is done")


class RunPermit:
    """One request that may leave."""

    def __init__(self, rate: Rate, ticket: Ticket) -> None:
        self._rate = rate
        self._ticket = ticket

    def answered(self, status: int, retry_after: float | None) -> None:
        """Tell the rate what became of it."""
        self._rate.answered(self._ticket, status, retry_after)
