"""The options of `toolkit serve --http`, and what they mean to `serve_http`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from toolkit.cli.terminal.command import Bytes, Duration, Option, with_options
from toolkit.errors import ToolkitError

_FILE = click.Path(path_type=Path)

HTTP: tuple[Option, ...] = (
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on, with --http."),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8000,
        show_default=True,
        help="Port to listen on, with --http; 0 takes a free one.",
    ),
    click.option(
        "--allow-host",
        "allowed_hosts",
        metavar="NAME",
        multiple=True,
        help="Also answer to this host name, with --http.",
    ),
    click.option("--token-file", type=_FILE, metavar="FILE", help="Accept the tokens in FILE: NAME SCOPE TOKEN."),
    click.option("--auth", metavar="MODULE:NAME", help="Accept what this TokenVerifier of mcp accepts."),
    click.option("--issuer", metavar="URL", help="Where clients get a token, with --auth."),
    click.option("--no-auth", is_flag=True, help="Let everybody who reaches the port call the tools."),
    click.option("--public-url", metavar="URL", help="What clients call this server, behind a proxy."),
    click.option("--tls-cert", type=_FILE, metavar="FILE", help="Serve HTTPS with this certificate chain (PEM)."),
    click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of the certificate (PEM)."),
    click.option(
        "--log-format",
        type=click.Choice(("off", "text", "json")),
        help="Lines of the access log on stderr.  [default: text; off on loopback]",
    ),
)
"""How clients reach the server, and who may."""

_COUNT = click.IntRange(min=1)
_ROWS: tuple[tuple[str, Any, str, str], ...] = (
    ("max_body", Bytes(), "64 MiB", "Largest body of a request."),
    ("max_headers", Bytes(), "32 KiB", "Largest headers of a request."),
    ("max_connections", _COUNT, "2000", "Most open connections."),
    ("max_calls", _COUNT, "1000", "Most requests under way."),
    ("max_calls_per_client", _COUNT, "250", "Most requests under way for one token or address."),
    ("max_sessions", _COUNT, "10000", "Most open sessions."),
    ("header_seconds", Duration(), "10", "Time for the headers of a request."),
    ("body_seconds", Duration(), "60", "Time for the body of a request."),
    ("write_seconds", Duration(), "60", "Time that an answer may lie unread."),
    ("idle_seconds", Duration(), "30", "Time between two requests of a connection."),
    ("session_seconds", Duration(), "1800", "Time between two requests of a session."),
    ("end_seconds", Duration(), "10", "Time for calls under way when the server ends."),
)


def _limit(name: str, kind: Any, default: str, about: str) -> Option:
    return click.option(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=f"{about}  [default: {default}]")


LIMITS = tuple(_limit(*row) for row in _ROWS)
LIMIT_TYPES: dict[str, Any] = {row[0]: row[1] for row in _ROWS}
"""How each limit is written, by its name."""
http_options = with_options(*HTTP, *LIMITS)


def http_settings(typed: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `serve_http` for what was typed or stands in a configuration file.

    Raises:
        ToolkitError: a token file, a verifier or a certificate that cannot be used.
    """
    from toolkit_servers.http import Limits, Login, Tls, is_loopback

    host = typed.get("host", "127.0.0.1")
    login = Login.read(typed.get("token_file"), typed.get("auth"), typed.get("issuer"))
    cert, key = typed.get("tls_cert"), typed.get("tls_key")
    if (cert is None) != (key is None):
        missing = "--tls-key" if key is None else "--tls-cert"
        raise ToolkitError("TLS needs a certificate and its key", fix=f"Add {missing} FILE")
    tls = None if cert is None or key is None else Tls(cert, key)
    if tls is not None:
        tls.context()  # what is wrong with the files is said before any code of the user's runs
    limits = Limits(**{name: typed[name] for name in LIMIT_TYPES if name in typed})
    plain = ("host", "port", "allowed_hosts", "no_auth", "public_url")
    passed: dict[str, Any] = {name: typed[name] for name in plain if name in typed}
    form = typed.get("log_format") or ("off" if is_loopback(host) else "text")
    return {**passed, "login": login, "tls": tls, "limits": limits, "log_format": form}
