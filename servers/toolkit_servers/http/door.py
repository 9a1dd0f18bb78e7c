"""Which requests come in at all: those that name this machine, come from no foreign web page, and say one thing only.

A page can only rebind a name that it owns. So a server on loopback answers to loopback
names, one on another interface also to bare addresses, its own name and those allowed.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolkit_servers.http.answers import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOOKED_AT = frozenset({b"host", b"origin", b"content-length", b"transfer-encoding"})


class HostGuard:
    """Refuses requests that do not name this machine, or come from a web page elsewhere."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        allowed_hosts: Collection[str] = (),
        on_refused: Callable[[str], None] = lambda reason: None,
        max_headers: int = 64 * 1024,
    ) -> None:
        self._app = app
        self._max_headers = max_headers
        self._on_loopback = is_loopback(host)
        own = () if self._on_loopback else (host, socket.gethostname())
        self._names = {name.lower() for name in (*own, *allowed_hosts)}
        self._on_refused = on_refused
        self._known: set[str] = set()
        """`Host` headers that were found to be ours: most clients send the same one every time."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {key: value.decode("latin-1") for key, value in scope["headers"] if key in _LOOKED_AT}
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # Two lengths: a proxy in front may have believed the other one (request smuggling).
            return await self._refuse(send, 400, "framing", "Content-Length and Transfer-Encoding together")
        if scope.get("http_version", "1.1") not in ("1.0", "1.1", "2"):
            return await self._refuse(send, 505, "framing", "this version of HTTP is not known")
        if sum(len(key) + len(value) for key, value in scope["headers"]) > self._max_headers:
            reason = f"the headers have more than {self._max_headers} bytes"
            return await self._refuse(send, 431, "headers", reason)
        host = headers.get(b"host", "")
        if host not in self._known and not self._is_ours(host):
            return await self._refuse(send, 421, "host", "Host names another machine")
        if b"origin" in headers and not self._is_local_page(headers[b"origin"], host):
            return await self._refuse(send, 403, "origin", "Origin is not allowed")
        return await self._app(scope, receive, send)

    async def _refuse(self, send: Send, status: int, rule: str, reason: str) -> None:
        self._on_refused(rule)
        await refuse(send, status, reason, close=True)

    def _is_ours(self, header: str) -> bool:
        host = _host_in(f"//{header}")
        if host is None:
            return False
        ours = is_loopback(host) or host in self._names or (not self._on_loopback and _is_address(host))
        if ours and len(self._known) < 64:
            self._known.add(header)
        return ours

    def _is_local_page(self, origin: str, host: str) -> bool:
        page = _host_in(origin)
        return page is not None and (is_loopback(page) or page == _host_in(f"//{host}"))


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach an address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


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
