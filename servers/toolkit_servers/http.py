"""Serve a Toolbox over streamable HTTP.

On the loopback interface unless told otherwise. Every request must name this
machine: a web page that resolves its own name to this address (DNS rebinding) is
refused, and so is a page from another origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolkit.errors import ToolkitError
from toolkit_servers.ending import end_after
from toolkit_servers.reload import Reload, server_following

if TYPE_CHECKING:
    from types import FrameType

    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolkit.tools import Toolbox

PATH = "/mcp"
LARGEST_BODY = 64 * 1024 * 1024
_SHUTDOWN_SECONDS = 1


def serve_http(
    tools: Toolbox | Reload,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Collection[str] = (),
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGINT or SIGTERM, which end the process within two seconds; `on_ready` gets the URL.

    Port 0 takes a free one. `allowed_hosts` are further names under which clients may
    reach this machine, for example that of a proxy.

    Raises:
        ToolkitError: the address cannot be listened on.
    """
    listening = _listen(host, port)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(tools, listening, host, allowed_hosts, on_ready))


def http_app(server: Server[Any], *, host: str = "127.0.0.1", allowed_hosts: Collection[str] = ()) -> ASGIApp:
    """The ASGI app that answers at `/mcp`, for a process that has its own HTTP server."""
    from mcp.server.transport_security import TransportSecuritySettings

    # HostGuard makes the same check, for any port and for more than loopback names.
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=LARGEST_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return HostGuard(app, host, allowed_hosts)


class HostGuard:
    """Refuses requests that do not name this machine, or come from a web page elsewhere.

    A page can only rebind a name that it owns. So a server on loopback answers to loopback
    names, one on another interface also to bare addresses, its own name and those allowed.
    """

    def __init__(self, app: ASGIApp, host: str, allowed_hosts: Collection[str] = ()) -> None:
        self._app = app
        self._on_loopback = _is_loopback(host)
        own = () if self._on_loopback else (host, socket.gethostname())
        self._names = {name.lower() for name in (*own, *allowed_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {key: value.decode("latin-1") for key, value in scope["headers"] if key in (b"host", b"origin")}
        host = _host_in(f"//{headers.get(b'host', '')}")
        if not self._is_ours(host):
            return await _refuse(send, 421, b"Host names another machine\n")
        if b"origin" in headers and not self._is_local_page(headers[b"origin"], host):
            return await _refuse(send, 403, b"Origin is not allowed\n")
        return await self._app(scope, receive, send)

    def _is_ours(self, host: str | None) -> bool:
        if host is None:
            return False
        return _is_loopback(host) or host in self._names or (not self._on_loopback and _is_address(host))

    def _is_local_page(self, origin: str, host: str | None) -> bool:
        page = _host_in(origin)
        return page is not None and (_is_loopback(page) or page == host)


async def _serve(
    tools: Toolbox | Reload,
    listening: socket.socket,
    host: str,
    allowed_hosts: Collection[str],
    on_ready: Callable[[str], None],
) -> None:
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready(_url(host, listening))

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Called also while a tool blocks the event loop.
            end_after(_SHUTDOWN_SECONDS + 1, code=128 + sig)
            super().handle_exit(sig, frame)

    async with server_following(tools) as server:
        config = uvicorn.Config(
            http_app(server, host=host, allowed_hosts=allowed_hosts),
            log_level="warning",
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        await Announcing(config).serve(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            what = f"port {port} is in use"
            fix = f"Stop the program that listens there, or choose another port: --port {port + 1}"
        elif problem.errno == errno.EACCES:
            what, fix = f"port {port} needs more rights", "Choose a port above 1023: --port 8000"
        else:
            what = f"cannot listen on {host}: {problem.strerror or problem}"
            fix = "Give an address of this machine, for example: --host 127.0.0.1"
        raise ToolkitError(what, where=[f"{host}:{port}"], fix=fix) from problem


def _url(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}{PATH}"


def _host_in(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


async def _refuse(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
