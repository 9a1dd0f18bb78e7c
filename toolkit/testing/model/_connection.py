"""One client of the scripted API: h11 reads its requests and frames the answers, asyncio carries the bytes.

h11 alone, not a server on top of it: uvicorn takes 36 ms to import (57 ms with starlette, h11 8 ms) and
200 ms to stop, where a test suite starts and stops hundreds of these in 0.5 ms each. A connection that is cut
mid-stream is closed without the final chunk, so that the client can tell.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h11

_MAX_HEAD = 1024 * 1024
_MAX_BODY = 256 * 1024 * 1024
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """One HTTP request: method, path without its query, lower-case headers, body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """A kept-alive connection, on which one call at a time is read and answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)

    async def next_call(self) -> HTTPRequest | None:
        """The next call, or None when the client has left or what it sends is not HTTP."""
        try:
            if self._protocol.our_state is h11.DONE:
                self._protocol.start_next_cycle()
            head = await self._event()
            if not isinstance(head, h11.Request):
                return None
            body = bytearray()
            while isinstance(event := await self._event(), h11.Data) and len(body) <= _MAX_BODY:
                body += event.data
        except (h11.ProtocolError, ConnectionError):
            return None
        if not isinstance(event, h11.EndOfMessage):
            return None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        path = head.target.decode("latin-1").partition("?")[0]
        return HTTPRequest(head.method.decode("latin-1"), path, headers, bytes(body))

    async def _event(self) -> Any:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._protocol.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._protocol.receive_data(await self._reader.read(_PIECE))
        return event

    async def send_json(self, code: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """Answer with one JSON document."""
        payload = json.dumps(body).encode()
        head = {"content-type": "application/json", "content-length": str(len(payload)), **(headers or {})}
        await self._send(_response(code, head), h11.Data(payload), h11.EndOfMessage())

    async def send_empty(self, code: int) -> None:
        """Answer without a body."""
        await self._send(_response(code, {"content-length": "0"}), h11.EndOfMessage())

    async def start_events(self, headers: Mapping[str, str]) -> None:
        """Begin an event stream; `send_events` adds to it."""
        await self._send(_response(200, {"content-type": "text/event-stream", "cache-control": "no-cache", **headers}))

    async def send_events(self, *events: Mapping[str, Any], last: bool = False) -> None:
        """Send server-sent events, each named by its type, in one piece; `last` ends the stream."""
        payload = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        await self._send(h11.Data(payload), *([h11.EndOfMessage()] if last else []))

    async def until_left(self) -> None:
        """Wait until the client hangs up."""
        await self._reader.read()

    async def _send(self, *events: Any) -> None:
        self._writer.write(b"".join(self._protocol.send(event) or b"" for event in events))
        await self._writer.drain()


def _response(code: int, headers: Mapping[str, str]) -> h11.Response:
    return h11.Response(status_code=code, headers=[(name, str(value)) for name, value in headers.items()])
