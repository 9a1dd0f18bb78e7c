"""Serve a Toolbox over streamable HTTP: listen, serve, and end without dropping calls.

On a signal no new call is taken, those under way have `Limits.end_seconds` to finish, and then
the process ends, whatever its tools do. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError
from toolkit_servers.ending import end_after
from toolkit_servers.http.app import PATH, HttpApp, require_login
from toolkit_servers.http.limits import Limits
from toolkit_servers.http.tls import Tls
from toolkit_servers.http.watching import AccessLog, LogFormat
from toolkit_servers.reload import Reload, server_following

if TYPE_CHECKING:
    from types import FrameType

    from toolkit.tools import Toolbox
    from toolkit_servers.http.auth import Login

_OTHER_FILES = 256
"""Files that the server and its tools need besides connections."""
_CLOSING_SECONDS = 1
"""For connections to close once no call is under way."""


def serve_http(
    tools: Toolbox | Reload,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Collection[str] = (),
    login: Login | None = None,
    no_auth: bool = False,
    tls: Tls | None = None,
    limits: Limits | None = None,
    log_format: LogFormat = "off",
    public_url: str | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` gets the URL.

    Port 0 takes a free one. `allowed_hosts` are further names under which clients may
    reach this machine, for example that of a proxy. Off loopback a `login` is needed, or `no_auth`.

    Raises:
        ToolkitError: the address cannot be listened on, or it would be open to everybody.
    """
    require_login(host, login, no_auth=no_auth)
    context = None if tls is None else tls.context()
    _allow_files((limits or Limits()).max_connections + _OTHER_FILES)
    listening = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    url = f"{'http' if tls is None else 'https'}://{name}:{listening.getsockname()[1]}{PATH}"
    settings: dict[str, Any] = {
        "host": host,
        "allowed_hosts": allowed_hosts,
        "login": login,
        "no_auth": no_auth,
        "limits": limits,
        "public_url": public_url,
        "log": AccessLog(log_format),
    }
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(tools, listening, context, settings, lambda: on_ready(url)))


async def _serve(
    tools: Toolbox | Reload,
    listening: socket.socket,
    context: Any,
    settings: dict[str, Any],
    on_ready: Callable[[], None],
) -> None:
    import uvicorn

    from toolkit_servers.http.connection import limited

    async with server_following(tools) as server:
        app = HttpApp(server, **settings)
        config = uvicorn.Config(
            app,
            http=limited(app.limits, app.metrics.refused),
            ws="none",
            log_level="warning",
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=app.limits.idle_seconds,  # type: ignore[arg-type]
            timeout_graceful_shutdown=_CLOSING_SECONDS,
            h11_max_incomplete_event_size=app.limits.max_headers,
            ssl_context_factory=None if context is None else lambda config, make: context,
        )
        ending = _ending_server(uvicorn.Server)(config)
        ending.prepare(app, on_ready)
        app.metrics.gauge("toolkit_connections", "Open connections.", lambda: len(ending.server_state.connections))
        logging.getLogger("uvicorn.error").addFilter(_is_worth_saying)
        # It warns of every session that is not the caller's, by its whole id; the access log has the 404.
        logging.getLogger("mcp.server.streamable_http_manager").setLevel(logging.ERROR)
        try:
            await ending.serve(sockets=[listening])
        finally:
            app.log.flush()


def _ending_server(base: Any) -> Any:
    """uvicorn's server, which lets calls finish before it closes anything."""

    class EndingServer(base):  # type: ignore[misc]
        def prepare(self, app: HttpApp, on_ready: Callable[[], None]) -> None:
            self._app = app
            self._on_ready = on_ready
            self._loop = asyncio.get_running_loop()
            self._draining: asyncio.Task[None] | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            self._on_ready()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Called also while a tool blocks the event loop.
            exchanges = self._app.exchanges
            if exchanges.is_ending:
                end_after(_CLOSING_SECONDS, code=128 + sig)
                super().handle_exit(sig, frame)
                return
            exchanges.is_ending = True
            end_after(self._app.limits.end_seconds + 2 * _CLOSING_SECONDS, code=128 + sig)
            self._loop.call_soon_threadsafe(self._drain, sig)

        def _drain(self, sig: int) -> None:
            self._draining = self._loop.create_task(self._end_when_idle(sig))

        async def _end_when_idle(self, sig: int) -> None:
            in_flight = self._app.exchanges.in_flight
            with contextlib.suppress(TimeoutError):
                await in_flight.idle(self._app.limits.end_seconds)
            super().handle_exit(sig, None)

    return EndingServer


def _is_worth_saying(record: logging.LogRecord) -> bool:
    """Not what the metrics count, and any stranger can make the server say a thousand times a second."""
    return "Invalid HTTP request" not in record.getMessage() and "upgrade" not in record.getMessage().lower()


def _allow_files(count: int) -> None:
    """Let this process open so many files, as far as it may decide that itself: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=2048)
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
    # By its protocol's name, or asyncio does not switch Nagle's algorithm off and each call waits 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())
