"""Call a user's function without waiting for it in the event loop: neither the run nor its end depends on it.

The threads are not those of `asyncio.to_thread`: those are few, the run needs them
itself, and the loop waits for each of them when it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


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

    def settle(result: Any, error: BaseException | None) -> None:
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
            loop.call_soon_threadsafe(settle, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=work, name="toolkit-callback", daemon=True).start()
    return await answer
