"""The events of one run, on disk as they happen and readable from the start at any time.

Each event is one `write` to `events.jsonl`, so that what was shown is never lost,
however the process ends. Readers keep a place in the file instead of a list in
memory: a run of any length needs the same memory, and a slow reader slows nobody.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

from toolkit.runs.outcome.events import Event

_KEPT = 1024
"""The latest events, which a reader that keeps up gets without reading the file."""
_PIECES = ("text", "thinking")
_MOMENT = 0.004
"""Seconds that pieces of streamed text may wait for more, so that a write and a wake serve many."""


class EventLog:
    """An append-only list of events with any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._recent: deque[tuple[Event, int]] = deque(maxlen=_KEPT)
        self._count = 0
        self._size = os.fstat(self._fd).st_size
        self._closed = False
        self._waiting: list[tuple[Event, bytes]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._wake: set[asyncio.Event] = set()

    def append(self, event: Event) -> None:
        """Write one event and wake the readers.

        Raises:
            OSError: it could not be written; what was written before is whole.
        """
        self._waiting.append((event, event.to_json().encode() + b"\n"))
        if event.kind in _PIECES and not self._must_flush():
            return
        self._flush()

    def _must_flush(self) -> bool:
        """Let pieces of a stream wait for one another, a moment; nobody has been shown them yet."""
        if self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(_MOMENT, self._flush_pieces)
            except RuntimeError:  # no event loop runs: there is nothing to wait with
                return True
        return False

    def _flush_pieces(self) -> None:
        """Write the pieces that waited; where that fails they wait on, for the next event to say so."""
        pieces = self._waiting
        try:
            self._flush()
        except OSError:
            self._waiting = pieces + self._waiting

    def _flush(self) -> None:
        """Write what waits, whole, and show it to the readers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if not waiting or self._closed:
            return
        lines = b"".join(line for _, line in waiting)
        try:
            written = os.write(self._fd, lines)
            while written < len(lines):
                written += os.write(self._fd, lines[written:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        for event, line in waiting:
            self._size += len(line)
            self._recent.append((event, self._size))
        self._count += len(waiting)
        self._notify()

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self._closed

    def close(self) -> None:
        """No more events will come: readers end when they have read all."""
        if not self._closed:
            try:
                self._flush()
            finally:
                self._closed = True
                os.close(self._fd)
                self._notify()

    async def follow(self) -> AsyncIterator[Event]:
        """Every event from the first on, waiting for more until the log is closed."""
        async for batch in self.batches():
            for event in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The same, as many at a time as there are."""
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

    def _notify(self) -> None:
        for wake in self._wake:
            wake.set()
