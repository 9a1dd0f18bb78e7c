"""A Toolbox becomes an `mcp.server.Server`, the same one for every way of serving.

Tools, resources and prompts are looked up in `ToolServer.toolbox` on every request, so that another
Toolbox can take its place while clients stay connected. A well-formed tools/call or
tools/list is answered without mcp's typed models: the Toolbox checks arguments
itself and its replies are in wire form already. Everything else, and every
malformed request, takes mcp's own way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    CallToolRequestParams,
    EmptyResult,
    PaginatedRequestParams,
    ServerCapabilities,
    SetLevelRequestParams,
    methods,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from toolkit._base.json_bytes import as_read
from toolkit.tools import ToolContext
from toolkit.tools.calling import waits_for_answer
from toolkit_servers.offering import changed_kinds, offers_more_than_tools
from toolkit_servers.protocol.offer import TOOL_USE_ID, Offer
from toolkit_servers.protocol.reports import CallReports
from toolkit_servers.protocol.shapes import has_envelope, is_call, is_listing
from toolkit_servers.telling import Changes, SessionNotifier
from toolkit_servers.tracing import enter_trace

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit.tools.asking import Asking
    from toolkit_servers.asking import InputRequiredAsking, StateSeal

_Context = ServerRequestContext[Any, Any]
Run = Callable[[ToolContext], Awaitable[dict[str, Any]]]
"""Answers a request with the context that a function of the user sees."""

_MOST_REMEMBERED = 1000
"""Log levels kept."""


def build_server(
    box: Toolbox,
    *,
    notifies: bool = True,
    reloads: bool = False,
    make_context: Callable[[str], ToolContext] | None = None,
) -> ToolServer:
    """An mcp server for the tools of `box`.

    `notifies` sends a tool's progress and log messages to the client. `reloads` tells clients
    that the tools may change; `swap` puts others in their place.
    `make_context` gives a call, by its id, the context of a run instead of the client's own.
    """
    return ToolServer(Offer(box, notifies=notifies, reloads=reloads), make_context=make_context)


class ToolServer(Server[Any]):
    """An mcp server whose tools are those of a Toolbox."""

    def __init__(self, offer: Offer, *, make_context: Callable[[str], ToolContext] | None = None) -> None:
        super().__init__(
            offer.server_info["name"],
            version=offer.server_info["version"],
            instructions=offer.instructions,
            get_tool_input_schema=self._input_schema,
        )
        self._seal: StateSeal | None = None
        self.changes = Changes()
        """Who is told when something changes."""
        self._offer = offer
        self._serves_offers = False
        self.toolbox = offer.toolbox
        self._make_context = make_context
        self._log_levels: dict[str | None, str] = {}
        self._checked: dict[bool, dict[str, Any]] = {}
        self.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        self.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        if offer.notifies:
            self.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_log_level)
        if offer.reloads:
            self.changes.listen_on(self)
        # mcp validates every request and result with pydantic models, several times. What the Toolbox
        # checks itself goes past that (tests/bench/bench_stdio.py has the difference).
        self.middleware.append(self._shortcut)

    @property
    def toolbox(self) -> Toolbox:
        """What the next request is answered from."""
        return self._offer.toolbox

    @toolbox.setter
    def toolbox(self, box: Toolbox) -> None:
        self._offer.toolbox = box
        if offers_more_than_tools(box) and not self._serves_offers:
            from toolkit_servers.offers import register

            self._serves_offers = True
            register(self)
            if self._offer.notifies:
                self.changes.listen_on(self)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """What the box offers now, the same in both eras."""
        found = self._offer.capabilities()
        extensions = extensions if extensions is not None else (self.extensions or None)
        more = {"experimental": experimental_capabilities, "extensions": extensions}
        return ServerCapabilities.model_validate({**found, **more})

    @property
    def is_plain(self) -> bool:
        """Whether a tool that takes no context can be called past this server: nothing else would know of the call."""
        return self._make_context is None

    @property
    def own_middleware(self) -> list[Any]:
        """What others have put into the way of a request."""
        return [each for each in self.middleware if each != self._shortcut]

    def stamped(self, result: dict[str, Any]) -> dict[str, Any]:
        """A result with what 2026-07-28 wants in every one."""
        return self._offer.stamped(result)

    async def swap(self, box: Toolbox) -> None:
        """Put another box in place of the one before, and tell every connected client."""
        kinds = changed_kinds(self.toolbox, box)
        self.toolbox = box
        for kind in kinds:
            await self.changes.tell(kind)

    async def _shortcut(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:  # a notification, whatever its method
            return await call_next(ctx)
        params = ctx.params or {}
        modern = _is_modern(ctx)
        if ctx.method in ("tools/call", "tools/list") and not modern and has_envelope(params):
            raise MCPError(INVALID_REQUEST, "this connection uses the handshake, not the 2026-07-28 envelope")
        if modern or ctx.session.client_params is not None:  # else mcp has not let this client in
            if ctx.method == "tools/call" and is_call(params, modern=modern):
                return await self._call(ctx, params)
            if ctx.method == "tools/list" and is_listing(params, modern=modern):
                return self._listing(modern=modern)
        if ctx.method == "initialize" and self._offer.is_live:
            self.changes.greet(ctx.session)
        return await call_next(ctx)

    async def _call(self, ctx: _Context, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one tool and return the result in wire form."""
        box = self.toolbox

        async def run(context: ToolContext) -> dict[str, Any]:
            return (await box.call(params["name"], params.get("arguments") or {}, context)).wire()

        result = await self.answer(ctx, run)
        return self._offer.stamped(result) if _is_modern(ctx) else result

    async def answer(self, ctx: _Context, run: Run) -> dict[str, Any]:
        """Let `run` answer a request from a function of the user, with the context that the function sees."""
        if not _is_modern(ctx):
            return await self._answered(ctx, run)
        if (ctx.params or {}).get("requestState") is None:
            result = await self._answered(ctx, run)
            return result if "requestState" not in result else await self._sealed(ctx, _given(result))
        return await self._sealed(ctx, lambda opened: self._answered(opened, run))

    async def _answered(self, ctx: _Context, run: Run) -> dict[str, Any]:
        meta: Mapping[str, Any] = (ctx.params or {}).get("_meta") or {}
        call_id = str(meta.get(TOOL_USE_ID) or ctx.request_id)
        notifier = SessionNotifier(ctx.session, ctx.request_id)
        reports = CallReports(notifier, self._lowest_level(ctx, meta, modern=_is_modern(ctx)))
        asked: list[InputRequiredAsking] = []
        if self._make_context is not None:
            context = self._make_context(call_id)
        else:
            enter_trace(meta, call_id)
            context = ToolContext(
                call_id=call_id,
                on_progress=reports.progress if self._offer.notifies else None,
                on_log=reports.log if self._offer.notifies else None,
                on_changed=(lambda what: reports.put(lambda: self.changes.tell(what)))
                if self._offer.notifies
                else None,
                asking=(lambda: _asking(ctx, asked)) if self._offer.notifies else None,
                session=_session_of(ctx),
            )
        try:
            result = await run(context)
            await reports.finish()
        except MCPError as error:  # the function answers with a protocol error
            await reports.finish()
            raise MCPError(error.code, as_read(error.message), as_read(error.data)) from error
        except BaseException as error:
            if asked and waits_for_answer(error):
                await reports.finish()
                return asked[0].result()
            reports.drop()
            raise
        return result

    async def _sealed(self, ctx: _Context, call_next: Callable[[_Context], Awaitable[HandlerResult]]) -> dict[str, Any]:
        """What a client carries for us between two requests can neither be read nor changed by it."""
        if self._seal is None:
            from toolkit_servers.asking import StateSeal

            self._seal = StateSeal(self.name)
        result = await self._seal.around(ctx, call_next)
        assert isinstance(result, dict)
        return result

    def _listing(self, *, modern: bool) -> dict[str, Any]:
        """The tools/list result, checked against the protocol once for each Toolbox and era."""
        result = self._offer.listing(modern=modern)
        if self._checked.get(modern) is not result:
            version = (MODERN_PROTOCOL_VERSIONS if modern else HANDSHAKE_PROTOCOL_VERSIONS)[-1]
            methods.validate_server_result("tools/list", version, result)
            self._checked[modern] = result
        return result

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


def _asking(ctx: _Context, asked: list[InputRequiredAsking]) -> Asking:
    """Who answers the questions of one request; in 2026-07-28 it is noted what they were."""
    from toolkit_servers.asking import HandshakeAsking, InputRequiredAsking

    if not _is_modern(ctx):
        return HandshakeAsking(ctx)
    asked.append(InputRequiredAsking(ctx))
    return asked[0]


def _given(result: dict[str, Any]) -> Callable[[_Context], Awaitable[HandlerResult]]:
    async def give(ctx: _Context) -> HandlerResult:
        return result

    return give


def _is_modern(ctx: _Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _session_of(ctx: _Context) -> str | None:
    """The HTTP session a request belongs to; None where one server has one client."""
    return None if ctx.request is None else ctx.request.headers.get("mcp-session-id")
