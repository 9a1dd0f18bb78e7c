"""One connection from the jail: its requests in turn, each passed on or refused.

An end of the client's stream is taken as a hang-up: the request under way is
dropped, and with it the connection to the API, so an interrupted agent stops
costing.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from toolkit.sandbox.gate import tunnel
from toolkit.sandbox.gate.http import (
    PIECE,
    ProtocolError,
    Refused,
    RequestHead,
    WatchedReader,
    body_length,
    body_pieces,
    read_head,
)
from toolkit.sandbox.gate.pacing import Bookkeeper, Pace, send_paced
from toolkit.sandbox.gate.policy import (
    MESSAGES,
    Asked,
    asked_to_wait,
    check_offline_body,
    check_route,
    forwarded_request_headers,
    forwarded_response_headers,
    read_asked,
)
from toolkit.sandbox.gate.refusals import GATE_SAYS
from toolkit.sandbox.gate.secrets import Remover, Secrets
from toolkit.sandbox.gate.tunnel import TLS
from toolkit.sandbox.gate.upstream import Answer, Upstream
from toolkit.sandbox.gate.usage import Booking, Ledger, Meter, ModelCall, SpentError, estimate_call
from toolkit.sandbox.host import merged_headers
from toolkit.sandbox.relay import Ends, Heard, join_http

IDLE_SECONDS = 300.0
HEAD_SECONDS = 20.0
BODY_SECONDS = 60.0
WRITE_SECONDS = 300.0
LINGER_SECONDS = 2.0
_ERROR_TYPES = {400: "invalid_request_error", 413: "request_too_large", 429: "rate_limit_error", 502: "api_error"}
_TLS = b"\x16"
"""What a TLS connection begins with."""
_LARGE_BODY = 1024 * 1024
_BODIES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class HostPorts:
    """Ports of the host's loopback that may be reached by whoever knows the word."""

    ports: tuple[int, ...] = ()
    word: str = field(default="", repr=False)
    heard: Heard | None = None
    """Asked about each message of such a server before the client reads it, with the server's address."""
    tls: Mapping[int, TLS] = field(default_factory=dict)
    """The ports where TLS is spoken with the server; with the client it is plain HTTP."""

    def allowed(self, head: RequestHead) -> int | None:
        """The port a CONNECT may have; None for one that is about something else, or says nothing of the word."""
        said = head.headers.get("proxy-authorization") or ""
        wanted = f"Basic {base64.b64encode(self.word.encode()).decode()}"
        if not self.word or not hmac.compare_digest(said, wanted):
            return None
        return next((port for port in self.ports if head.target == f"127.0.0.1:{port}"), None)


@dataclass(slots=True)
class Traffic:
    """What all connections of one gate share."""

    upstream: Upstream | None
    """The model API; None for those who are led to domains only."""
    ledger: Ledger
    credentials: Mapping[str, str]
    secrets: Secrets
    domains: Sequence[str]
    ports: HostPorts
    is_offline: bool
    max_body: int
    refuse: Callable[[RequestHead | None, Refused], None]
    pace: Pace | None = None
    """Who says when a model call leaves; None where each leaves at once."""
    books: Bookkeeper | None = None
    """Who is told of each model call before it leaves and when it has ended."""
    calls: int = 0
    """The model calls until now."""
    word: str | None = field(default=None, repr=False)
    """What clients have to send as a key; None where all may ask."""
    held_bytes: int = 0
    """Bytes of request bodies in memory now."""
    retry_after: float | None = None
    """Seconds that the model API asked to wait when it refused last; None since it answered, or did not say."""
    parsing_large: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Large bodies are parsed one at a time, because that takes many times their size."""

    def hold(self, count: int) -> None:
        """Account for body bytes before they are kept; too many at once are refused."""
        if self.held_bytes + count > self.max_body * _BODIES_AT_ONCE:
            raise Refused(503, "busy", "too many large requests at once")
        self.held_bytes += count


class Client:
    """Serves one connection until either side ends it."""

    def __init__(self, traffic: Traffic, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self._traffic = traffic
        self._reader = reader
        self._writer = writer
        self._has_answered = False

    async def serve(self) -> None:
        """Answer requests one after the other; never raises but for cancellation."""
        try:
            while await self._serve_one():
                pass
        except (OSError, TimeoutError, ProtocolError):
            pass
        except asyncio.CancelledError:
            self._writer.transport.abort()  # nobody reads what is left to send
            raise
        finally:
            self._reader.cancel_when_gone(None)
            self._writer.close()

    async def _serve_one(self) -> bool:
        """Serve one request; whether another may follow."""
        head: RequestHead | None = None
        self._has_answered = False
        try:
            head = await read_head(self._reader, idle=IDLE_SECONDS, whole=HEAD_SECONDS)
            if head is None:
                return False
            if head.method == "CONNECT":
                await self._tunnel(head)
                return False
            await self._message(head)
        except Refused as refused:
            self._traffic.refuse(head, refused)
            if not self._has_answered:
                await self._answer_refusal(refused)
            return False
        return (head.headers.get("connection") or "").lower() != "close"

    async def _message(self, head: RequestHead) -> None:
        if self._traffic.upstream is None:
            if head.target.startswith("/"):
                raise Refused(403, "no_api", "the model API is not reached from here")
            why = "other hosts are reached over https only" if self._traffic.domains else "the agent is offline"
            raise Refused(403, "method", f"{head.method[:20]} is not allowed: {why}")
        path = check_route(head)
        word = self._traffic.word
        if word is not None and not hmac.compare_digest((head.headers.get("x-api-key") or "").encode(), word.encode()):
            raise Refused(401, "word", "whoever asks here has to know the word of the batch")
        body = await self._read_body(head)
        try:
            asked = await self._asked(body)
            # From here on an end of the client's stream ends the request too.
            self._reader.cancel_when_gone(asyncio.current_task())
            # Booked last, so that requests kept half sent cannot slip through together afterwards.
            booking = await self._book(path, len(body), asked)
            try:
                if self._reader.has_gone:
                    raise ConnectionResetError
                await self._booked(head, path, body, booking)
            finally:
                self._traffic.ledger.settle(booking)
        finally:
            self._reader.cancel_when_gone(None)
            self._traffic.held_bytes -= len(body)

    async def _read_body(self, head: RequestHead) -> bytes:
        traffic = self._traffic
        length = body_length(head.headers)
        too_large = Refused(413, "size", f"the body is larger than {traffic.max_body} bytes")
        if (length or 0) > traffic.max_body:
            raise too_large
        if head.headers.get("expect") is not None:
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in body_pieces(self._reader, length):
                    traffic.hold(len(piece))
                    body += piece
                    if len(body) > traffic.max_body:
                        raise too_large
        except BaseException as wrong:
            traffic.held_bytes -= len(body)
            if isinstance(wrong, ProtocolError):
                if self._reader.has_gone:
                    raise ConnectionResetError from None
                raise Refused(400, "malformed", str(wrong)) from None
            if isinstance(wrong, TimeoutError):
                raise Refused(408, "slow", "the body did not arrive in time") from None
            raise
        return bytes(body)

    async def _asked(self, body: bytes) -> Asked:
        """What the request asks for, once it is known to be allowed."""
        if not self._traffic.is_offline and not self._traffic.ledger.has_limit:
            return Asked()
        read = check_offline_body if self._traffic.is_offline else read_asked
        if len(body) <= _LARGE_BODY:
            return read(body)
        # A large body takes long to parse: keep the host's loop free meanwhile.
        async with self._traffic.parsing_large:
            return await asyncio.to_thread(read, body)

    async def _book(self, path: str, size: int, asked: Asked) -> Booking:
        ledger = self._traffic.ledger
        estimate = estimate_call(asked.model, size, asked.inline_bytes, asked.inline_count, asked.max_tokens)
        try:
            if path == MESSAGES:
                return await ledger.book(estimate)
            ledger.judge()
            return Booking(ModelCall())  # counting tokens is free
        except SpentError as spent:
            raise Refused(429, "spend", str(spent)) from None
        except TimeoutError:
            raise Refused(503, "busy", "calls under way may use up what is left of the limit") from None

    async def _booked(self, head: RequestHead, path: str, body: bytes, booking: Booking) -> None:
        """Forward a request; who keeps the books is told before and after, if it is a model call."""
        traffic = self._traffic
        if traffic.books is None or path != MESSAGES:
            await self._forward(head, path, body, booking)
            return
        traffic.calls += 1
        number = traffic.calls
        await traffic.books.leaves(number, booking.expected().tokens)
        try:
            await self._forward(head, path, body, booking)
        finally:
            call = booking.came_to()
            traffic.books.ended(number, None if call is None else call.tokens)

    async def _forward(self, head: RequestHead, path: str, body: bytes, booking: Booking) -> None:
        traffic = self._traffic
        assert traffic.upstream is not None, "such a request was refused before"
        upstream = traffic.upstream
        headers = merged_headers(forwarded_request_headers(head.headers), traffic.credentials)
        # Uncompressed, so that the usage in the answer can be read.
        headers |= {"content-type": "application/json", "accept-encoding": "identity"}
        on_leaving = booking.leave if path == MESSAGES else lambda: None

        async def send() -> Answer:
            traffic.ledger.requests += 1
            return await upstream.send(head.target, list(headers.items()), body, on_leaving=on_leaving)

        try:
            pace = traffic.pace if path == MESSAGES else None
            answer = await (send() if pace is None else send_paced(pace, send, booking.stay))
        except (OSError, TimeoutError, ProtocolError):
            raise Refused(502, "upstream", "the model API cannot be reached from the host") from None
        try:
            booking.is_free = booking.is_free or answer.status != 200
            traffic.retry_after = None if answer.status == 200 else asked_to_wait(answer.headers)
            await self._relay(answer, booking)
        finally:
            answer.close()

    async def _relay(self, answer: Answer, booking: Booking) -> None:
        traffic, headers = self._traffic, answer.headers
        if (headers.get("content-encoding") or "identity").lower() != "identity":
            raise Refused(502, "upstream", "the model API answered compressed, so its usage cannot be read")
        meter = Meter(is_stream=(headers.get("content-type") or "").startswith("text/event-stream"))
        booking.meter = None if booking.is_free else meter
        known = forwarded_response_headers(headers)
        clean = [(name, traffic.secrets.clean(value)) for name, value in known if traffic.secrets.clean(name) == name]
        self._write_head(answer.status, clean, [("transfer-encoding", "chunked")])
        remover = Remover(traffic.secrets)
        async for piece in answer.pieces():
            if not booking.is_free:
                meter.feed(piece)
                if (why := traffic.ledger.why_cut_off()) is not None:
                    raise Refused(429, "spend", f"cut off: {why}")
            await self._write_chunk(remover.feed(piece))
        meter.finish()
        await self._write_chunk(remover.finish())
        await self._write(b"0\r\n\r\n")

    async def _tunnel(self, head: RequestHead) -> None:
        if (port := self._traffic.ports.allowed(head)) is not None:
            server = await tunnel.dial(["127.0.0.1", "::1"], port, self._traffic.ports.tls.get(port))
            await self._answer_tunnel()
        else:
            server = await self._public_tunnel(head)
        ports = self._traffic.ports
        try:
            if port is not None and (ports.heard is not None or port in ports.tls):
                await self._join_heard(server, port, ports.heard or (lambda server, message: True))
            else:
                await tunnel.join((self._reader, self._writer), server)
        finally:
            server[1].close()

    async def _join_heard(self, server: Ends, port: int, heard: Heard) -> None:
        """A server of the host, whose messages are read on their way. In TLS from end to end they could not be."""
        async with asyncio.timeout(tunnel.SILENCE_SECONDS):
            begun = await self._reader.read(PIECE)
        if begun.startswith(_TLS):
            raise Refused(403, "unheard", f"the server at port {port} is spoken to in plain HTTP, not in TLS")
        if begun:
            address = f"http://127.0.0.1:{port}"
            client = (self._reader, self._writer)
            await join_http(client, server, lambda path, message: heard(f"{address}{path}", message), begun)

    async def _public_tunnel(self, head: RequestHead) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._traffic.domains:
            raise Refused(403, "method", "CONNECT is not allowed: the agent is offline")
        host = tunnel.tunnel_host(head.target, self._traffic.domains)
        addresses = await tunnel.public_addresses(host)
        await self._answer_tunnel()
        hello = await tunnel.read_hello(self._reader, host)
        server = await tunnel.dial(addresses)
        server[1].write(hello)
        return server

    async def _answer_tunnel(self) -> None:
        self._has_answered = True
        await self._write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def _answer_refusal(self, refused: Refused) -> None:
        kind = _ERROR_TYPES.get(refused.status, "permission_error")
        message = f"{GATE_SAYS}: {refused.message}"
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        retry = "true" if refused.code == "rate" else "false"  # alone what is a matter of time may be tried again
        own = [("content-type", "application/json"), ("x-should-retry", retry), ("connection", "close")]
        # Of the answer to a CONNECT most programs print the first line, and nothing else.
        said = refused.message if refused.message.isascii() and refused.message.isprintable() else ""
        self._write_head(refused.status, own, [("content-length", str(len(body)))], said=said)
        await self._write(body)
        await self._linger()

    async def _linger(self) -> None:
        """Read on a little: a client still sending would otherwise miss the answer."""
        with contextlib.suppress(TimeoutError, OSError):
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(1 << 20):
                    pass

    def _write_head(self, status: int, *headers: Sequence[tuple[str, str]], said: str = "") -> None:
        self._has_answered = True
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = ""
        first = f"HTTP/1.1 {status} {phrase}{said and f' ({said})'}"
        lines = [first, *(f"{name}: {value}" for part in headers for name, value in part)]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def _write_chunk(self, data: bytes) -> None:
        if data:  # an empty chunk would end the answer
            await self._write(b"%x\r\n%b\r\n" % (len(data), data))

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(WRITE_SECONDS):
                await self._writer.drain()
