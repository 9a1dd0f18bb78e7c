"""What all views are: fed the events of a run one by one, they give what their vocabulary says about each.

`Texts` is what most of them need for it: what the model said in a turn, nothing twice, nothing lost.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from toolkit.errors import RunError
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

    Raises:
        RunError: `view` is no view, or `handle` is no function.
    """

    if not isinstance(view, View):
        fix = "Write for example: listener(cogni.Cogni(), function)"
        raise RunError(f"a listener needs a view, and {type(view).__name__}(…) is none", fix=fix)
    if not callable(handle):
        fix = "Write for example: listener(view, lambda said: print(said))"
        raise RunError(f"a listener hands things to a function, not to {type(handle).__name__}(…)", fix=fix)

    async def listen(event: Event) -> None:
        for item in view.feed(event):
            try:
                answer = handle(item)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                _log.exception("a handler failed on %s", event.name)

    listen.__qualname__ = type(view).__qualname__
    return listen


class Texts:
    """The texts of the main conversation in the turn under way, message by message.

    A message usually streams; one that was asked for again after a broken connection
    arrives whole. A message that broke off and was asked for again counts only in its
    second form. What subagents say is theirs and is not counted.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._messages: dict[str, list[str]] = {}
        self._streamed = ""
        self._broken: str | None = None

    def feed(self, event: Event) -> str:
        """Take an event; the text in it that was not seen before."""
        if event.name == "lifecycle.started":
            self._begin()
        if event.stream != "assistant" or event.parent is not None:
            return ""
        if event.kind == "started":
            self._messages.pop(self._broken or "", None)
            self._broken = None
        elif event.kind == "text":
            self._streamed = event.id
            return self._add(event)
        elif event.kind == "block" and event.data["type"] == "text":
            streamed, self._streamed = self._streamed, ""
            return "" if streamed == event.id else self._add(event)
        elif event.kind == "ended" and event.data["stop"] is None:
            self._broken = event.id
        return ""

    @property
    def messages(self) -> list[str]:
        """The text of every message that has any, in order."""
        return [text for parts in self._messages.values() if (text := "".join(parts))]

    def _add(self, event: Event) -> str:
        text = str(event.data["text"])
        self._messages.setdefault(event.id, []).append(text)
        return text
