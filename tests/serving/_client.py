"""A raw client: the other end of a served process's pipes, with every wait bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SERVE = [sys.executable, "-m", "toolkit", "serve"]
BOUND = 30.0
"""Seconds any single wait may take before the test fails."""
PRELUDE = "from toolkit import Toolbox, ToolContext, ToolError, tool\n"
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
ENVELOPE = {
    VERSION_KEY: "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


STUCK = """
import asyncio
import atexit
import threading
import time

@tool
def blocked() -> str:
    "Never return."
    print("running", flush=True)
    threading.Event().wait()
    return ""

@tool
async def stubborn() -> str:
    "Swallow every cancellation."
    print("running", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@tool
async def hogging() -> str:
    "Block the event loop."
    print("running", flush=True)
    time.sleep(60)
    return ""

@tool
def bad_exit() -> str:
    "Leave a thread and an exit handler behind that do not end."
    threading.Thread(target=time.sleep, args=(60,)).start()
    atexit.register(time.sleep, 60)
    print("running", flush=True)
    return ""

@tool
def quick() -> str:
    "Answer at once."
    return "done"

@tool
async def soon() -> str:
    "Answer soon."
    await asyncio.sleep(0.01)
    return "done"

@tool
def big() -> str:
    "Much to read."
    return "x" * 200_000

box = Toolbox("stuck", [blocked, stubborn, hogging, bad_exit, quick, soon, big])
"""
"""Tools that do not end by themselves, and some that do."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Look until it holds."""
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Served:
    """A process that serves the tools of `source` over stdio."""

    def __init__(
        self,
        folder: Path,
        source: str,
        *,
        options: Sequence[str] = (),
        sockets: bool = False,
        config: Path | None = None,
    ) -> None:
        """With `config` that is what is served."""
        self.folder = folder
        self.file = folder / "served_tools.py"
        self.file.write_text(PRELUDE + textwrap.dedent(source), encoding="utf-8")
        self._stderr = (folder / "stderr.txt").open("wb")
        self._buffer = b""
        self._next_id = 0
        self.notifications: list[dict[str, Any]] = []
        self.unsent = b""
        """What is left of the line a flood ended in."""
        if sockets:
            (self._mine, child) = socket.socketpair()
            self._in = self._out = self._mine.fileno()
            wires: dict[str, Any] = {"stdin": child, "stdout": child}
        else:
            child_in, self._in = os.pipe()
            self._out, child_out = os.pipe()
            wires = {"stdin": child_in, "stdout": child_out}
        argv = [*SERVE, *options, *([str(self.file)] if config is None else ["--config", str(config)])]
        self.process = subprocess.Popen(argv, cwd=folder, stderr=self._stderr, env=_clean_env(), **wires)
        for wire in set(wires.values()):
            wire.close() if isinstance(wire, socket.socket) else os.close(wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for fd in {self._in, self._out}:
            with contextlib.suppress(OSError):
                os.close(fd)
        if hasattr(self, "_mine"):
            self._mine.detach()
        try:
            self.process.wait(BOUND)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(BOUND)
            raise
        finally:
            self._stderr.close()

    def send_bytes(self, data: bytes) -> None:
        deadline = time.monotonic() + BOUND
        view = memoryview(data)
        os.set_blocking(self._in, False)
        while view:
            if not select.select([], [self._in], [], max(0.0, deadline - time.monotonic()))[1]:
                raise TimeoutError(f"the server does not read ({len(view)} bytes left)")
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._in, view) :]

    def flood(self, line: bytes) -> int:
        """Send a line again and again, until the server has taken nothing for a second; how many it took whole.

        `%d` in the line is its number.
        """
        os.set_blocking(self._in, False)
        count = 0
        while True:
            view = memoryview(line % count)
            while view:
                if not select.select([], [self._in], [], 1.0)[1]:
                    self.unsent = bytes(view)
                    return count
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self._in, view) :]
            count += 1

    def send(self, method: str, params: dict[str, Any] | None = None, *, request_id: int | str | None = None) -> None:
        frame: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if request_id is not None:
            frame["id"] = request_id
        if params is not None:
            frame["params"] = params
        self.send_bytes(json.dumps(frame).encode() + b"\n")

    def read_line(self, bound: float = BOUND) -> bytes:
        """The next line; b"" at end of file."""
        deadline = time.monotonic() + bound
        chunks = [self._buffer]
        while b"\n" not in chunks[-1]:
            if not select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no message; stderr: {self.stderr[-2000:]}")
            data = os.read(self._out, 1 << 20)
            if not data:
                self._buffer = b""
                return b"".join(chunks)
            chunks.append(data)
        line, _, self._buffer = b"".join(chunks).partition(b"\n")
        return line

    def read(self) -> dict[str, Any]:
        """The next response or error; notifications are put aside."""
        while True:
            line = self.read_line()
            assert line, f"the server closed its side; stderr: {self.stderr[-2000:]}"
            message: dict[str, Any] = json.loads(line)
            if "method" not in message:
                return message
            self.notifications.append(message)

    def answer(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and give the whole answer, be it a result or an error."""
        self._next_id += 1
        self.send(method, params, request_id=self._next_id)
        answer = self.read()
        assert answer["id"] == self._next_id
        return answer

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and give its result."""
        answer = self.answer(method, params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def initialize(self) -> dict[str, Any]:
        result = self.request("initialize", HANDSHAKE)
        self.send("notifications/initialized")
        return result

    def call(self, tool: str, /, **arguments: Any) -> str:
        """The text of a successful call."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result["isError"], result
        text: str = result["content"][0]["text"]
        return text

    def close_stdin(self) -> None:
        if hasattr(self, "_mine"):
            self._mine.shutdown(socket.SHUT_WR)
        else:
            os.close(self._in)

    def close_stdout(self) -> None:
        os.close(self._out)

    def wait(self) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(BOUND)

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text(encoding="utf-8", errors="replace")

    @property
    def rss(self) -> int:
        """Resident bytes of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class ServedHttp:
    """A process that serves the tools of `source` over HTTP, and a client of one session."""

    def __init__(self, folder: Path, source: str, *, options: Sequence[str] = ()) -> None:
        self.file = folder / "served_tools.py"
        self.file.write_text(PRELUDE + textwrap.dedent(source), encoding="utf-8")
        argv = [*SERVE, "--http", "--port", "0", *options, str(self.file)]
        self._stdout = (folder / "stdout.txt").open("w+")
        self.process = subprocess.Popen(
            argv, cwd=folder, stdout=self._stdout, stderr=subprocess.PIPE, env=_clean_env(), text=True
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.url = line.split()[-1].replace("//0.0.0.0", "//127.0.0.1")
        assert self.url.startswith("http"), line + self.process.stderr.read()
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])
        self.session: dict[str, str] = {}
        self.messages: list[dict[str, Any]] = []
        """All messages of the last answer, notifications included."""
        self.body = b""
        """The last answer as it came."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(BOUND)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self._stdout.close()

    def wait_for_output(self, text: str) -> None:
        """Wait until the tools have printed this."""
        wait_until(lambda: text in self.output)

    @property
    def output(self) -> str:
        """What the tools have printed."""
        return Path(self._stdout.name).read_text(encoding="utf-8")

    def log_line(self) -> dict[str, Any]:
        """The next line of the access log, which is JSON."""
        assert self.process.stderr is not None
        line: dict[str, Any] = json.loads(self.process.stderr.readline())
        return line

    @contextlib.contextmanager
    def started(self, frame: dict[str, Any]) -> Iterator[None]:
        """A request that is not waited for."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", json.dumps(frame), {**HEADERS, **self.session})
            yield

    def post(self, frame: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and the message in the answer, taken out of its event if it is one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", json.dumps(frame), {**HEADERS, **self.session, **(headers or {})})
            response = connection.getresponse()
            self.body = body = response.read()
            if session := response.headers.get("mcp-session-id"):
                self.session = {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        events = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: {")]
        self.messages = [json.loads(event) for event in events]
        return response.status, events[-1] if events else body

    def initialize(self) -> None:
        self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE})
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and give its result; with an envelope in `params`, as 2026-07-28 has it."""
        answer = self.answer(method, params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def answer(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and give the whole answer, be it a result or an error."""
        frame: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
        headers = {}
        if params is not None:
            frame["params"] = params
            if VERSION_KEY in params.get("_meta", {}):
                headers = {
                    "Mcp-Protocol-Version": "2026-07-28",
                    "Mcp-Method": method,
                    "Mcp-Name": params.get("name", params.get("uri", "")),
                }
        status, body = self.post(frame, {key: value for key, value in headers.items() if value})
        answer: dict[str, Any] = json.loads(body)
        assert status == 200 or "error" in answer, body
        return answer


def _clean_env() -> dict[str, str]:
    """As a client starts it: prints are buffered."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
