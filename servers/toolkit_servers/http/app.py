"""The ASGI app: the door, the lock, the exchange, and mcp's own app behind them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings

from toolkit._base.json_bytes import json_bytes
from toolkit.errors import ToolkitError
from toolkit_servers.http.answers import answer
from toolkit_servers.http.auth import Lock, Login, asked_url, resource_metadata
from toolkit_servers.http.door import HostGuard, is_loopback
from toolkit_servers.http.exchange import Exchanges
from toolkit_servers.http.limits import Limits
from toolkit_servers.http.quick import QuickCalls
from toolkit_servers.http.watching import AccessLog, LogEntry, Metrics, Pages
from toolkit_servers.telling.resuming import ResumableSessions, app_of

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
_METADATA = "/.well-known/oauth-protected-resource"


class HttpApp:
    """An ASGI app that answers at `/mcp`, `/health` and `/metrics`; it needs its lifespan run."""

    def __init__(
        self,
        server: Server[Any],
        *,
        host: str = "127.0.0.1",
        allowed_hosts: Collection[str] = (),
        login: Login | None = None,
        no_auth: bool = False,
        limits: Limits | None = None,
        log: AccessLog | None = None,
        public_url: str | None = None,
    ) -> None:
        require_login(host, login, no_auth=no_auth)
        self._server = server
        self._login = login
        self._public_url = public_url
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.log = log or AccessLog("off")
        self.exchanges = self._exchanges()
        pages = Pages(self.metrics, lambda: len(self._entries()), lambda: self.exchanges.is_ending)
        self._ways: dict[str, ASGIApp] = {
            PATH: self._locked(self.exchanges),
            "/health": pages.health,
            "/metrics": self._locked(pages.metrics),
        }
        if login is not None:
            self._ways[_METADATA] = self._ways[_METADATA + PATH] = self._metadata
        self._add_gauges()
        self._app = HostGuard(self._route, host, allowed_hosts, self.metrics.refused, self.limits.max_headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        way = self._ways.get(scope.get("path", "")) if scope["type"] == "http" else self._mcp
        if way is None:
            return await answer(send, 404, b"Not found; the tools are at /mcp\n", "text/plain")
        return await way(scope, receive, send)

    def _exchanges(self) -> Exchanges:
        limits = self.limits
        # HostGuard makes the check of the host, for any port and for more than loopback names.
        self._sessions = ResumableSessions(
            self._server,
            max_request_body_size=limits.max_body,
            max_sessions=limits.max_sessions,
            session_idle_timeout=limits.session_seconds,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._server._session_manager = self._sessions  # where mcp's own app would have put it
        self._mcp = app_of(self._sessions, PATH)
        exchanges = Exchanges(self._mcp, entries=self._entries, limits=limits, metrics=self.metrics, log=self.log)
        self._server.middleware.insert(0, exchanges.watch)
        exchanges.quick = QuickCalls(self._server, exchanges.watch)
        return exchanges

    def _locked(self, app: ASGIApp) -> ASGIApp:
        return app if self._login is None else Lock(app, self._login, self._url, self._locked_out)

    def _locked_out(self, scope: Scope, status: int) -> None:
        self.metrics.refused("authorization")
        address = scope.get("client")
        client = address[0] if address else "local"
        self.log.write(LogEntry(scope["method"], "", "refused", status, 0.0, client, "", "authorization"))

    def _url(self, scope: Scope) -> str:
        return self._public_url or asked_url(scope, PATH)

    async def _metadata(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._login is not None
        body = resource_metadata(self._login, self._url(scope), self._server.name)
        await answer(send, 200, json_bytes(body), "application/json", [(b"access-control-allow-origin", b"*")])

    def _entries(self) -> list[dict[str, Any]]:
        box = getattr(self._server, "toolbox", None)
        return [] if box is None else box.listing()

    def _add_gauges(self) -> None:
        gauge = self.metrics.gauge
        gauge("toolkit_calls_in_flight", "Requests under way.", lambda: self.exchanges.in_flight.total)
        sessions = self._sessions._server_instances
        gauge("toolkit_sessions", "Open sessions of the handshake era.", lambda: len(sessions))
        gauge("toolkit_tools", "Tools that are served.", lambda: len(self._entries()))
        gauge("toolkit_ready", "1 while calls are taken.", lambda: int(not self.exchanges.is_ending))


def http_app(server: Server[Any], **settings: Any) -> HttpApp:
    """The ASGI app for a process that has its own HTTP server; the settings are those of `HttpApp`."""
    return HttpApp(server, **settings)


def require_login(host: str, login: Login | None, *, no_auth: bool) -> None:
    """Raise unless clients log in, only this machine can reach the port, or somebody said that neither is needed."""
    if login is not None and no_auth:
        fix = "Leave --no-auth out, or the token file and --auth"
        raise ToolkitError("a login is asked for and refused", fix=fix).as_mistyped()
    if login is None and not no_auth and not is_loopback(host):
        raise ToolkitError(
            f"refusing to serve on {host} without a login: whoever reaches the port could call the tools",
            where=["neither a token file, TOOLKIT_SERVE_TOKEN nor --auth is given"],
            fix="Add --token-file FILE, or say --no-auth if something in front of it checks who calls",
        ).as_mistyped()
