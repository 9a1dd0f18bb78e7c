"""One request at `/mcp`: read within limits, held against what its token covers, and told of when it ended.

The body is read here, whole and once, and handed on as it came: mcp's own handling of both
protocol eras follows. What a token may do is checked twice: here, where a refusal can
still have the status 403, and in mcp's middleware chain (`Watch`), which no request gets past.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic_core import from_json

from toolkit_servers.http.answers import header, refuse
from toolkit_servers.http.auth import Grant
from toolkit_servers.http.limits import InFlight, Limits
from toolkit_servers.http.watching import AccessLog, LogEntry, Metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from toolkit_servers.http.quick import QuickCalls

EXCHANGE = "toolkit.exchange"
"""Where the scope of a request keeps its `Exchange`."""
_MOST_PROGRAMS = 10_000
_ENDLESS = frozenset({"subscriptions/listen"})
_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_CANCELLED = "notifications/cancelled"
_FORBIDDEN = -32003


class Refused(Exception):
    """A request that is not let in: its status, the rule, and the reason the client reads."""

    def __init__(self, status: int, rule: str, reason: str, *, close: bool = False, scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.rule = rule
        self.reason = reason
        self.close = close
        self.scope = scope
        """What the token would need."""


@dataclass(slots=True)
class Exchange:
    """What is known of a request while it is served."""

    client: str
    grant: Grant | None
    """What its token covers; None where there are no tokens."""
    method: str = ""
    tool: str = ""
    program: str = ""
    request_id: str | int | None = None
    status: int = 0
    outcome: str = ""
    reason: str = ""
    """The rule that refused it; not the words for the client, which may hold its own."""

    @property
    def is_request(self) -> bool:
        """Whether it is a message that is answered."""
        return self.request_id is not None and bool(self.method)


class Exchanges:
    """The way of every request to mcp's app."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        entries: Callable[[], list[dict[str, Any]]],
        limits: Limits,
        metrics: Metrics,
        log: AccessLog,
    ) -> None:
        self._app = app
        self._entries = entries
        self._limits = limits
        self._metrics = metrics
        self._log = log
        self._programs: OrderedDict[str, str] = OrderedDict()
        """What the clients of sessions call themselves."""
        self.in_flight = InFlight(limits)
        self.quick: QuickCalls | None = None
        """Answers the calls that need nothing of mcp's transports."""
        self.is_ending = False
        """New requests are refused from now on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        user = scope.get("user")
        address = scope.get("client")
        exchange = Exchange(
            client=user.display_name if user is not None else address[0] if address else "local",
            grant=None if user is None else Grant.of(user.scopes),
            method=scope["method"],
        )
        scope[EXCHANGE] = exchange
        ends = RequestEnds(exchange, receive, send)
        try:
            await self._serve(exchange, scope, ends)
            if ends.session and exchange.status == 200:
                self._opened(ends.session, exchange.program)
        except Refused as refused:
            exchange.outcome, exchange.status, exchange.reason = "refused", refused.status, refused.rule
            self._metrics.refused(refused.rule)
            await _tell(send, refused, exchange.request_id)
        except asyncio.CancelledError:
            exchange.outcome = "cancelled"
            raise
        finally:
            ends.let_go()
            scope.pop(EXCHANGE, None)
            scope.pop("extensions", None)
            self._note(exchange, time.perf_counter() - started)

    async def _serve(self, exchange: Exchange, scope: Scope, ends: RequestEnds) -> None:
        if self.is_ending and scope["method"] == "GET":
            raise Refused(503, "ending", "the server is about to end")
        if scope["method"] != "POST":
            await self._app(scope, ends.receive, ends.send)
            return
        body = await self._read(scope, ends.receive)
        message = _read_message(body)
        self._describe(exchange, scope, message)
        ends.put_back(body)
        del body
        if not exchange.is_request:
            if exchange.method == _CANCELLED and self.quick is not None:
                self.quick.cancel(header(scope, b"mcp-session-id"), message)
            await self._app(scope, ends.receive, ends.send)
            return
        if self.is_ending:
            raise Refused(503, "ending", "the server is about to end; no new call is taken", close=True)
        self._require_scope(exchange, message.get("params"))
        if exchange.method in _ENDLESS:
            await self._app(scope, ends.receive, ends.send)
            return
        refusal = self.in_flight.refusal(exchange.client)
        if refusal is not None:
            raise Refused(refusal[0], "calls", refusal[1])
        with self.in_flight.one(exchange.client):
            quick = None if self.quick is None else self.quick.match(scope, message)
            if quick is None or self.quick is None:
                await self._app(scope, ends.receive, ends.send)
            else:
                await self.quick.answer(quick, exchange, scope, ends.send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, within the limits of size and time."""
        largest = self._limits.max_body
        said = header(scope, b"content-length")
        if said.isdigit() and int(said) > largest:
            raise Refused(413, "body", f"the body has more than {largest} bytes", close=True)
        first = await self._receive_within(receive, self._limits.body_seconds)
        if not first.get("more_body"):
            body: bytes = first.get("body", b"")
        else:
            body = await self._read_on(first, receive)
        if len(body) > largest:
            raise Refused(413, "body", f"the body has more than {largest} bytes", close=True)
        return body

    async def _read_on(self, first: Message, receive: Receive) -> bytes:
        body = bytearray(first.get("body", b""))
        until = time.monotonic() + self._limits.body_seconds
        while len(body) <= self._limits.max_body:
            message = await self._receive_within(receive, until - time.monotonic())
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        return bytes(body)

    async def _receive_within(self, receive: Receive, seconds: float) -> Message:
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            reason = f"the body took longer than {self._limits.body_seconds:g} s"
            raise Refused(408, "slow", reason, close=True) from None
        if message["type"] == "http.disconnect":
            raise Refused(499, "gone", "the client closed the connection", close=True)
        return message

    def _describe(self, exchange: Exchange, scope: Scope, message: Mapping[str, Any]) -> None:
        """Fill in what the message says of itself; nothing of it is believed but in the log."""
        method, params, given = message.get("method"), message.get("params"), message.get("id")
        exchange.method = method if isinstance(method, str) else scope["method"]
        if isinstance(method, str) and isinstance(given, str | int) and not isinstance(given, bool):
            exchange.request_id = given
        params = params if isinstance(params, dict) else {}
        name = params.get("name")
        exchange.tool = name if isinstance(name, str) and exchange.method in ("tools/call", "prompts/get") else ""
        session = header(scope, b"mcp-session-id")
        if session:
            exchange.program = self._programs.get(session, "")
            return
        meta = params.get("_meta")
        info = params.get("clientInfo") or (meta.get(_CLIENT_INFO) if isinstance(meta, dict) else None)
        program = info.get("name") if isinstance(info, dict) else None
        exchange.program = program[:200] if isinstance(program, str) else ""

    def _require_scope(self, exchange: Exchange, params: object) -> None:
        if exchange.grant is None or exchange.grant.everything:
            return
        missing = exchange.grant.missing(exchange.method, params if isinstance(params, dict) else {}, self._entries())
        if missing is not None:
            what = f"may not use '{exchange.tool[:128]}'" if exchange.tool else f"does not cover {exchange.method[:64]}"
            raise Refused(403, "scope", f"the token '{exchange.client}' {what}", scope=missing)

    def _note(self, exchange: Exchange, seconds: float) -> None:
        outcome = exchange.outcome or ("ok" if exchange.status < 400 else "failed")
        if exchange.method == "tools/call" and outcome != "refused":
            known = any(entry["name"] == exchange.tool for entry in self._entries())
            self._metrics.called(exchange.tool if known else "unknown", outcome, seconds)
        if self._log.is_on:
            self._log.write(
                LogEntry(
                    exchange.method,
                    exchange.tool,
                    outcome,
                    exchange.status,
                    seconds * 1000,
                    exchange.client,
                    exchange.program,
                    exchange.reason,
                )
            )

    def _opened(self, session: str, program: str) -> None:
        """Remember what the client of a new session calls itself."""
        self._programs[session] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.popitem(last=False)

    async def watch(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The same in mcp's middleware chain: what a token does not cover is not reached, nor seen in a list."""
        exchange = None if ctx.request is None else ctx.request.scope.get(EXCHANGE)
        if exchange is None:
            return await call_next(ctx)
        grant = exchange.grant
        if grant is not None and not grant.everything and ctx.request_id is not None:
            missing = grant.missing(ctx.method, ctx.params or {}, self._entries())
            if missing is not None:
                raise MCPError(_FORBIDDEN, f"the token does not cover this: it needs the scope {missing}")
        try:
            result = await call_next(ctx)
        except asyncio.CancelledError:
            exchange.outcome = "cancelled"
            raise
        except BaseException:
            exchange.outcome = "failed"
            raise
        if isinstance(result, dict):
            if result.get("isError") is True:
                exchange.outcome = "error"
            if grant is not None:
                return dict(grant.visible(ctx.method, result))
        return result


class RequestEnds:
    """The two directions of a request as mcp gets them; `let_go` drops what belongs to the connection.

    A session of mcp keeps its last request, and with it the connection, its buffers and the body.
    """

    __slots__ = ("_body", "_exchange", "_receive", "_send", "session")

    def __init__(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        self._exchange: Exchange | None = exchange
        self._receive: Receive | None = receive
        self._send: Send | None = send
        self._body: bytes | None = None
        self.session = ""
        """The session that the answer opens or belongs to."""

    def put_back(self, body: bytes) -> None:
        """Let the body be received again."""
        self._body = body

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return {"type": "http.disconnect"} if self._receive is None else await self._receive()

    async def send(self, message: Message) -> None:
        if self._send is None or self._exchange is None:
            return
        if message["type"] == "http.response.start":
            self._exchange.status = message["status"]
            if self._exchange.method == "initialize":
                found = (value for key, value in message["headers"] if key == b"mcp-session-id")
                self.session = next(found, b"").decode("latin-1")
        await self._send(message)

    def let_go(self) -> None:
        """The request is over."""
        self._exchange = self._receive = self._send = self._body = None


def _read_message(body: bytes) -> Mapping[str, Any]:
    try:
        message = from_json(body, cache_strings="keys")
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


async def _tell(send: Send, refused: Refused, request_id: str | int | None) -> None:
    if refused.status == 499:
        return
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if refused.scope:
        challenge = f'Bearer error="insufficient_scope", scope="{refused.scope}"'
        headers = ((b"www-authenticate", challenge.encode("latin-1", "replace")),)
    busy = refused.status in (429, 503)
    await refuse(
        send,
        refused.status,
        refused.reason,
        request_id=request_id,
        close=refused.close,
        retry_after=1 if busy else None,
        headers=headers,
    )
