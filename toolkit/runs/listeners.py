"""Call a user's functions without waiting for them in the event loop: listeners on a run's events, and others.

There may be any number of listeners, sync or async; none can slow the run or break it.
The threads here are not those of `asyncio.to_thread`: those are few, the run needs them
itself, and the loop waits for each of them when it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from toolkit.runs.outcome.events import Event
from toolkit.runs.storage.event_log import EventLog

T = TypeVar("T")
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


async def in_its_own_time(function: Callable[..., T | Awaitable[T]], *given: Any) -> T:
    """What the function gives; one that is not async runs in a thread of its own, which nobody waits for at the end."""
    answer = function(*given) if is_async(function) else await in_a_thread(function, *given)
    return await answer if inspect.isawaitable(answer) else answer


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await, and does no work of its own."""
    called = getattr(function, "__call__", None)  # noqa: B004  (an object with an async __call__)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


async def in_a_thread(function: Callable[..., T], *given: Any) -> T:
    """Run it in a new daemon thread; cancelling stops the waiting and not the thread."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def hand_over(result: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, *given)
        except BaseException as raised:
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(hand_over, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=work, name="toolkit-callback", daemon=True).start()
    return await answer
