"""As much HTTP/1.1 as one model client needs, over asyncio streams.

Reads one request at a time from a kept-alive connection and writes JSON answers
or a chunked event stream. A connection that is cut short mid-stream is closed
without the final chunk, so that the client can tell.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MAX_BODY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """One request: method, path without its query, lower-case headers, body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HTTPRequest | None:
    """Return the next request of a connection, or None when the client has left."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_body(reader, headers)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    return HTTPRequest(method, target.partition("?")[0], headers, body)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(min(int(headers.get("content-length", "0")), MAX_BODY))
    pieces: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
        if sum(map(len, pieces)) > MAX_BODY:
            raise ValueError("body too large")
    await reader.readuntil(b"\r\n")
    return b"".join(pieces)


async def send_json(
    writer: asyncio.StreamWriter, code: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    """Answer with one JSON document."""
    payload = json.dumps(body).encode()
    _head(writer, code, {"content-type": "application/json", "content-length": str(len(payload)), **(headers or {})})
    writer.write(payload)
    await writer.drain()


async def send_empty(writer: asyncio.StreamWriter, code: int) -> None:
    """Answer without a body."""
    _head(writer, code, {"content-length": "0"})
    await writer.drain()


async def start_events(writer: asyncio.StreamWriter, headers: Mapping[str, str] | None = None) -> None:
    """Begin an event stream; `send_events` adds to it."""
    _head(
        writer,
        200,
        {
            "content-type": "text/event-stream",
            "cache-control": "no-cache",
            "transfer-encoding": "chunked",
            **(headers or {}),
        },
    )
    await writer.drain()


async def send_events(writer: asyncio.StreamWriter, *events: Mapping[str, Any], last: bool = False) -> None:
    """Send server-sent events, each named by its type, in one piece; `last` ends the stream."""
    payloads = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    chunks = [b"%x\r\n%b\r\n" % (len(payload), payload) for payload in payloads]
    writer.write(b"".join([*chunks, b"0\r\n\r\n"] if last else chunks))
    await writer.drain()


def _head(writer: asyncio.StreamWriter, code: int, headers: Mapping[str, str]) -> None:
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = "Status"
    lines = [f"HTTP/1.1 {code} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
