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

from toolkit.runs.events import Event

_KEPT = 1024
"""The latest events, which a reader that keeps up gets without reading the file."""


class EventLog:
    """An append-only list of events with any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._recent: deque[tuple[Event, int]] = deque(maxlen=_KEPT)
        self._count = 0
        self._size = os.fstat(self._fd).st_size
        self._closed = False
        self._wake: set[asyncio.Event] = set()

    def append(self, event: Event) -> None:
        """Write one event and wake the readers.

        Raises:
            OSError: it could not be written; what was written before is whole.
        """
        line = event.to_json().encode() + b"\n"
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)
        self._recent.append((event, self._size))
        self._count += 1
        self._notify()

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self._closed

    def close(self) -> None:
        """No more events will come: readers end when they have read all."""
        if not self._closed:
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
