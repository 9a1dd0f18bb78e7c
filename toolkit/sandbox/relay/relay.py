"""The launcher's end: each line that a server says is heard, then given back to go on to the CLI.

Whatever runs in the jail beside the CLI can come here, and say that it is any server. So
nothing is believed that is said: the hearer gets lines, and a line that it does not let pass
is kept back. Lines and connections are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from toolkit._base.words import safe_line

_log = logging.getLogger("toolkit.sandbox")

Heard = Callable[[str, bytes], bool]
"""Gets the name that a server says it has, or the address of one on the host, and one message. False keeps it back."""

MAX_HELD_BYTES = 64 * 1024 * 1024
"""What is kept of lines whose end has not come, of all connections together."""
MAX_CONNECTIONS = 64
_CHUNK_BYTES = 256 * 1024
_NAME_SECONDS = 10.0
_STEPS = 5
"""Rounds of the event loop in which one that has just come is taken in: a closed server would leave it hanging."""


class Relay:
    """A unix socket that gives back what is said to it, line by line, as an async context manager."""

    def __init__(self, path: Path, heard: Heard) -> None:
        self._path = path
        self._heard = heard
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None
        self._held = 0

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_unix_server(self._connected, self._path)
        # The folder around it is private. In the jail another user may be at the other end.
        self._path.chmod(0o666)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening, and end every connection."""
        if self._server is None:
            return
        server = self._server
        try:
            self._path.unlink(missing_ok=True)
            for _ in range(_STEPS):
                await asyncio.sleep(0)
        finally:  # also when whoever closes it is cancelled
            self._server = None
            server.close()
            for task, writer in self._tasks.items():
                writer.close()  # also of one that has not begun
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or len(self._tasks) >= MAX_CONNECTIONS:  # one may come as it ends
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._give_back(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # the server or the CLI is gone, or the jail ends
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _give_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_NAME_SECONDS):
                name = (await reader.readline()).decode("utf-8", "replace").rstrip("\n")
        except (TimeoutError, ValueError):
            return
        async for line in self._lines(name, reader):
            if self._heard(name, line):
                writer.write(line)
                await writer.drain()

    async def _lines(self, name: str, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """What comes, line by line; it ends early where too much would have to be held for one."""
        begun, size = list[bytes](), 0
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    yield b"".join([*begun, end, b"\n"])
                    self._held -= size
                    begun, size = [], 0
                begun.append(rest)
                size, self._held = size + len(rest), self._held + len(rest)
                if self._held > MAX_HELD_BYTES:
                    _log.warning("the server %s said too long a line, and is cut off", safe_line(name, 64))
                    return
            if size:
                yield b"".join(begun)
        finally:
            self._held -= size
