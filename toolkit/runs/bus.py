"""Listeners on a run's events: any number, sync or async, none of which can slow the run or break it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolkit.runs.callbacks import in_a_thread, is_async
from toolkit.runs.outcome.events import Event
from toolkit.runs.storage.log import EventLog

Listener = Callable[[Event], Awaitable[None] | None]
_log = logging.getLogger("toolkit.runs")


class Bus:
    """Hands every event of a run, from the first on, to whoever subscribed."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event in order; the function given back ends it.

        A sync listener runs in a thread. One that raises is logged and goes on with
        the next event; one that is slow reads behind, and nobody waits for it.
        """
        task = asyncio.get_running_loop().create_task(self._serve(listener))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def unsubscribe() -> None:
            task.cancel()

        return unsubscribe

    async def drain(self, seconds: float) -> None:
        """Give the listeners this long to read to the end, then let them go."""
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()

    async def _serve(self, listener: Listener) -> None:
        awaited = is_async(listener)
        async for batch in self._log.batches():
            if awaited:
                for event in batch:
                    await _heard(listener, event)
            else:
                await in_a_thread(_heard_all, listener, batch)


async def _heard(listener: Listener, event: Event) -> None:
    try:
        answer = listener(event)
        if answer is not None:
            await answer
    except Exception:
        _log.exception("a listener failed on %s", event.name)


def _heard_all(listener: Listener, batch: list[Event]) -> None:
    for event in batch:
        try:
            listener(event)
        except Exception:
            _log.exception("a listener failed on %s", event.name)
