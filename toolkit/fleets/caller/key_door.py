"""The caller's gate, for workers that have no key: they send a word, and the gate puts the key in its place.

The key stays with the caller. The word is worth nothing after the caller has ended, opens no other path than the
gate's, and is a new one each time. Between caller and workers it goes as Dask's own messages do: use it in a network
that is yours.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from toolkit.errors import RunError
from toolkit.sandbox import Gate, ModelAPI

_PIECE = 64 * 1024


class KeyDoor:
    """A port of this machine that leads to the model API for whoever knows the word; an async context manager."""

    def __init__(self, api: ModelAPI, near: str) -> None:
        self.word = secrets.token_hex(24)
        """What a worker sends in place of a key."""
        self.url = ""
        """Where workers reach it."""
        self._api = api
        self._near = near
        self._folder = Path(tempfile.mkdtemp(prefix="toolkit-"))
        self._gate: Gate | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        host = _own_address(self._near)
        try:
            headers = self._api.all_headers()
            path = self._folder / "gate"
            self._gate = await Gate(
                self._api.url, None, path, headers=headers, word=self.word, max_connections=4096
            ).__aenter__()
            self._server = await asyncio.start_server(self._connected, host, 0)
        except OSError as error:
            raise RunError(f"workers cannot be served with the key from here: {error}", where=[host]) from None
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        if self._gate is not None:
            await self._gate.aclose()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._join(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead a connection to the gate, which reads it strictly."""
        to_gate: asyncio.StreamWriter | None = None
        try:
            assert self._gate is not None
            from_gate, to_gate = await asyncio.open_unix_connection(str(self._gate.socket_path))
            ways = [asyncio.ensure_future(_pipe(reader, to_gate)), asyncio.ensure_future(_pipe(from_gate, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            writer.close()
            if to_gate is not None:
                to_gate.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()


def _own_address(near: str) -> str:
    """The address of this machine on the way to another one.

    Raises:
        RunError: there is no way.
    """
    parts = urlsplit(near)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 8786, type=socket.SOCK_DGRAM)
        with socket.socket(found[0][0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[0][4])  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise RunError(f"this machine has no address that workers of {near} could reach: {error}") from None
