"""An HTTP server of the host is heard: no message of it reaches the client that was not judged before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from toolkit.sandbox.relay import join_http
from toolkit.sandbox.relay.events import Events

ASK = b"POST /mcp?x=1 HTTP/1.1\r\nhost: h\r\naccept-encoding: gzip, br\r\ncontent-length: 2\r\n\r\n{}"
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def answer(body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Joined:
    """A client and a server with the relay between them, and what was heard of the server."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.client: Ends
        self.server: Ends

    def hear(self, path: str, message: bytes) -> bool:
        self.heard.append((path, message))
        return b"secret" not in message

    async def asked(self, request: bytes = ASK) -> bytes:
        """Send a request; what the server gets of it."""
        self.client[1].write(request)
        head = await self.server[0].readuntil(b"\r\n\r\n")
        return head + await self.server[0].readexactly(2)

    async def rest(self, said: bytes) -> bytes:
        """Let the server answer and go; all that the client gets."""
        self.server[1].write(said)
        self.server[1].write_eof()
        return await self.client[0].read()


@asynccontextmanager
async def joined() -> AsyncIterator[Joined]:
    pair = Joined()
    arrived: asyncio.Queue[Ends] = asyncio.Queue()

    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await arrived.put((reader, writer))

    async with asyncio.timeout(60), await asyncio.start_server(arrive, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]

        async def both() -> tuple[Ends, Ends]:
            return await asyncio.open_connection("127.0.0.1", port), await arrived.get()

        (pair.client, near), (far, pair.server) = await both(), await both()

        async def join() -> None:
            await join_http(near, far, pair.hear)
            near[1].close()
            far[1].close()

        joining = asyncio.create_task(join())
        try:
            yield pair
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            for _, writer in (pair.client, pair.server, near, far):
                writer.close()


async def test_an_answer_is_heard_whole_and_asked_for_without_compression() -> None:
    async with joined() as pair:
        asked = await pair.asked()
        assert b"gzip" not in asked
        assert b"identity" in asked
        assert asked.endswith(b"\r\n\r\n{}")
        body = b'{"result": 1}'
        said = answer(body)
        pair.server[1].write(said[:-3])
        await pair.server[1].drain()
        assert pair.heard == []
        pair.server[1].write(said[-3:])
        got = await pair.client[0].readuntil(body)
        assert b"content-length: 13" in got.lower()
        assert pair.heard == [("/mcp", body)]
        await pair.asked()  # and a second one on the same connection
        pair.server[1].write(answer(b"[]"))
        assert (await pair.client[0].readuntil(b"[]")).startswith(b"HTTP/1.1 200")
        assert pair.heard[1:] == [("/mcp", b"[]")]


async def test_a_stream_is_heard_event_by_event_and_one_that_may_not_pass_is_kept_back() -> None:
    async with joined() as pair:
        await pair.asked()
        stream = b": hello\n\ndata: one\r\n\r\nevent: endpoint\ndata: /x secret\n\nid: 1\ndata: secret\n\ndata:tw\ndata:o\n\n"
        got = await pair.rest(answer(stream, "text/event-stream; charset=utf-8"))
    assert [message for _, message in pair.heard] == [b"one", b"secret", b"tw\no"]
    assert b": hello" in got
    assert b"data: /x secret" in got, "an event of another name is no message"
    assert b"id: 1" not in got
    assert got.count(b"data:") == 4


@pytest.mark.parametrize(
    "said",
    [
        answer(b'{"secret": 1}'),
        answer(b'{"secret": 1}', more="content-type: text/plain\r\n"),
        answer(b'{"secret": 1}', "text/plain", "Content-Type: application/json\r\n"),
        answer(b"\x1f\x8b", more="content-encoding: gzip\r\n"),
        answer(b"\x1f\x8b", more="content-encoding: gzip\r\ncontent-encoding: identity\r\n"),
        answer(b"data: x\n\n", "text/event-stream", "content-encoding: br\r\n"),
        answer(b"data: x\n\n", "text/event-stream, application/json"),
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\ndata",
        b"not HTTP at all\r\n\r\n",
    ],
)
async def test_what_cannot_be_heard_or_may_not_pass_ends_the_connection(said: bytes) -> None:
    async with joined() as pair:
        await pair.asked()
        assert await pair.rest(said) == b""


async def test_what_no_client_takes_for_a_message_passes() -> None:
    async with joined() as pair:
        await pair.asked()
        got = await pair.rest(answer(b"secret page", "text/html"))
    assert got.endswith(b"secret page")
    assert pair.heard == []


@pytest.mark.parametrize("request_line", [b"GET http://elsewhere/ HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"\x00\x01\x02"])
async def test_a_request_that_is_no_plain_one_ends_the_connection(request_line: bytes) -> None:
    async with joined() as pair:
        pair.client[1].write(request_line + b"\r\nhost: h\r\n\r\n")
        assert await pair.client[0].read() == b""
        assert pair.heard == []


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_their_bytes_arrive(end: bytes, size: int) -> None:
    stream = b"\xef\xbb\xbfdata: {}" + end + end + b"event: message" + end + b"data: a" + end + b"data: b" + end + end
    stream += b"event: other" + end + b"data: c" + end + end + b"data: last"
    events, found = Events(), list[tuple[bytes, bytes | None]]()
    for start in range(0, len(stream), size):
        found += events.feed(stream[start : start + size])
    found += events.finish()
    assert b"".join(block for block, _ in found) == stream
    assert [message for _, message in found if message is not None] == [b"{}", b"a\nb", b"last"]
