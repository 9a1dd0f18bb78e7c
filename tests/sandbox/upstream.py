"""A model API on loopback whose answers a test writes byte for byte, and a client that does the same."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11

from toolkit.sandbox.gate import Headers

WAIT = 60.0


@dataclass
class Seen:
    """One request as the API received it."""

    line: str
    headers: dict[str, str]
    body: bytes


Answering = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class API:
    """The loopback API: its address and what reached it."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    hangups: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    connections: int = 0


@dataclass
class Reply:
    """What a client of the gate got back."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def make_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A key and a certificate for `host` that nobody has signed."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    make = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={host}"
    paths = ["-addext", f"subjectAltName=DNS:{host}", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*make.split(), *paths], check=True, capture_output=True, timeout=30)
    return key, cert


def sse(*events: dict[str, Any]) -> bytes:
    """Events as the API streams them."""
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def start_event(**usage: int) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "claude-test", "usage": {"input_tokens": 0, "output_tokens": 1, **usage}}
    return {"type": "message_start", "message": message}


def delta_event(**usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


async def send_stream(writer: asyncio.StreamWriter, *pieces: bytes) -> None:
    """Answer 200 with an event stream, one chunk per piece."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for piece in pieces:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def send_json(writer: asyncio.StreamWriter, value: object, *, status: int = 200, extra: bytes = b"") -> None:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
    writer.write(head % (status, extra, len(body)) + body)
    await writer.drain()


async def answer_hello(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """The plain case: a short stream of 10 tokens in and 5 out."""
    await send_stream(writer, sse(start_event(input_tokens=10)), sse(delta_event(output_tokens=5)))


@asynccontextmanager
async def loopback_api(answer: Answering = answer_hello, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[API]:
    """A model API that hands every request to `answer`."""
    api = API()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.current_task())  # type: ignore[arg-type]
        assert task is not None
        api.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.rstrip("\r\n").split("\r\n")
                headers = {k.lower(): v for k, _, v in (item.partition(": ") for item in rest)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                api.seen.append(Seen(line, headers, body))
                await answer(api.seen[-1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            api.hangups.put_nowait(None)
        except asyncio.CancelledError:
            pass  # the server ends; asyncio of Python 3.11 would log a cancelled handler as an error
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, backlog=512)
    port = server.sockets[0].getsockname()[1]
    api.url = f"http{'s' if tls else ''}://{'localhost' if tls else '127.0.0.1'}:{port}"
    try:
        yield api
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Jailed:
    """A client on the gate's socket, as the agent would be one."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path

    async def __aenter__(self) -> Jailed:
        self.reader, self.writer = await asyncio.open_unix_connection(self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def raw(self, data: bytes) -> Reply:
        """Send bytes as they are and read one answer."""
        self.writer.write(data)
        return await self.reply()

    async def reply(self) -> Reply:
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="POST", target="/", headers=[("host", "gate")]))
        parts: list[Any] = []
        async with asyncio.timeout(WAIT):
            while not parts or not isinstance(parts[-1], h11.EndOfMessage):
                if (event := http.next_event()) is not h11.NEED_DATA:
                    parts.append(event)
                else:  # a byte at a time, because the next answer may stand right behind
                    http.receive_data(await self.reader.read(1))
        (head,) = (part for part in parts if isinstance(part, h11.Response))
        body = b"".join(part.data for part in parts if isinstance(part, h11.Data))
        return Reply(head.status_code, Headers.of(head.headers), body)

    async def post(self, body: object, *, path: str = "/v1/messages", headers: str = "") -> Reply:
        return await self.raw(post_bytes(body, path=path, headers=headers))


def post_bytes(body: object, *, path: str = "/v1/messages", headers: str = "") -> bytes:
    """A request as the agent would write it; `headers` are whole lines."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: gate\r\ncontent-length: {len(data)}\r\n{headers}\r\n"
    return head.encode("latin-1") + data


HELLO = {"model": "claude-test", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
