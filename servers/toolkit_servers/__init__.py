"""A Toolbox becomes an MCP server: in-process, over stdio, over HTTP.

The names below are loaded on first use; the modules of this package import mcp only
where they need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit_servers.build import build_server as build_server
    from toolkit_servers.http import http_app as http_app
    from toolkit_servers.http import serve_http as serve_http
    from toolkit_servers.ready import load_ready as load_ready
    from toolkit_servers.stdio import claim_stdio as claim_stdio
    from toolkit_servers.stdio import serve_stdio as serve_stdio

_HOMES = {
    "build_server": "toolkit_servers.build",
    "claim_stdio": "toolkit_servers.stdio",
    "http_app": "toolkit_servers.http",
    "load_ready": "toolkit_servers.ready",
    "serve_http": "toolkit_servers.http",
    "serve_stdio": "toolkit_servers.stdio",
}

__all__ = ["build_server", "claim_stdio", "http_app", "load_ready", "serve_http", "serve_stdio"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolkit_servers' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
