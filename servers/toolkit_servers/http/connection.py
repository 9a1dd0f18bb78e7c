"""One connection under uvicorn, for clients that are slow, too many, or send no HTTP.

uvicorn's protocol with h11 does the work; here are the limits it does not have: time for the
headers, time that an answer may lie unread, a number of connections that are told why they are
refused, and a status of their own for headers that are too large.
"""

from __future__ import annotations

import sys
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolkit._base.json_bytes import json_bytes
from toolkit_servers.http.limits import Limits

CONNECTION = "toolkit.connection"
"""Where the scope of a request names its connection, among the extensions."""
_PHRASES = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Busy"}


class LimitedConnection(H11Protocol):
    """A connection with the limits of a server; made for one by `limited`."""

    limits: Limits
    on_refused: Callable[[str], None]

    _waiting_for_headers: TimerHandle | None = None
    _waiting_for_reader: TimerHandle | None = None
    on_lost: Callable[[], None] | None = None
    """Called once when the client is gone, for what runs on its behalf."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._refuse(503, "connections", f"{self.limits.max_connections} connections are open; try again")
        else:
            self._expect_headers()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._expect_headers()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._headers_are_there()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._headers_are_there()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_there()
        self._is_read_again()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self.on_lost is not None:
            self.on_lost()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and self.scope is not None:
            extensions: dict[str, Any] = self.scope.setdefault("extensions", {})
            extensions[CONNECTION] = self

    def pause_writing(self) -> None:
        super().pause_writing()
        self._waiting_for_reader = self.loop.call_later(self.limits.write_seconds, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read_again()

    def send_400_response(self, msg: str) -> None:
        problem = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        status = getattr(problem, "error_status_hint", 400)
        if status == 431:
            self._refuse(431, "headers", f"the headers have more than {self.limits.max_headers} bytes")
        else:
            self._refuse(400, "framing", "this is not a well-formed HTTP request")

    def _expect_headers(self) -> None:
        if self._waiting_for_headers is None:
            self._waiting_for_headers = self.loop.call_later(self.limits.header_seconds, self._too_slow)

    def _headers_are_there(self) -> None:
        if self._waiting_for_headers is not None:
            self._waiting_for_headers.cancel()
            self._waiting_for_headers = None

    def _too_slow(self) -> None:
        self._waiting_for_headers = None
        self._refuse(408, "slow", f"the headers took longer than {self.limits.header_seconds:g} s")

    def _is_read_again(self) -> None:
        if self._waiting_for_reader is not None:
            self._waiting_for_reader.cancel()
            self._waiting_for_reader = None

    def _give_up(self) -> None:
        self._waiting_for_reader = None
        self.on_refused("slow")
        self.transport.abort()

    def _refuse(self, status: int, rule: str, reason: str) -> None:
        """Answer a request that has not been read, and close."""
        self.on_refused(rule)
        self._headers_are_there()
        body = json_bytes({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": reason}})
        head = [
            b"HTTP/1.1 %d %b" % (status, _PHRASES.get(status, b"Refused")),
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        if not self.transport.is_closing() and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE, h11.ERROR):
            self.transport.write(b"\r\n".join(head) + b"\r\n\r\n" + body)
        self.transport.close()


def limited(limits: Limits, on_refused: Callable[[str], None]) -> type[H11Protocol]:
    """The protocol class for a server with these limits."""
    members: dict[str, Any] = {"limits": limits, "on_refused": staticmethod(on_refused)}
    return type("LimitedConnection", (LimitedConnection,), members)
