"""The client side of a measured stdio server: as little work of its own as possible."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench._common import child_env, end_of

HERE = Path(__file__).parent
OURS = [sys.executable, "-m", "toolkit", "serve"]
BOUND = 30.0


class Peer:
    """A server process and the pipes to it. One request at a time, or whole batches."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=child_env()
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._rest = b""

    def initialize(self) -> None:
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask(request("initialize", client))
        os.write(self._in, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, line: bytes) -> bytes:
        """Send one request and read one line."""
        os.write(self._in, line)
        return self.read_line()

    def ask_many(self, lines: bytes, count: int) -> None:
        """Send a batch and read as many lines."""
        os.write(self._in, lines)
        while count:
            count -= self._read().count(b"\n")

    def read_line(self) -> bytes:
        chunks = [self._rest]
        while b"\n" not in chunks[-1]:
            chunks.append(self._read())
        line, _, self._rest = b"".join(chunks).partition(b"\n")
        return line

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        end_of(self.process, BOUND)
        self.process.stdout.close()

    @property
    def rss(self) -> float:
        """Resident megabytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def peak(self) -> float:
        """The most resident megabytes so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    def _read(self) -> bytes:
        data = os.read(self._out, 1 << 20)
        if not data:
            raise EOFError("the server closed its side")
        return data


@contextlib.contextmanager
def connected(argv: Sequence[str]) -> Iterator[Peer]:
    """A server that has been greeted."""
    peer = Peer(argv)
    try:
        peer.initialize()
        yield peer
    finally:
        peer.close()


def request(method: str, params: dict[str, Any] | None = None, *, request_id: int = 1) -> bytes:
    """One request as a line."""
    frame: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        frame["params"] = params
    return json.dumps(frame).encode() + b"\n"


def call(tool: str, arguments: dict[str, Any], *, request_id: int = 1) -> bytes:
    """A tools/call as a line."""
    return request("tools/call", {"name": tool, "arguments": arguments}, request_id=request_id)
