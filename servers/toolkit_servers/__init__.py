"""A Toolbox becomes an MCP server: in-process, over stdio, over HTTP.

The names below are loaded on first use; the modules of this package import mcp only
where they need it. Each of the rooms has a door of its own:

    stdio     serve over stdin and stdout, which then belong to the protocol
    target    a TARGET as people type it becomes a Toolbox, and a call of one tool
    clients   put a server into an MCP client's configuration
    ready     toolboxes that are ready to use
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit_servers.build import build_server as build_server
    from toolkit_servers.http import http_app as http_app, serve_http as serve_http
    from toolkit_servers.in_process import in_process_config as in_process_config
    from toolkit_servers.ready import load_ready as load_ready
    from toolkit_servers.reload import Reload as Reload
    from toolkit_servers.stdio import claim_stdio as claim_stdio, serve_stdio as serve_stdio
    from toolkit_servers.tracing import span_id_of as span_id_of

_HOMES = {
    "toolkit_servers.build": "build_server",
    "toolkit_servers.http": "http_app serve_http",
    "toolkit_servers.in_process": "in_process_config",
    "toolkit_servers.ready": "load_ready",
    "toolkit_servers.reload": "Reload",
    "toolkit_servers.stdio": "claim_stdio serve_stdio",
    "toolkit_servers.tracing": "span_id_of",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
