"""Two file descriptors as messages in and lines out.

Everything happens on the event loop: no thread hop for a message in or out. A
client that stops reading costs bounded memory: past `HIGH_WATER` unsent bytes
senders wait and no further message is taken in; running tools go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self

from toolkit_servers.protocol.wire import Frame, RequestId, parse_line, too_long

if TYPE_CHECKING:
    from toolkit_servers.stdio._outlet import Outlet

CHUNK = 256 * 1024
HIGH_WATER = 1024 * 1024
"""Unsent bytes from which on senders wait."""
LONGEST_LINE = 64 * 1024 * 1024
"""A longer message is refused: the client gets an error and the rest of the line is skipped."""
GRACE = 0.3
"""Seconds that running calls have to answer after the client has closed its side."""


class LineWriter:
    """Messages out, one a line, in the order they were sent."""

    def __init__(self, outlet: Outlet) -> None:
        self._loop = asyncio.get_running_loop()
        self._outlet = outlet
        self._fd = outlet.fd
        self._queue: deque[memoryview] = deque()
        self._waiting: set[asyncio.Future[None]] = set()
        self.pending = 0
        """Bytes accepted and not yet taken by the client."""
        self.broken = False
        """The client will read nothing more."""
        self.unanswered: set[RequestId] = set()
        """Requests the client still waits for."""
        self.on_broken: Callable[[], None] = lambda: None

    def answer(self, request_id: RequestId, line: bytes) -> None:
        """Send the answer to a request."""
        self.write(line)
        self.unanswered.discard(request_id)
        if not self.unanswered:
            self._wake()

    def write(self, data: bytes) -> None:
        """Send now what the client takes now, and queue the rest; await `drained` before making more."""
        if self.broken:
            return
        if self._queue:
            self._queue.append(memoryview(data))
            self.pending += len(data)
            return
        sent = self._put(data)
        if sent < len(data) and not self.broken:
            self._queue.append(memoryview(data)[sent:])
            self.pending += len(data) - sent
            self._loop.add_writer(self._fd, self._flush)

    @property
    def is_full(self) -> bool:
        """Whether the client has let too much pile up."""
        return self.pending > HIGH_WATER

    async def drained(self) -> None:
        """Wait until the client has taken enough, or will take nothing more."""
        await self._wait_while(lambda: self.is_full)

    async def flushed(self, seconds: float) -> None:
        """Wait until every request is answered and every byte taken, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_while(lambda: self.pending > 0 or bool(self.unanswered))

    def give_up(self) -> None:
        """Write nothing more: the client is gone, or has stopped reading for good."""
        self.broken = True
        self._queue.clear()
        self.pending = 0
        with contextlib.suppress(OSError, ValueError):
            self._loop.remove_writer(self._fd)
        self._wake()
        self.on_broken()

    async def _wait_while(self, condition: Callable[[], bool]) -> None:
        while condition() and not self.broken:
            turn = self._loop.create_future()
            self._waiting.add(turn)
            try:
                await turn
            finally:
                self._waiting.discard(turn)

    def _flush(self) -> None:
        while self._queue:
            head = self._queue[0]
            sent = self._put(head)
            if self.broken:
                return
            self.pending -= sent
            if sent < len(head):
                self._queue[0] = head[sent:]
                break
            self._queue.popleft()
        if not self._queue:
            self._loop.remove_writer(self._fd)
        if not self.is_full:
            self._wake()

    def _put(self, data: bytes | memoryview) -> int:
        try:
            return self._outlet.put(data)
        except OSError:
            self.give_up()
            return 0

    def _wake(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)


class LineReader:
    """Messages in, `unread` first. Ends at end of file, or when `stop` is called."""

    def __init__(
        self, fd: int, writer: LineWriter, unread: bytearray | None = None, *, has_ended: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._writer = writer
        self._buffer = unread or bytearray()
        self._scanned = 0
        self._skipping = False
        self._at_end = has_ended
        self._waiter: asyncio.Future[None] | None = None
        self._watched = False
        self.on_end: Callable[[], None] = lambda: None
        """Called when the client has closed its side, before the grace for running calls."""
        self.before_end: Callable[[], Awaitable[None]] | None = None
        """Awaited before that: what was sent is still to be taken up."""
        writer.on_broken = self._wake

    def stop(self) -> None:
        """End the stream as if the client had closed its side."""
        self._at_end = True
        self._buffer.clear()
        self._unwatch()
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Frame:
        while True:
            if self._writer.is_full:
                await self._writer.drained()
            line = self._take_line()
            if line is not None:
                item = parse_line(line) if line and not line.isspace() else b""
                if isinstance(item, Frame):
                    self._count(item)
                    return item
                if item:
                    self._writer.write(item)
            elif self._at_end or self._writer.broken:
                # What still runs is cancelled when the messages end.
                if self.before_end is not None and not self._writer.broken:
                    await self.before_end()
                self.on_end()
                await self._writer.flushed(GRACE)
                raise StopAsyncIteration
            else:
                await self._fill()

    def _count(self, frame: Frame) -> None:
        """Keep account of the requests the client waits for."""
        if frame.request_id is not None and frame.method is not None:
            self._writer.unanswered.add(frame.request_id)
        elif frame.method == "notifications/cancelled":
            given = (frame.params or {}).get("requestId")
            if isinstance(given, int | str):
                self._writer.unanswered.discard(given)

    def close(self) -> None:
        """Read nothing more."""
        self._unwatch()

    def _take_line(self) -> bytearray | None:
        """The next complete line, or the unfinished one at end of file."""
        buffer = self._buffer
        end = buffer.find(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(buffer)
            if not self._at_end or not buffer:
                if len(buffer) > LONGEST_LINE:
                    self._skip_line()
                return None
            end = len(buffer)
        line = buffer[:end]
        del buffer[: end + 1]
        self._scanned = 0
        if self._skipping:
            self._skipping = False
            return bytearray()
        return line

    def _skip_line(self) -> None:
        if not self._skipping:
            self._writer.write(too_long(LONGEST_LINE))
        self._skipping = True
        self._buffer.clear()
        self._scanned = 0

    async def _fill(self) -> None:
        """Wait for more bytes, or for the end."""
        if not self._watched:
            try:
                self._loop.add_reader(self._fd, self._on_readable)
            except PermissionError:
                # A regular file or /dev/null: epoll refuses it, and reading it never blocks.
                self._on_readable()
                await asyncio.sleep(0)
                return
            self._watched = True
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _on_readable(self) -> None:
        # Called only when there is something to read, so the read does not block although the
        # descriptor is in blocking mode (which other processes may share and rely on).
        try:
            data = os.read(self._fd, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._buffer += data
        else:
            self._at_end = True
            self._unwatch()
        if len(self._buffer) > HIGH_WATER and self._waiter is None:
            self._unwatch()
        self._wake()

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._fd)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
