"""A Toolbox becomes an `mcp.server.Server`, the same one for every way of serving.

The tools are looked up in `ToolServer.toolbox` on every request, so that another
Toolbox can take its place while clients stay connected. A well-formed tools/call or
tools/list is answered without mcp's typed models: the Toolbox checks arguments
itself and its replies are in wire form already. Everything else, and every
malformed request, takes mcp's own way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, get_args

import anyio
from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    EmptyResult,
    ListToolsResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    RequestId,
    SetLevelRequestParams,
    SubscriptionsListenRequestParams,
    methods,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from toolkit._base.json_bytes import as_read
from toolkit.tools import ToolContext
from toolkit_servers.tracing import enter_trace
from toolkit_servers.wire import JsonList

if TYPE_CHECKING:
    from toolkit.tools import Toolbox

_Context = ServerRequestContext[Any, Any]

TOOL_USE_ID = "claudecode/toolUseId"
_MOST_REMEMBERED = 1000
"""Connections that are told about changed tools, and log levels kept."""
_TELLING_SECONDS = 1.0
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""From debug to emergency."""
_MOST_WAITING = 256
"""A client that reads slower than the tool reports loses the oldest reports."""

_Send = Callable[[], Coroutine[Any, Any, None]]


def build_server(
    box: Toolbox,
    *,
    notifies: bool = True,
    reloads: bool = False,
    make_context: Callable[[str], ToolContext] | None = None,
) -> ToolServer:
    """An mcp server for the tools of `box`.

    `notifies` sends a tool's progress and log messages to the client. `reloads` tells clients
    that the tools may change; put others into `toolbox` and call `announce` when they did.
    `make_context` gives a call, by its id, the context of a run instead of the client's own.
    """
    return ToolServer(box, notifies=notifies, reloads=reloads, make_context=make_context)


class ToolServer(Server[Any]):
    """An mcp server whose tools are those of a Toolbox."""

    def __init__(
        self, box: Toolbox, *, notifies: bool, reloads: bool, make_context: Callable[[str], ToolContext] | None = None
    ) -> None:
        super().__init__(
            box.name, version=box.version, instructions=box.instructions, get_tool_input_schema=self._input_schema
        )
        self.toolbox = box
        """The tools of the next request."""
        self._notifies = notifies
        self._reloads = reloads
        self._make_context = make_context
        self._bus = InMemorySubscriptionBus()
        self._greeted: deque[ServerSession] = deque(maxlen=_MOST_REMEMBERED)
        self._log_levels: dict[str | None, str] = {}
        self._listed: tuple[Toolbox, dict[bool, dict[str, Any]]] = (box, {})
        self._stamp = self.server_info.model_dump(by_alias=True, mode="json", exclude_none=True)
        self.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        self.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        if notifies:
            self.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_log_level)
        if reloads:
            self.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(self._bus))
        # mcp validates every request and result with pydantic models, several times. What the Toolbox
        # checks itself goes past that (tests/bench/bench_stdio.py has the difference).
        self.middleware.append(self._shortcut)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=self._reloads)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    async def announce(self) -> None:
        """Tell every connected client that the tools changed; one that does not read is not waited for."""
        async with anyio.create_task_group() as tasks:
            for session in self._greeted:
                tasks.start_soon(_tell, session)
        await self._bus.publish(ToolsListChanged())

    async def _shortcut(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        if ctx.method == "tools/call":
            if type(params.get("name")) is str and _has_plain(params, "arguments", "_meta") and _may_enter(ctx, params):
                return await self._call(ctx, params)
        elif ctx.method == "tools/list":
            if params.keys() <= {"_meta"} and _has_plain(params, "_meta") and _may_enter(ctx, params):
                return self._listing(modern=_is_modern(ctx))
        elif ctx.method == "initialize" and self._reloads:
            self._greeted.append(ctx.session)
        return await call_next(ctx)

    async def _call(self, ctx: _Context, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one tool and return the result in wire form."""
        modern = _is_modern(ctx)
        meta: Mapping[str, Any] = params.get("_meta") or {}
        call_id = str(meta.get(TOOL_USE_ID) or ctx.request_id)
        reports = CallReports(ctx.session, ctx.request_id, self._lowest_level(ctx, meta, modern=modern))
        if self._make_context is not None:
            context = self._make_context(call_id)
        else:
            enter_trace(meta, call_id)
            context = ToolContext(
                call_id=call_id,
                on_progress=reports.progress if self._notifies else None,
                on_log=reports.log if self._notifies else None,
                session=_session_of(ctx),
            )
        try:
            reply = await self.toolbox.call(params["name"], params.get("arguments") or {}, context)
            await reports.finish()
        except MCPError as error:  # the tool answers with a protocol error
            await reports.finish()
            raise MCPError(error.code, as_read(error.message), as_read(error.data)) from error
        except BaseException:
            reports.drop()
            raise
        result = reply.wire()
        return self._stamped(result) if modern else result

    def _stamped(self, result: dict[str, Any]) -> dict[str, Any]:
        """What 2026-07-28 wants in every result."""
        return {**result, "resultType": "complete", "_meta": {SERVER_INFO_META_KEY: self._stamp}}

    def _listing(self, *, modern: bool) -> dict[str, Any]:
        """The tools/list result, checked against the protocol once for each Toolbox and era."""
        box = self.toolbox
        if self._listed[0] is not box:
            self._listed = (box, {})
        ready = self._listed[1]
        if modern not in ready:
            result: dict[str, Any] = {"tools": JsonList(box.listing())}
            if modern:
                defaults = ListToolsResult(tools=[]).model_dump(by_alias=True, mode="json", exclude_none=True)
                result = self._stamped({**defaults, **result})
            version = (MODERN_PROTOCOL_VERSIONS if modern else HANDSHAKE_PROTOCOL_VERSIONS)[-1]
            methods.validate_server_result("tools/list", version, result)
            ready[modern] = result
        return ready[modern]

    async def _list_tools(self, ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:
        return self._listing(modern=_is_modern(ctx))

    async def _call_tool(self, ctx: _Context, params: CallToolRequestParams) -> HandlerResult:
        return await self._call(ctx, ctx.params or {})

    async def _set_log_level(self, ctx: _Context, params: SetLevelRequestParams) -> HandlerResult:
        if len(self._log_levels) >= _MOST_REMEMBERED:
            del self._log_levels[next(iter(self._log_levels))]
        self._log_levels[_session_of(ctx)] = params.level
        return EmptyResult()

    def _lowest_level(self, ctx: _Context, meta: Mapping[str, Any], *, modern: bool) -> str | None:
        """The least severe log message this client wants; None when it wants none."""
        if modern:
            level = meta.get(LOG_LEVEL_META_KEY)
            return level if isinstance(level, str) else None
        return self._log_levels.get(_session_of(ctx), "debug")

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        entry = next((entry for entry in self.toolbox.listing() if entry["name"] == name), None)
        return None if entry is None else entry["inputSchema"]


async def _tell(session: ServerSession) -> None:
    with anyio.move_on_after(_TELLING_SECONDS):
        await session.send_tool_list_changed()


def _is_modern(ctx: _Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _may_enter(ctx: _Context, params: Mapping[str, Any]) -> bool:
    """Whether mcp has let this client in already; if not, mcp answers it.

    Raises what mcp answers when the envelope of a 2026-07-28 request is malformed, or sent
    in the handshake era.
    """
    if _is_modern(ctx):
        methods.validate_client_request(ctx.method, ctx.protocol_version, params)
        return True
    if PROTOCOL_VERSION_META_KEY in (params.get("_meta") or ()):
        raise MCPError(INVALID_REQUEST, "this connection uses the handshake, not the 2026-07-28 envelope")
    return ctx.session.client_params is not None


def _has_plain(params: Mapping[str, Any], *keys: str) -> bool:
    """Whether each of these is an object or left out."""
    return all(value is None or type(value) is dict for value in map(params.get, keys))


def _session_of(ctx: _Context) -> str | None:
    """The HTTP session a request belongs to; None where one server has one client."""
    return None if ctx.request is None else ctx.request.headers.get("mcp-session-id")


class CallReports:
    """Progress and log messages of one call: sent in the order they were made, all before its result.

    Taking one returns at once; a task sends them.
    """

    def __init__(self, session: ServerSession, request_id: RequestId | None, lowest_level: str | None) -> None:
        self._session = session
        self._request_id = request_id
        self._lowest_level = lowest_level
        self._waiting: deque[_Send] = deque(maxlen=_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self._put(lambda: self._session.report_progress(done, total, message))

    def log(self, level: str, message: str, data: Any) -> None:
        """Send a log message, unless the client asked for more severe ones only."""
        known: LoggingLevel = next((name for name in _LEVELS if name == level), "info")
        if self._lowest_level not in _LEVELS or _LEVELS.index(known) < _LEVELS.index(self._lowest_level):
            return
        body = message if data is None else {"message": message, "data": data}
        params = LoggingMessageNotificationParams(level=known, data=body)
        notification = LoggingMessageNotification(params=params)
        self._put(lambda: self._session.send_notification(notification, related_request_id=self._request_id))

    async def finish(self) -> None:
        """Wait until every report is sent; later ones are dropped."""
        self._closed = True
        if self._task is not None:
            await self._task
        await self._send_all()

    def drop(self) -> None:
        """Send nothing more: the client cancelled the call."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def _put(self, send: _Send) -> None:
        if self._closed:
            return
        self._waiting.append(send)
        if self._task is None or self._task.done():
            with contextlib.suppress(RuntimeError):  # not asyncio: they are sent when the call ends
                self._task = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._waiting:
            # What one report holds (data that is no JSON, say) must not cost the others or the result.
            with contextlib.suppress(Exception):
                await self._waiting.popleft()()
