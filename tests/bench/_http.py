"""Two HTTP servers of the same tools, and a raw client that costs both sides the same."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tests.bench._common import child_env

HERE = Path(__file__).parent
OURS = [sys.executable, "-m", "toolkit", "serve", "--http", "--port", "0", str(HERE / "small_tools.py")]
THEIRS = [sys.executable, str(HERE / "small_tools_http_mcp.py")]
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextlib.contextmanager
def served(argv: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Port and process id of a server that listens on loopback."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=child_env())
    assert process.stdout is not None
    port = _port(process.stdout)
    # What it prints from now on is read, so that a full pipe stops neither side.
    reading = threading.Thread(target=process.stdout.read, daemon=True)
    reading.start()
    try:
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)
        reading.join(15)
        process.stdout.close()


def _port(output: IO[str]) -> int:
    for line in output:
        if "http://127.0.0.1:" in line:
            return int(line.split("http://127.0.0.1:")[1].partition("/")[0])
    raise RuntimeError("the server did not start")


class Caller:
    """One keep-alive connection, and the bytes of a small call in one of the two eras."""

    def __init__(self, port: int, era: str) -> None:
        self._port = port
        self._partial = b""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        params: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}
        if era == MODERN:
            headers = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "add"}
            params["_meta"] = _META
        else:
            headers = {"Mcp-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": self._open()}
        self.call_bytes = self._post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)

    def call(self) -> bytes:
        """The body of the answer to a small call."""
        self.send()
        return self._read()[1]

    def send(self) -> None:
        """Ask, and do not wait."""
        self._partial = b""
        self._socket.sendall(self.call_bytes)

    def receive(self) -> bool:
        """Take what is there; whether the answer is whole."""
        self._partial += self._more()
        return self._is_whole(self._partial)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _open(self) -> str:
        opening = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        frame = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
        self._socket.sendall(self._post(frame, {}))
        head, _ = self._read()
        session = next(
            line.split(b":", 1)[1].strip() for line in head.split(b"\r\n") if line.lower().startswith(b"mcp-session-id")
        ).decode()
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self._socket.sendall(self._post(told, {"Mcp-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session}))
        self._read()
        return session

    def _post(self, frame: dict[str, Any], headers: dict[str, str]) -> bytes:
        body = json.dumps(frame).encode()
        lines = {
            "Host": f"127.0.0.1:{self._port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body

    def _read(self) -> tuple[bytes, bytes]:
        data = b""
        while not self._is_whole(data):
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        assert b" 20" in head[:12], data
        return head, body

    @staticmethod
    def _is_whole(data: bytes) -> bool:
        head, end, body = data.partition(b"\r\n\r\n")
        lower = head.lower()
        if not end:
            return False
        if b"transfer-encoding: chunked" in lower:
            return body.endswith(b"0\r\n\r\n")
        return b"content-length:" not in lower or len(body) >= int(lower.split(b"content-length:")[1].split(b"\r\n")[0])

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, "the server closed the connection"
        return data
