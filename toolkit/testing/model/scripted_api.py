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
from typing import Any, Self

from toolkit.errors import TestingError
from toolkit.testing.model._connection import Connection, HTTPRequest
from toolkit.testing.model.request import Request
from toolkit.testing.model.script import Script, Scripted
from toolkit.testing.model.stream import error_body, events, interrupts, message, pause
from toolkit.testing.model.turns import Status, Turn, TurnLike

_HOST = "127.0.0.1"


class ScriptedAPI(Scripted):
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

    @property
    def url(self) -> str:
        """The address for `ANTHROPIC_BASE_URL`."""
        if self._thread is None:
            raise TestingError(
                "the scripted API is not running", fix="Use it in a with block: with ScriptedAPI(…) as api:"
            )
        return f"http://{_HOST}:{self._port}"

    def start(self) -> Self:
        """Begin to serve; returns once the port is open."""
        if self._thread is not None:
            raise TestingError("this scripted API is already running", fix="Make a new one for every run.")
        ready = threading.Event()
        failed: list[Exception] = []
        serve = self._serve(ready, failed)
        thread = threading.Thread(target=asyncio.run, args=(serve,), name="scripted-api", daemon=True)
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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *ended: Any) -> None:
        self.stop()
        super().__exit__(*ended)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *ended: Any) -> None:
        await asyncio.to_thread(self.stop)
        super().__exit__(*ended)

    async def _serve(self, ready: threading.Event, failed: list[Exception]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = await asyncio.start_server(self._connected, _HOST, self._port)
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
        connection = Connection(reader, writer)
        try:
            while call := await connection.next_call():
                if not await self._respond(connection, call):
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

    async def _respond(self, connection: Connection, call: HTTPRequest) -> bool:
        """Answer one call; False ends the connection."""
        if call.method != "POST":
            # Clients knock with HEAD / or GET / to see whether anybody is there.
            await connection.send_empty(200 if call.path == "/" else 404)
            return True
        try:
            body = json.loads(call.body)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            await connection.send_json(400, error_body(Status(400, message="the body is no JSON object")))
            return True
        request = Request(body, path=call.path, headers=call.headers)
        if call.path == "/v1/messages/count_tokens":
            self.script.side_requests.append(request)
            await connection.send_json(200, {"input_tokens": max(1, len(call.body) // 4)})
            return True
        if call.path != "/v1/messages":
            await connection.send_json(404, error_body(Status(404, message=f"no such path: {call.path}")))
            return True
        reply = self.script.answer(request)
        if isinstance(reply, Status):
            retry = {"x-should-retry": "true" if reply.retry else "false"}
            await connection.send_json(reply.code, error_body(reply), {**retry, **reply.headers})
            return True
        await pause(reply)
        whole = message(reply, str(request.get("model", "scripted")))
        if request.get("stream"):
            return await _stream(connection, reply, whole)
        await connection.send_json(200, whole)
        return True


async def _stream(connection: Connection, turn: Turn, whole: dict[str, Any]) -> bool:
    """Send a message as events; False if the turn wants the connection to end within them."""
    await connection.start_events({"request-id": f"req_{whole['id']}"})
    ready: list[dict[str, Any]] = []
    for blocks_sent, event in events(whole, turn.chunk):
        if interrupts(turn, blocks_sent, event):
            await connection.send_events(*ready)
            if turn.stall_after == blocks_sent:
                await connection.until_left()
            return False
        ready.append(event)
        if turn.pace:
            await asyncio.sleep(turn.pace)
            await connection.send_events(*ready)
            ready.clear()
    # In one piece, so that a tool is not called long before its message ends only because we were slow.
    await connection.send_events(*ready, last=True)
    return True
