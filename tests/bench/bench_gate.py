"""What the gate costs: time to the first event of an answer, and a hundred streams at once, against a direct connection.

The API, the gate and the client are three processes, as in a real run. The body is as large as the CLI's.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench._common import Pair, Row, child_env, interleave_calls

STREAMS = 100
EVENTS = 40
PACE = 0.025
TOOL = {
    "name": "tool",
    "description": "x" * 1500,
    "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
}


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "s"
        with _process("api", folder) as port, _process("gate", str(socket), f"http://127.0.0.1:{port}"):
            for size in (50, 500):
                pair = asyncio.run(_first_bytes(int(port), socket, kilobytes=size))
                added = (statistics.median(pair.ours) - statistics.median(pair.theirs)) * 1e3
                yield Row(f"gate, ms added to the first byte, {size} KB body", added, None, 3.0)
            parallel = asyncio.run(_streams(int(port), socket))
            yield parallel.row(f"gate, {STREAMS} streams of {EVENTS} paced events / direct", 1.5, unit="s")


def _body(kilobytes: int) -> bytes:
    tools = [{**TOOL, "name": f"tool{n}"} for n in range(20)]
    text = "word " * ((kilobytes * 1024 - len(json.dumps(tools))) // 5)
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "tools": tools}).encode()


async def _connect(side: int | Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(side, int):
        return await asyncio.open_connection("127.0.0.1", side)
    return await asyncio.open_unix_connection(side)


async def _first_bytes(port: int, socket: Path, *, kilobytes: int) -> Pair:
    body = _body(kilobytes)
    request = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    sides = {side: await _connect(side) for side in (port, socket)}

    # To the end of a very short answer: the next request needs a connection with nothing left to read.
    async def one(side: int | Path) -> None:
        reader, writer = sides[side]
        writer.write(request)
        await reader.readuntil(b"message_start")
        await reader.readuntil(b"0\r\n\r\n")

    pair = await interleave_calls(lambda: one(socket), lambda: one(port), batches=20, calls=20, warmup=20)
    for _, writer in sides.values():
        writer.close()
    return pair


async def _streams(port: int, socket: Path) -> Pair:
    request = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\nx-app: paced\r\ncontent-length: 2\r\n\r\n{}"

    async def one(side: int | Path) -> None:
        reader, writer = await _connect(side)
        writer.write(request)
        seen = (await reader.readuntil(b"0\r\n\r\n")).count(b"data:")
        assert seen == EVENTS, seen
        writer.close()

    async def many(side: int | Path) -> None:
        await asyncio.gather(*(one(side) for _ in range(STREAMS)))

    return await interleave_calls(lambda: many(socket), lambda: many(port), batches=3, calls=1, warmup=1)


@contextmanager
def _process(*role: str) -> Iterator[str]:
    """A process of this file in one role; yields the line it prints once it serves."""
    command = [sys.executable, "-m", "tests.bench.bench_gate", *role]
    child = subprocess.Popen(command, env=child_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
    finally:
        child.communicate(timeout=10)  # closes its stdin, which ends it


async def _serve_api() -> None:
    start = b'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n'
    event = b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"some words"}}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                writer.close()
                return
            await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n" % (len(start), start))
            if b"x-app: paced" in head:
                for _ in range(EVENTS - 1):
                    await asyncio.sleep(PACE)
                    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            writer.write(b"0\r\n\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def _serve_gate(socket: str, url: str) -> None:
    from toolkit.sandbox import Gate

    async with Gate(url, f"sk-ant-api03-{'kEy-' * 20}", Path(socket)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve_api() if sys.argv[1] == "api" else _serve_gate(*sys.argv[2:]))
