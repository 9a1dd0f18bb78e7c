"""Servers on this machine that an agent's CLI may use, by the port of their URL, and how TLS is spoken with them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolkit.errors import SandboxError

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class HostTLS:
    """How the gate speaks TLS with a server on this machine; towards the CLI it speaks plain HTTP, to read along."""

    name: str
    """The host in its URL, which its certificate has to be for."""
    ca_file: str | None = None
    """A PEM file with the authority that signed the certificate; the system's authorities if not given."""

    def context(self) -> ssl.SSLContext:
        """What a connection is made with.

        Raises:
            SandboxError: the file cannot be used.
        """
        context = trusting(self.ca_file, "the server's certificate")
        context.set_alpn_protocols(["http/1.1"])
        return context


def trusting(ca_file: str | None, signed: str) -> ssl.SSLContext:
    """TLS that believes the authorities in a PEM file, or else those of the system.

    Raises:
        SandboxError: the file cannot be used; `signed` is what its authority has to have signed.
    """
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, TypeError, ValueError) as wrong:
        raise SandboxError(
            f"the certificate file {ca_file!r} cannot be used",
            where=[str(wrong)],
            fix=f"Give a PEM file with the authority that signed {signed}",
        ) from None


def why_not_tls(wrong: ssl.SSLError) -> str:
    """Why TLS did not begin, in words."""
    import ssl

    if isinstance(wrong, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {wrong.verify_message}"
    return f"TLS does not begin: {wrong.reason or wrong}"


def host_tls(url: str, ca_file: str | None = None) -> HostTLS | None:
    """How TLS is spoken with the server at a URL on this machine; None for plain HTTP."""
    parts = urlsplit(url)
    return HostTLS(parts.hostname or "", ca_file) if parts.scheme.lower() == "https" else None


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
