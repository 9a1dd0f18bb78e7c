"""Read requests from the jail strictly, because the other side may be an agent that probes for a gap.

A message that two parsers could read in two ways (a repeated length, a length
beside chunks, a folded or oddly spelt header) is refused rather than repaired.
Every read is bounded in bytes; the callers bound it in time.

Written by hand, because h11 repairs what has to be refused here: it joins folded
lines, takes a bare newline for a line's end and the chunks where a length stands
beside them. tests/sandbox/test_gate_fuzz.py names every such difference.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
MAX_TRAILER_BYTES = 8 * 1024
PIECE = 256 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"[\x21-\x7e]{1,4096}")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_LENGTH = re.compile(r"[0-9]{1,12}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[\t ]*;[\t\x20-\x7e]*)?")
_SOCKS = (b"\x04", b"\x05")
"""What a client of a SOCKS proxy says first: the version."""


class Refused(Exception):
    """A request the gate answers itself: a status, a short code for the audit, a sentence for the agent."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class ProtocolError(Exception):
    """Bytes that are not HTTP/1.1: a body from the jail that breaks its framing, or an answer of the API."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Names in lower case with their values, in order."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Headers as h11 gives them."""
        return cls(tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in pairs))

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def get(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The first part of a request: what is asked, before any body."""

    method: str
    target: str
    headers: Headers


class WatchedReader(asyncio.StreamReader):
    """A stream reader that knows when the other side has gone, and whether it has said more than was read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=MAX_HEAD_BYTES, loop=loop)
        self.has_gone = False
        self._watcher: asyncio.Task[None] | None = None

    def cancel_when_gone(self, task: asyncio.Task[None] | None) -> None:
        """Cancel `task` when the peer closes (at once if it has); None stops watching."""
        self._watcher = task
        if task is not None and self.has_gone:
            task.cancel()

    @property
    def has_unread(self) -> bool:
        """Whether bytes have come that nobody has read yet."""
        return bool(self._buffer)  # type: ignore[attr-defined]  # there is no public way to ask

    def feed_eof(self) -> None:
        super().feed_eof()
        self._peer_gone()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._peer_gone()

    def _peer_gone(self) -> None:
        self.has_gone = True
        if self._watcher is not None:
            self._watcher.cancel()


async def read_head(reader: asyncio.StreamReader, *, idle: float, whole: float) -> RequestHead | None:
    """The next request's head, or None when the client has nothing more to say.

    `idle` bounds the wait for the first byte, `whole` the time from there to the blank line.
    """
    try:
        async with asyncio.timeout(idle):
            first = await reader.read(1)
        if not first:
            return None
        if first in _SOCKS:  # it says no more before it is answered
            raise Refused(400, "socks", "the gate is a proxy for HTTP, not for SOCKS")
        async with asyncio.timeout(whole):
            rest = await reader.readuntil(b"\r\n\r\n")
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        raise Refused(431, "head_size", f"the request head is larger than {MAX_HEAD_BYTES} bytes") from None
    return parse_request_head(first + rest)


def parse_request_head(raw: bytes) -> RequestHead:
    """Parse a request line and headers; anything unusual is a Refused.

    HTTP/1.0, which needs no Host header, is taken for CONNECT alone: pip, urllib and socat ask for a tunnel that way.
    """
    lines = _lines(raw)
    parts = lines[0].split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
        raise _malformed("the request line is not 'METHOD target HTTP/1.1'")
    method, target, version = parts
    is_old = method == "CONNECT" and version == "HTTP/1.0"
    if version != "HTTP/1.1" and not is_old:
        raise Refused(505, "version", "the gate speaks HTTP/1.1 only")
    headers = _headers(lines[1:])
    if len(headers.all("host")) != 1 and not (is_old and not headers.all("host")):
        raise _malformed("a request carries exactly one Host header")
    if method == "CONNECT" and (headers.all("content-length") or headers.all("transfer-encoding")):
        raise _malformed("a CONNECT has no body")
    return RequestHead(method, target, headers)


def _headers(lines: list[str]) -> Headers:
    if len(lines) > MAX_HEADERS:
        raise Refused(431, "head_size", f"more than {MAX_HEADERS} header lines")
    pairs = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _malformed("a header line is not 'name: value' in plain ASCII")
        pairs.append((name.lower(), value.strip(" \t")))
    return Headers(tuple(pairs))


def body_length(headers: Headers) -> int | None:
    """How many bytes a request's body has, None for chunks; two answers to that question are a smuggling attempt."""
    lengths, encodings = headers.all("content-length"), headers.all("transfer-encoding")
    if lengths and encodings:
        raise _malformed("a request has Content-Length or Transfer-Encoding, not both")
    if len(lengths) > 1 or len(encodings) > 1:
        raise _malformed("a request says once how long its body is")
    if encodings:
        if encodings[0].lower() != "chunked":
            raise _malformed("the only transfer encoding is 'chunked'")
        return None
    if not lengths:
        raise Refused(411, "length", "a request says how long its body is")
    if not _LENGTH.fullmatch(lengths[0]):
        raise _malformed("Content-Length is not a number")
    return int(lengths[0])


async def body_pieces(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """The body as it arrives: `length` bytes of it, or chunks."""
    if length is not None:
        async for piece in _counted(reader, length):
            yield piece
        return
    while size := await _chunk_size(reader):
        async for piece in _counted(reader, size):
            yield piece
        if await _line(reader):
            raise ProtocolError("a chunk is longer than it says")
    await _skip_trailers(reader)


async def _counted(reader: asyncio.StreamReader, count: int) -> AsyncIterator[bytes]:
    while count:
        piece = await reader.read(min(PIECE, count))
        if not piece:
            raise ProtocolError("the body ended early")
        count -= len(piece)
        yield piece


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    match = _CHUNK_SIZE.fullmatch(await _line(reader))
    if match is None:
        raise ProtocolError("a chunk has no size")
    return int(match[1], 16)


async def _skip_trailers(reader: asyncio.StreamReader) -> None:
    seen = 0
    while line := await _line(reader):
        seen += len(line)
        if seen > MAX_TRAILER_BYTES:
            raise ProtocolError("endless trailers")


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\r\n"))[:-2]
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
        raise ProtocolError("a line without an end") from None


def _lines(raw: bytes) -> list[str]:
    text = raw[:-4].decode("latin-1")
    lines = text.split("\r\n")
    if any("\r" in line or "\n" in line or "\0" in line for line in lines) or "" in lines:
        raise _malformed("a line of the head ends oddly")
    return lines


def _malformed(message: str) -> Refused:
    return Refused(400, "malformed", message)
