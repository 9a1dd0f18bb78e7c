"""The host side of the gate: connections to the one model API, kept warm between requests.

Where requests go is fixed when the gate is made; nothing in a request can change
host, port or path prefix. Answers are handed on piece by piece as they arrive.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.errors import SandboxError
from toolkit.sandbox.gate.http import (
    ProtocolError,
    ResponseHead,
    WatchedReader,
    body_pieces,
    parse_response_head,
    response_framing,
)

CONNECT_SECONDS = 20.0
ANSWER_SECONDS = 900.0
"""Longest silence of the API before or within an answer."""
KEPT_IDLE = 32
IDLE_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class BaseURL:
    """Where the model API lives."""

    host: str
    port: int
    prefix: str
    is_tls: bool

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> BaseURL:
        """Read a base URL such as https://api.anthropic.com, or raise a SandboxError."""
        example = "Give the base URL of the model API, for example: https://api.anthropic.com"
        try:
            parts = urlsplit(text)
            port = parts.port
        except (ValueError, AttributeError, TypeError):
            raise SandboxError(f"the API base URL {text!r} is no URL", fix=example) from None
        is_clean = text.isascii() and text.isprintable() and " " not in text
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_clean or port == 0:
            raise SandboxError(f"the API base URL {text!r} is no http(s) URL", fix=example)
        if parts.username is not None or parts.password is not None:
            raise SandboxError("the API base URL contains a credential", fix="Pass the key as api_key instead")
        if parts.query or parts.fragment:
            raise SandboxError(f"the API base URL {text!r} has a query or fragment", fix=example)
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if is_tls else 80), parts.path.rstrip("/"), is_tls)


@dataclass(slots=True)
class _Connection:
    reader: WatchedReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0

    def is_reusable(self, now: float) -> bool:
        # What a server says unasked (408, then close) must not be taken for the next answer.
        is_quiet = not (self.reader.has_gone or self.reader.has_unread or self.writer.is_closing())
        return is_quiet and now - self.idle_since < IDLE_SECONDS


class Answer:
    """One answer under way: its head now, its body as it arrives, then `close()`."""

    def __init__(self, upstream: Upstream, connection: _Connection, head: ResponseHead) -> None:
        self.head = head
        self._upstream = upstream
        self._connection = connection
        self._framing = response_framing(head)
        self._is_complete = False

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in body_pieces(self._connection.reader, self._framing, timeout=ANSWER_SECONDS):
            yield piece
        self._is_complete = self._framing.is_chunked or self._framing.length is not None

    def close(self) -> None:
        """Keep the connection if the answer was read to its end, else drop it (the API then stops generating)."""
        if self._is_complete and not self.head.is_last:
            self._upstream.keep(self._connection)
        else:
            self._connection.writer.transport.abort()


class Upstream:
    """Sends requests to one base URL."""

    def __init__(self, base: BaseURL, *, ca_file: Path | None = None) -> None:
        self.base = base
        self._ssl = _ssl_context(ca_file) if base.is_tls else None
        self._idle: list[_Connection] = []

    async def send(self, target: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """POST a request and return when the answer's head is here.

        A kept connection that the API closed meanwhile is replaced once.

        Raises:
            OSError, ProtocolError: the API could not be reached or did not speak HTTP.
        """
        lines = [f"POST {self.base.prefix}{target} HTTP/1.1", f"host: {self.base.authority}"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"content-length: {len(body)}", "", ""]
        raw = "\r\n".join(lines).encode("latin-1") + body
        if (kept := self._take()) is not None:
            try:
                return await self._exchange(kept, raw)
            except _StaleError:
                pass
        try:
            return await self._exchange(await self._connect(), raw)
        except _StaleError:
            raise ProtocolError("the API closed the connection without an answer") from None

    def keep(self, connection: _Connection) -> None:
        """Take a connection back for the next request."""
        if len(self._idle) >= KEPT_IDLE:
            connection.writer.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    def close(self) -> None:
        """Drop all kept connections."""
        while self._idle:
            self._idle.pop().writer.close()

    def _take(self) -> _Connection | None:
        now = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable(now):
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

    async def _exchange(self, connection: _Connection, raw: bytes) -> Answer:
        try:
            connection.writer.write(raw)
            head = await _read_response_head(connection)
            return Answer(self, connection, head)
        except BaseException:
            connection.writer.transport.abort()
            raise


class _StaleError(Exception):
    """The connection ended before the first byte of an answer."""


async def _read_response_head(connection: _Connection) -> ResponseHead:
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            try:
                raw = await connection.reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                raise ProtocolError("the answer's head is too large") from None
            except (asyncio.IncompleteReadError, ConnectionError) as gone:
                if getattr(gone, "partial", b""):
                    raise ProtocolError("the answer's head is cut off") from None
                raise _StaleError from None
            head = parse_response_head(raw)
            if head.status >= 200:
                return head


def _ssl_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as wrong:
        raise SandboxError(
            f"the certificate file {str(ca_file)!r} cannot be used",
            where=[str(wrong)],
            fix="Give a PEM file with the authority that signed the API's certificate",
        ) from None
