"""What all views are: fed the events of a run one by one, they give what their vocabulary says about each."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from toolkit.runs.outcome.events import Event

T = TypeVar("T")
_log = logging.getLogger("toolkit.runs")


class View(Generic[T]):
    """The words of one vocabulary for the events of one run."""

    def feed(self, event: Event) -> list[T]:
        """What the vocabulary says about this event, in order; often nothing."""
        return list(self._say(event))

    def _say(self, event: Event) -> Iterator[T]:
        raise NotImplementedError


def said(view: View[T], events: Iterable[Event]) -> list[T]:
    """Everything a view says about a list of events."""
    return [item for event in events for item in view.feed(event)]


def listener(view: View[T], handle: Callable[[T], Awaitable[None] | None]) -> Callable[[Event], Awaitable[None]]:
    """A listener for `live.bus.subscribe` that hands everything the view says to `handle`, in order.

    `handle` may be sync or async and runs in the event loop; what it raises is
    logged, and it gets the next one all the same.
    """

    async def listen(event: Event) -> None:
        for item in view.feed(event):
            try:
                answer = handle(item)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                _log.exception("a handler failed on %s", event.name)

    return listen
