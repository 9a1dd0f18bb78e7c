"""Read `events.jsonl`, also while another process writes it, and also when that one was killed.

What comes last may be half a line: it was never shown to anyone, and is left out.
Anything else that cannot be read is an error that names the line.
"""

from __future__ import annotations

import asyncio
import mmap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from toolkit.errors import RunError
from toolkit.runs.outcome.events import Event

_MOST_LINES = 512
_POLL = 0.05
"""Seconds between two looks at a file that another process writes."""


class EventFile:
    """A place in an event file: each `read` gives the events since the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._line = 0

    def read(self) -> list[Event]:
        """Some of the events that are there and were not read yet; none at the end.

        Raises:
            RunError: a line that is not the last cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines = [file.readline() for _ in range(_MOST_LINES)]
                is_end = not file.read(1)
        except FileNotFoundError:
            return []
        lines = [line for line in lines if line.endswith(b"\n")]
        events = []
        for line in lines:
            event = _event(line)
            if event is None:
                if is_end and line is lines[-1]:
                    break
                raise RunError(
                    "a stored event cannot be read",
                    where=[f"{self._path}:{self._line + 1}"],
                    fix="The file was changed or damaged after the run: remove that line, or the run",
                )
            events.append(event)
            self._offset += len(line)
            self._line += 1
        return events

    def __iter__(self) -> Iterator[Event]:
        while batch := self.read():
            yield from batch


class Following:
    """The events of a run, waiting for more as long as it lives: for `for` and for `async for`."""

    def __init__(self, path: Path, is_live: Callable[[], bool]) -> None:
        self._path = path
        self._is_live = is_live

    def __iter__(self) -> Iterator[Event]:
        for batch in self._batches():
            yield from batch
            if not batch:
                time.sleep(_POLL)

    async def __aiter__(self) -> AsyncIterator[Event]:
        for batch in self._batches():
            for event in batch:
                yield event
            if not batch:
                await asyncio.sleep(_POLL)

    def _batches(self) -> Iterator[list[Event]]:
        """What is new, look by look; an empty batch where nothing is and the run goes on."""
        file = EventFile(self._path)
        while True:
            live = self._is_live()  # asked first: whatever the run wrote before its end is read below
            batch = file.read()
            if not batch and not live:
                return
            yield batch


def last_turn_has_finished(path: Path) -> bool:
    """Whether the last turn that began in an event file also came to its end, without reading it all."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            finished, started = (_last_line(text, b'{"stream":"lifecycle","kind":"%b"' % kind) for kind in _TURN)
    except (FileNotFoundError, ValueError):  # there is none, or it is empty
        return False
    return finished > started


_TURN = (b"finished", b"started")


def _last_line(text: mmap.mmap, start: bytes) -> int:
    """Where the last whole line that starts like this is. A string in an event never holds a raw line break."""
    found = text.rfind(b"\n" + start)
    if found < 0:
        found = 0 if text[: len(start)] == start else -1
    return found if text.find(b"\n", found + 1) >= 0 else -1


def _event(line: bytes) -> Event | None:
    try:
        event = Event.from_json(line)
    except (ValueError, TypeError):
        return None
    return event if isinstance(event.data, dict) else None
