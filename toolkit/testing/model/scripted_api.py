"""A Messages API on a loopback port that says what a script tells it to.

It serves from a thread of its own, so the same object works in a sync program,
in any event loop and in a pytest fixture. It answers streaming and plain model
calls, `count_tokens` and side calls, and keeps every request for the test to
look at. Leaving the `with` block checks the script: a call without a turn or a
turn without a call is an error.
"""

from __future__ import annotations

import asyncio
import json
import threading
from types import TracebackType
from typing import Any, Self

from toolkit.errors import TestingError
from toolkit.testing.model import http
from toolkit.testing.model.asked import Asked
from toolkit.testing.model.http import HTTPRequest
from toolkit.testing.model.request import Request
from toolkit.testing.model.script import Script
from toolkit.testing.model.stream import error_body, events, interrupts, message, pause
from toolkit.testing.model.turns import Status, Turn, TurnLike

_HOST = "127.0.0.1"


class ScriptedAPI(Asked):
    """The model's side of a conversation, written down beforehand.

    Use it as a context manager, sync or async; `url` is what the client talks to.
    `otherwise` answers every call no turn is written for; `strict=False` leaves
    out the check at the end.
    """

    def __init__(self, *turns: TurnLike, otherwise: TurnLike | None = None, port: int = 0, strict: bool = True) -> None:
        super().__init__(Script(turns, otherwise), strict=strict)
        self._port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[asyncio.Task[None]] = set()

    # -- what a test asks ------------------------------------------------------

    @property
    def url(self) -> str:
        """The address for `ANTHROPIC_BASE_URL`."""
        if self._thread is None:
            raise TestingError(
                "the scripted API is not running", fix="Use it in a with block: with ScriptedAPI(…) as api:"
            )
        return f"http://{_HOST}:{self._port}"

    # -- start and stop --------------------------------------------------------

    def start(self) -> Self:
        """Begin to serve; returns once the port is open."""
        if self._thread is not None:
            raise TestingError("this scripted API is already running", fix="Make a new one for every run.")
        ready = threading.Event()
        failed: list[Exception] = []
        thread = threading.Thread(target=self._serve, args=(ready, failed), name="scripted-api", daemon=True)
        thread.start()
        ready.wait(30)
        if failed:
            thread.join(5)
            raise TestingError(
                f"the scripted API cannot listen on port {self._port}: {failed[0]}",
                fix="Leave port= out to get a free one.",
            ) from failed[0]
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stop serving and drop every open connection. Does nothing if it is not running."""
        if self._thread is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)
        self._thread = None

    def _serve(self, ready: threading.Event, failed: list[Exception]) -> None:
        asyncio.run(self._main(ready, failed))

    async def _main(self, ready: threading.Event, failed: list[Exception]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = await asyncio.start_server(self._connected, _HOST, self._port, limit=1 << 20)
        except (OSError, OverflowError) as error:
            failed.append(error)
            ready.set()
            return
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        await self._close(server)

    async def _close(self, server: asyncio.Server) -> None:
        """Take no more connections, and end those that are open or just being opened."""
        loop = asyncio.get_running_loop()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(200):
            # Every task but this one serves a connection, or is asyncio about to open one.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if not others:
                break
            for task in others & self._connections:
                task.cancel()
            await asyncio.wait(others, timeout=0.05)
        server.close()
        await asyncio.sleep(0)  # lets the aborted transports close

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while request := await http.read_request(reader, writer):
                if not await self._respond(request, reader, writer):
                    break
        except ConnectionError:
            pass  # the client has left: there is nobody to tell
        except asyncio.CancelledError:
            # Only stop() cancels, and it waits for this task; asyncio's own callback would log a cancelled one.
            pass
        finally:
            self._connections.discard(task)
            if self._stopping.is_set():
                writer.transport.abort()
            else:
                writer.close()

    # -- answering -------------------------------------------------------------

    async def _respond(self, call: HTTPRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False ends the connection."""
        if call.method != "POST":
            # Clients knock with HEAD / or GET / to see whether anybody is there.
            await http.send_empty(writer, 200 if call.path == "/" else 404)
            return True
        try:
            body = json.loads(call.body)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            await http.send_json(writer, 400, error_body(Status(400, message="the body is no JSON object")))
            return True
        request = Request(body, path=call.path, headers=call.headers)
        if call.path == "/v1/messages/count_tokens":
            self._script.side_requests.append(request)
            await http.send_json(writer, 200, {"input_tokens": max(1, len(call.body) // 4)})
            return True
        if call.path != "/v1/messages":
            await http.send_json(writer, 404, error_body(Status(404, message=f"no such path: {call.path}")))
            return True
        return await self._reply(self._script.answer(request), request, reader, writer)

    async def _reply(
        self, reply: Turn | Status, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if isinstance(reply, Status):
            retry = {"x-should-retry": "true" if reply.retry else "false"}
            await http.send_json(writer, reply.code, error_body(reply), {**retry, **reply.headers})
            return True
        await pause(reply)
        whole = message(reply, str(request.get("model", "scripted")))
        if not request.get("stream"):
            await http.send_json(writer, 200, whole)
            return True
        await http.start_events(writer, {"request-id": f"req_{whole['id']}"})
        ready: list[dict[str, Any]] = []
        for blocks_sent, event in events(whole, reply.chunk):
            if interrupts(reply, blocks_sent, event):
                await http.send_events(writer, *ready)
                if reply.stall_after == blocks_sent:
                    await reader.read()  # returns when the client hangs up
                return False
            ready.append(event)
            if reply.pace:
                await asyncio.sleep(reply.pace)
                await http.send_events(writer, *ready)
                ready.clear()
        # In one piece, so that a tool is not called long before its message ends only because we were slow.
        await http.send_events(writer, *ready, last=True)
        return True

    # -- context managers ------------------------------------------------------

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.raise_problem(error)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
        self.raise_problem(error)
