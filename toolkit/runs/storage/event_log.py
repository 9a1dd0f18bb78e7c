"""`events.jsonl`: the events of one run, on disk as they happen, and readable from the start at any time.

EventLog is the run's own side. What it shows to a reader was written before, so it is
never lost, however the process ends. Readers keep a place in the file instead of a list in
memory: a run of any length needs the same memory, and a slow reader slows nobody.

EventFile reads the file from any process, also while the run writes it, and also when
the run was killed. What comes last may be half a line: it was never shown to anyone, and
is left out. Anything else that cannot be read is an error that names the line.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import RunError
from toolkit.runs.outcome.events import PIECES, Event
from toolkit.runs.outcome.fold import Fold

if TYPE_CHECKING:
    import asyncio

_KEPT = 1024
"""The latest events, which a reader that keeps up gets without reading the file."""
_MOMENT = 0.004
"""Seconds that pieces of streamed text may wait for more, so that a write and a wake serve many."""
_MOST_LINES = 512
_POLL = 0.05
"""Seconds between two looks at a file that another process writes."""
_TURN = (b"finished", b"started")
_WARNING = b'{"stream":"lifecycle","kind":"warning"'


class EventLog:
    """An append-only list of events with any number of readers; `fold` takes in whatever is appended.

    Every event gets `trace`, where there is one.
    """

    def __init__(self, path: Path, fold: Fold | None = None, *, trace: str | None = None) -> None:
        self.path = path
        self._fold = fold
        self._trace = trace
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._recent: deque[tuple[Event, int]] = deque(maxlen=_KEPT)
        self._count = 0
        self._size = os.fstat(self._fd).st_size
        self._closed = False
        self._waiting: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._wake: set[asyncio.Event] = set()

    def append(self, *events: Event) -> None:
        """Write events, with whatever waits to be written, and wake the readers.

        Raises:
            OSError: they could not be written; what was written before is whole, and the fold has them all the same.
        """
        if self._trace is not None:
            events = tuple(dataclasses.replace(event, trace=self._trace) for event in events)
        # Nearly always a piece comes alone, and others wait already.
        if len(events) == 1 and events[0].kind in PIECES and (self._timer is not None or self._can_wait()):
            if self._fold is not None:
                self._fold.feed_piece(events[0])
            self._waiting += events
            return
        if self._fold is not None:
            self._fold.feed(events)
        waiting = [*self._waiting, *events]
        lines = [event.to_bytes() + b"\n" for event in waiting]
        self._waiting = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not waiting or self._closed:
            return
        text = b"".join(lines)
        try:
            written = os.write(self._fd, text)
            while written < len(text):
                written += os.write(self._fd, text[written:])
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            error.filename = os.fspath(self.path)
            raise
        ends = list(accumulate(map(len, lines), initial=self._size))
        self._size = ends[-1]
        self._recent.extend(zip(waiting, ends[1:], strict=True))
        self._count += len(waiting)
        for wake in self._wake:
            wake.set()

    def _can_wait(self) -> bool:
        """Let pieces of a stream wait for one another, a moment; nobody has been shown them yet."""
        if self._timer is None:
            import asyncio  # whoever only reads has no need of it

            try:
                self._timer = asyncio.get_running_loop().call_later(_MOMENT, self._write_pieces)
            except RuntimeError:  # no event loop runs: there is nothing to wait with
                return False
        return True

    def _write_pieces(self) -> None:
        """Write the pieces that waited; where that fails they wait on, for the next event to say so."""
        pieces = self._waiting
        try:
            self.append()
        except OSError:
            self._waiting = pieces + self._waiting

    @property
    def count(self) -> int:
        """How many events there are to read."""
        return self._count

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self._closed

    def close(self) -> None:
        """No more events will come: readers end when they have read all."""
        if not self._closed:
            try:
                self.append()
            finally:
                self._closed = True
                os.close(self._fd)
                for wake in self._wake:
                    wake.set()

    async def follow(self) -> AsyncIterator[Event]:
        """Every event from the first on, waiting for more until the log is closed."""
        async for batch in self.batches():
            for event in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The same, as many at a time as there are."""
        import asyncio

        wake = asyncio.Event()
        self._wake.add(wake)
        index = offset = 0
        try:
            while True:
                wake.clear()
                while index < self._count:
                    batch, offset = self._read(index, offset)
                    index += len(batch)
                    yield batch
                if self._closed:
                    return
                await wake.wait()
        finally:
            self._wake.discard(wake)

    def _read(self, index: int, offset: int) -> tuple[list[Event], int]:
        """Some events from `index` on, and where the next one starts in the file."""
        first = self._count - len(self._recent)
        if index >= first:
            recent = [self._recent[place] for place in range(index - first, len(self._recent))]
            return [event for event, _ in recent], recent[-1][1]
        with self.path.open("rb") as file:
            file.seek(offset)
            lines = [line for line in (file.readline() for _ in range(min(_KEPT, first - index))) if line]
        return [Event.from_json(line) for line in lines], offset + sum(map(len, lines))


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

    def __init__(self, path: Path, is_running: Callable[[], bool]) -> None:
        self._path = path
        self._is_running = is_running

    def __iter__(self) -> Iterator[Event]:
        for batch in self._batches():
            yield from batch
            if not batch:
                time.sleep(_POLL)

    async def __aiter__(self) -> AsyncIterator[Event]:
        import asyncio

        for batch in self._batches():
            for event in batch:
                yield event
            if not batch:
                await asyncio.sleep(_POLL)

    def _batches(self) -> Iterator[list[Event]]:
        """What is new, look by look; an empty batch where nothing is and the run goes on."""
        file = EventFile(self._path)
        while True:
            running = self._is_running()  # asked first: whatever the run wrote before its end is read below
            batch = file.read()
            if not batch and not running:
                return
            yield batch


def warnings_in(path: Path) -> list[str]:
    """The warnings in an event file, without reading it all."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            events = [_event(line) for line in _lines(text, _WARNING)]
    except (FileNotFoundError, ValueError):  # there is none, or it is empty
        return []
    return [str(event.data.get("what")) for event in events if event is not None]


def last_turn_has_finished(path: Path) -> bool:
    """Whether the last turn that began in an event file also came to its end, without reading it all."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            finished, started = (_last_line(text, b'{"stream":"lifecycle","kind":"%b"' % kind) for kind in _TURN)
    except (FileNotFoundError, ValueError):  # there is none, or it is empty
        return False
    return finished > started


def _last_line(text: mmap.mmap, start: bytes) -> int:
    """Where the last whole line that starts like this is. A string in an event never holds a raw line break."""
    found = text.rfind(b"\n" + start)
    if found < 0:
        found = 0 if text[: len(start)] == start else -1
    return found if text.find(b"\n", found + 1) >= 0 else -1


def _lines(text: mmap.mmap, start: bytes) -> Iterator[bytes]:
    """The whole lines that start like this."""
    at = text.find(start)
    while at >= 0:
        end = text.find(b"\n", at)
        if end >= 0 and (at == 0 or text[at - 1 : at] == b"\n"):
            yield text[at:end]
        at = text.find(start, at + 1)


def _event(line: bytes) -> Event | None:
    try:
        event = Event.from_json(line)
    except (ValueError, TypeError):
        return None
    return event if isinstance(event.data, dict) else None
