"""The host side of the gate: connections to the one model API, kept warm between requests.

Where requests go is fixed when the gate is made; nothing in a request can change
host, port or path prefix. Answers are read by h11 and handed on piece by piece
as they arrive.

Connections are kept here and not by httpcore2: its pool takes 0.55 ms for a request
that takes 0.29 ms here, and it does not say whether a connection that ended without
an answer was a kept one. Only then may a request be sent again: it costs money.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import h11

from toolkit.sandbox.gate.http import MAX_HEAD_BYTES, PIECE, Headers, ProtocolError, WatchedReader
from toolkit.sandbox.host import BaseURL, trusting

_Event = Any  # h11 has no common type for what next_event returns
CONNECT_SECONDS = 20.0
ANSWER_SECONDS = 900.0
"""Longest silence of the API before or within an answer."""
KEPT_IDLE = 32
IDLE_SECONDS = 45.0


class Answer:
    """One answer under way: its head now, its body as it arrives, then `close()`."""

    def __init__(self, upstream: Upstream, connection: _Connection, head: h11.Response) -> None:
        self.status = head.status_code
        self.headers = Headers.of(head.headers)
        self._upstream = upstream
        self._connection = connection

    async def pieces(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._connection.event(), h11.Data):
            yield bytes(event.data)

    def close(self) -> None:
        """Keep the connection if the answer was read to its end, else drop it (the API then stops generating)."""
        if self._connection.is_between_requests:
            self._upstream.keep(self._connection)
        else:
            self._connection.writer.transport.abort()


class Upstream:
    """Sends requests to one base URL."""

    def __init__(self, base: BaseURL, *, ca_file: Path | None = None) -> None:
        self.base = base
        signed = "the API's certificate"
        self._ssl = trusting(None if ca_file is None else str(ca_file), signed) if base.is_tls else None
        self._idle: list[_Connection] = []

    async def send(
        self, target: str, headers: Sequence[tuple[str, str]], body: bytes, *, on_leaving: Callable[[], None]
    ) -> Answer:
        """POST a request and return when the answer's head is here.

        `on_leaving` is called when the API can be reached and the first byte is about to be sent. A kept connection
        that the API closed meanwhile is replaced once.

        Raises:
            OSError, ProtocolError: the API could not be reached or did not speak HTTP.
        """
        framing = [("host", self.base.authority), ("content-length", str(len(body)))]
        request = h11.Request(method="POST", target=f"{self.base.prefix}{target}", headers=[*framing, *headers])
        if (kept := self._take()) is not None:
            with contextlib.suppress(_StaleError):
                on_leaving()
                return await self._exchange(kept, request, body)
        try:
            connection = await self._connect()
            on_leaving()
            return await self._exchange(connection, request, body)
        except _StaleError:
            raise ProtocolError("the API closed the connection without an answer") from None

    def keep(self, connection: _Connection) -> None:
        """Take a connection back for the next request."""
        if len(self._idle) >= KEPT_IDLE:
            connection.writer.close()
            return
        connection.http.start_next_cycle()
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    def close(self) -> None:
        """Drop all kept connections."""
        while self._idle:
            self._idle.pop().writer.close()

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet and time.monotonic() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.writer.close()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        reader = WatchedReader(loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        async with asyncio.timeout(CONNECT_SECONDS):
            transport, _ = await loop.create_connection(
                lambda: protocol, self.base.host, self.base.port, ssl=self._ssl, happy_eyeballs_delay=0.25
            )
        return _Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def _exchange(self, connection: _Connection, request: h11.Request, body: bytes) -> Answer:
        try:
            connection.send(request, body)
            return Answer(self, connection, await connection.head())
        except BaseException:
            connection.writer.transport.abort()
            raise


class _Connection:
    """One connection to the API, and where its conversation stands."""

    def __init__(self, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.idle_since = 0.0
        self._has_heard = False

    @property
    def is_between_requests(self) -> bool:
        """Whether the last answer was read to its end and another request may follow."""
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    @property
    def is_quiet(self) -> bool:
        """Whether the API has said nothing unasked: that (408, then close) must not be taken for the next answer."""
        has_said = self.http.trailing_data[0] or self.reader.has_unread
        return not (has_said or self.reader.has_gone or self.writer.is_closing())

    def send(self, request: h11.Request, body: bytes) -> None:
        self._has_heard = False
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            self.writer.write(self.http.send(event) or b"")

    async def head(self) -> h11.Response:
        """The answer's head; what comes before it (100 Continue) is skipped."""
        while isinstance(event := await self.event(), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise ProtocolError("an answer without a head")
        names = {name for name, _ in event.headers}
        # h11 would take the chunks and forget the length; two answers to one question are none.
        if {b"content-length", b"transfer-encoding"} <= names:
            raise ProtocolError("an ambiguous body length")
        return event

    async def event(self) -> _Event:
        """The next part of the answer, waiting for more bytes only if it is not here yet."""
        try:
            while (event := self.http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(ANSWER_SECONDS):
                    data = await self.reader.read(PIECE)
                if not data and not self._has_heard:
                    raise _StaleError
                self._has_heard = True
                self.http.receive_data(data)
        except h11.RemoteProtocolError as wrong:
            raise ProtocolError(str(wrong)) from None
        except ConnectionError:
            if not self._has_heard:
                raise _StaleError from None
            raise
        return event


class _StaleError(Exception):
    """The connection ended before the first byte of an answer."""
