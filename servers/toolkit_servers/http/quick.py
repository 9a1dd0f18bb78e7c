"""Calls that leave no doubt are answered in the task of their request, as plain JSON.

mcp's transports pass a call through several tasks and streams, because a tool may report progress or ask something
while it runs. A tool that takes no ToolContext can do neither. Where such a tool is called, in the ordinary form and
with the ordinary headers, it is run here; every other request takes mcp's way. Written by us for the bound in
tests/bench/bench_http.py; tests/serving/test_http_quick.py plays the same requests both ways and compares the answers.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.auth.middleware.bearer_auth import authorization_context
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, X_MCP_HEADER_KEY

from toolkit._base.json_bytes import as_read, json_bytes
from toolkit_servers.build import ToolServer
from toolkit_servers.http.connection import CONNECTION
from toolkit_servers.protocol.offer import HANDSHAKE_VERSIONS, MODERN_VERSION
from toolkit_servers.protocol.shapes import is_call
from toolkit_servers.protocol.wire import error_line, result_line

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from starlette.types import Scope, Send

    from toolkit.tools import Tool
    from toolkit_servers.http.exchange import Exchange

PING_SECONDS = 15.0
"""A call that takes longer sends signs of life, so that no proxy closes the connection."""
_CANCELLED = -32800
_KEYS = {"jsonrpc", "id", "method", "params"}
_ACCEPTED = {b"application/json, text/event-stream", b"application/json,text/event-stream", b"*/*"}


@dataclass(slots=True, eq=False)
class QuickCall:
    """A call that can be answered here, and how."""

    request_id: str | int
    tool: Tool[..., Any]
    arguments: Mapping[str, Any]
    modern: bool
    session: str | None = None
    transport: StreamableHTTPServerTransport | None = None
    task: asyncio.Task[Any] | None = None
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Nobody waits any more."""
        if self.task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel()


class QuickCalls:
    """Finds the calls that need nothing of mcp's transports, and answers them."""

    def __init__(self, server: Server[Any], watch: object) -> None:
        self._server = server
        self._watch = watch
        self._running: dict[tuple[str, str | int], QuickCall] = {}

    def match(self, scope: Scope, message: Mapping[str, Any]) -> QuickCall | None:
        """The call in a request, if it can be answered here."""
        if message.get("method") != "tools/call" or message.keys() != _KEYS or message["jsonrpc"] != "2.0":
            return None
        params, request_id = message["params"], message["id"]
        if type(params) is not dict or type(request_id) not in (str, int) or not self._is_plain():
            return None
        headers = dict(scope["headers"])
        if len(headers) != len(scope["headers"]) or headers.get(b"accept") not in _ACCEPTED:
            return None
        if headers.get(b"content-type") != b"application/json":
            return None
        tool = self._tool(params.get("name"))
        if tool is None:
            return None
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        if version == MODERN_VERSION:
            return self._modern(scope, headers, request_id, params, tool)
        return self._in_session(scope, headers, version, request_id, params, tool)

    def cancel(self, session: str, message: Mapping[str, Any]) -> bool:
        """Cancel the call that a client of the handshake era names; whether there is such a call."""
        params = message.get("params")
        given = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(given, str | int) or isinstance(given, bool):
            return False
        call = self._running.get((session, coerce_request_id(given)))
        if call is not None:
            call.cancel()
        return call is not None

    async def answer(self, call: QuickCall, exchange: Exchange, scope: Scope, send: Send) -> None:
        """Run the tool and send its reply."""
        call.task = asyncio.current_task()
        key = None if call.session is None else (call.session, coerce_request_id(call.request_id))
        connection = (scope.get("extensions") or {}).get(CONNECTION)
        if key is not None:
            self._running[key] = call
        elif connection is not None:
            connection.on_lost = call.cancel
        if call.transport is not None:
            _hold(call.transport)
        answering = _Answering(call, send)
        try:
            status, body = await self._run(call, exchange)
            call.task = None  # from here on there is nothing to cancel
            await answering.finish(status, body)
        finally:
            answering.stop()
            if key is not None:
                self._running.pop(key, None)
            elif connection is not None:
                connection.on_lost = None
            if call.transport is not None:
                _release(call.transport)

    async def _run(self, call: QuickCall, exchange: Exchange) -> tuple[int, bytes]:
        try:
            reply = await call.tool.invoke(call.arguments)
        except MCPError as error:  # the tool answers with a protocol error
            exchange.outcome = "failed"
            status = ERROR_CODE_HTTP_STATUS.get(error.code, 200) if call.modern else 200
            return status, error_line(call.request_id, error.code, as_read(error.message), as_read(error.data))
        except asyncio.CancelledError:
            if not call.is_cancelled or call.task is None:
                raise
            call.task.uncancel()
            exchange.outcome = "cancelled"
            return 200, error_line(call.request_id, _CANCELLED, "Request cancelled")
        if call.is_cancelled and call.task is not None:
            call.task.uncancel()  # the tool did not mind
        if reply.is_error:
            exchange.outcome = "error"
        result = reply.wire()
        if call.modern:
            assert isinstance(self._server, ToolServer)
            result = self._server.stamped(result)
        return 200, result_line(call.request_id, result)

    def _is_plain(self) -> bool:
        """Whether nothing looks at the calls of this server but what we know."""
        server = self._server
        return (
            type(server) is ToolServer
            and server.is_plain
            and "opentelemetry.sdk.trace" not in sys.modules
            and all(each == self._watch or isinstance(each, OpenTelemetryMiddleware) for each in server.own_middleware)
        )

    def _tool(self, name: object) -> Tool[..., Any] | None:
        assert isinstance(self._server, ToolServer)
        tool = self._server.toolbox.tools.get(name) if isinstance(name, str) else None
        if tool is None or tool.takes_context:
            return None
        is_mirrored = tool.__dict__.get("_is_mirrored")
        if is_mirrored is None:
            is_mirrored = tool.__dict__["_is_mirrored"] = X_MCP_HEADER_KEY.encode() in json_bytes(tool.input_schema)
        return None if is_mirrored else tool

    def _modern(
        self,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        request_id: str | int,
        params: dict[str, Any],
        tool: Tool[..., Any],
    ) -> QuickCall | None:
        named = headers.get(b"mcp-method") == b"tools/call" and headers.get(b"mcp-name") == tool.name.encode()
        # Without a connection of ours nobody would tell that the client is gone, which cancels the call.
        followed = CONNECTION in (scope.get("extensions") or ())
        if not named or not followed or not is_call(params, modern=True):
            return None
        if b"mcp-session-id" in headers or any(name.startswith(b"mcp-param-") for name in headers):
            return None
        return QuickCall(request_id, tool, params.get("arguments") or {}, modern=True)

    def _in_session(
        self,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        version: str,
        request_id: str | int,
        params: dict[str, Any],
        tool: Tool[..., Any],
    ) -> QuickCall | None:
        session = headers.get(b"mcp-session-id", b"").decode("latin-1")
        manager = self._server.session_manager
        transport = manager._server_instances.get(session)
        if transport is None or transport.is_terminated or (version and version not in HANDSHAKE_VERSIONS):
            return None
        user = scope.get("user")
        owner = None if user is None else authorization_context(user)
        if owner != manager._session_owners.get(session) or not is_call(params, modern=False):
            return None
        if (session, coerce_request_id(request_id)) in self._running:
            return None
        if transport.idle_scope is not None and transport.idle_scope.cancel_called:
            return None
        return QuickCall(request_id, tool, params.get("arguments") or {}, False, session, transport)


class _Answering:
    """Sends one JSON answer; for a call that takes long, an event stream that begins with signs of life."""

    def __init__(self, call: QuickCall, send: Send) -> None:
        self._send = send
        self._session = call.session
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._timer = asyncio.get_running_loop().call_later(PING_SECONDS, self._begin)

    async def finish(self, status: int, line: bytes) -> None:
        """Send the answer."""
        self._timer.cancel()
        if self._task is None:
            body = line[:-1]
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await self._send({"type": "http.response.start", "status": status, "headers": self._with_session(headers)})
            await self._send({"type": "http.response.body", "body": body})
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._has_begun:
            await self._start()
        await self._send({"type": "http.response.body", "body": b"event: message\r\ndata: %b\r\n\r\n" % line[:-1]})

    def stop(self) -> None:
        """Send nothing more."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._ping())

    async def _ping(self) -> None:
        await self._start()
        while True:
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(PING_SECONDS)

    async def _start(self) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
        self._has_begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": self._with_session(headers)})

    def _with_session(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        return headers if self._session is None else [*headers, (b"mcp-session-id", self._session.encode("latin-1"))]


def _hold(transport: StreamableHTTPServerTransport) -> None:
    """A session with a request under way does not expire, as in mcp's `handle_request`."""
    if transport.idle_scope is not None:
        transport._requests_in_flight += 1
        transport.idle_scope.deadline = math.inf


def _release(transport: StreamableHTTPServerTransport) -> None:
    if transport.idle_scope is not None and transport._idle_timeout is not None:
        transport._requests_in_flight -= 1
        if not transport._requests_in_flight:
            # anyio's clock is the loop's, which is this one.
            transport.idle_scope.deadline = time.monotonic() + transport._idle_timeout
