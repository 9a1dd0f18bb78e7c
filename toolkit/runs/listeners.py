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
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from toolkit.runs.kinds import called_with
from toolkit.runs.outcome.events import Event
from toolkit.runs.storage.event_log import EventLog

T = TypeVar("T")
Listener = Callable[[Event], Awaitable[None] | None]
_log = logging.getLogger("toolkit.runs")
_TO_CLEAN_UP = 2.0
"""Seconds that a function has to clean up when nobody wants its answer any more."""


class EndedItself(Exception):
    """A function of the caller's ended in an exit, or in a cancellation that nobody asked for."""


class Bus:
    """Hands every event of a run, from the first on, to whoever subscribed."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._listeners: list[_Listening] = []
        self.missed: dict[str, int] = {}
        """Events that a listener did not take in until the run was left: how many, by the listener's name."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event in order; the function given back ends it.

        A sync listener runs in a thread. One that raises is logged and goes on with
        the next event. One that is slow reads behind: the run does not wait for it,
        leaving the run does, for `listener_timeout` seconds.

        Raises:
            OptionError: it is no function of one argument.
        """
        called_with("the event", "live.bus.subscribe(lambda event: print(event.name))")("listener", listener)
        listening = _Listening(listener, self._log)
        self._listeners.append(listening)

        def unsubscribe() -> None:
            listening.end()
            if listening in self._listeners:
                self._listeners.remove(listening)

        return unsubscribe

    async def drain(self, seconds: float) -> None:
        """Wait until every listener has read to the end, at most this long, then let them go."""
        try:
            if self._listeners:
                await asyncio.wait({each.task for each in self._listeners}, timeout=seconds)
        finally:  # also where the waiting is cancelled
            self.let_go()

    def let_go(self) -> None:
        """Give the listeners no further event; say of each that is behind how many it missed."""
        listeners, self._listeners = self._listeners, []
        for each in listeners:
            each.end()
            if each.missing:
                self._give_up(each)

    def _give_up(self, listening: _Listening) -> None:
        name, count = _name_of(listening.listener), listening.missing
        self.missed[name] = self.missed.get(name, 0) + count
        _log.warning(
            "listener %s was given up: %d of %d events of the run did not reach it; see listener_timeout",
            name,
            count,
            self._log.count,
        )


class _Listening:
    """One listener, and how far it has read."""

    def __init__(self, listener: Listener, log: EventLog) -> None:
        self.listener = listener
        self._log = log
        self._heard = 0
        self._is_over = False
        self.task = asyncio.get_running_loop().create_task(self._serve())

    @property
    def missing(self) -> int:
        """Events that it has not taken in."""
        return self._log.count - self._heard

    def end(self) -> None:
        """Give it no further event; a thread of its goes on until it has finished with the one it has."""
        self._is_over = True
        self.task.cancel()

    async def _serve(self) -> None:
        awaited = is_async(self.listener)
        try:
            async for batch in self._log.batches():
                if awaited:
                    for event in batch:
                        await self._settle(event, answer_of(self.listener, event))
                else:
                    untold = iter(batch)
                    while begun := await in_a_thread(self._tell, untold):
                        await self._settle(*begun)
        except Exception:  # the stored events cannot be read any more
            _log.exception("listener %s cannot go on", _name_of(self.listener))

    async def _settle(self, event: Event, answer: Awaitable[None]) -> None:
        try:
            await answer
        except Exception:
            _log.exception("a listener failed on %s", event.name)
        self._heard += 1

    def _tell(self, untold: Iterator[Event]) -> tuple[Event, Awaitable[None]] | None:
        """One after the other, up to one for which the listener gives back something to await."""
        for event in untold:
            if self._is_over:
                break
            try:
                given_back = self.listener(event)
            except (Exception, SystemExit):
                _log.exception("a listener failed on %s", event.name)
            else:
                if inspect.isawaitable(given_back):  # `lambda event: queue.put(event)`
                    return event, on_its_own(given_back)
            self._heard += 1
        return None


def _name_of(listener: Listener) -> str:
    return getattr(listener, "__qualname__", None) or type(listener).__qualname__


async def in_its_own_time(function: Callable[..., T | Awaitable[T]], *given: Any) -> T:
    """What the function gives; one that is not async runs in a thread of its own, which nobody waits for at the end."""

    async def answer() -> T:
        given_back = function(*given) if is_async(function) else await in_a_thread(function, *given)
        return await given_back if inspect.isawaitable(given_back) else given_back

    return await on_its_own(answer())


async def answer_of(function: Callable[..., T | Awaitable[T]], *given: Any) -> T:
    """What the function gives, called in the event loop and awaited where that is needed.

    Raises:
        EndedItself: see `on_its_own`.
        Exception: what it raised.
    """

    async def answer() -> T:
        given_back = function(*given)
        return await given_back if inspect.isawaitable(given_back) else given_back

    return await on_its_own(answer())


async def on_its_own(answer: Awaitable[T]) -> T:
    """What a function of the caller's gives. A cancellation of whoever waits for it stays one, and ends it.

    Raises:
        EndedItself: it ended in `sys.exit()`, or in a cancellation of its own: of a task that it waited for, say.
        Exception: whatever else it raised.
    """

    async def closed() -> T:
        try:
            return await answer
        except SystemExit as error:  # in a task it would end the event loop
            raise EndedItself(repr(error)) from error

    task = asyncio.ensure_future(closed())
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.wait({task}, timeout=_TO_CLEAN_UP)
        raise
    if task.cancelled():
        raise EndedItself("it was cancelled, and not by the run")
    return task.result()


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
            error = raised
            if isinstance(raised, StopIteration) or not isinstance(raised, Exception):  # a future takes neither
                error = RuntimeError(repr(raised))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(hand_over, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=work, name="toolkit-callback", daemon=True).start()
    return await answer
