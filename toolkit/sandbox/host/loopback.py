"""Servers on this machine that an agent's CLI may use, by the port of their URL."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from toolkit.errors import SandboxError


def loopback_port(url: str) -> int | None:
    """The port of a URL that leads to this machine itself; None for one that leads elsewhere.

    Raises:
        SandboxError: it leads here in a way that the jail cannot have.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise SandboxError(f"{url!r} is no URL", fix="Write for example: http://127.0.0.1:8765/mcp") from None
    if host not in ("localhost", "127.0.0.1"):
        if _is_loopback(host):
            raise SandboxError(
                f"the jail has no address {host}", fix="Write 127.0.0.1, and let the server listen there"
            )
        return None
    return port or (443 if parts.scheme == "https" else 80)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.endswith(".localhost")
