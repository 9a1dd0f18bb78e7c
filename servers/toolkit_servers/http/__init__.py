"""Serve a Toolbox over streamable HTTP, behind a door that can be locked.

On the loopback interface unless told otherwise; elsewhere only with a login, or when somebody
says that none is needed. The steps a request takes:

    connection   is it HTTP, in time, one of not too many
    door         does it name this machine, from no foreign page
    auth/        whose token is it, and what does that cover
    exchange     the body within its limits, calls in flight, the scope of the tool
    watching/    how it ended: /health, /metrics, the access log
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit_servers.http.app import HttpApp as HttpApp, http_app as http_app
    from toolkit_servers.http.auth import Login as Login, Token as Token, TokenFile as TokenFile
    from toolkit_servers.http.door import HostGuard as HostGuard, is_loopback as is_loopback
    from toolkit_servers.http.limits import Limits as Limits
    from toolkit_servers.http.serving import serve_http as serve_http
    from toolkit_servers.http.tls import Tls as Tls

_HOMES = {
    "toolkit_servers.http.app": "HttpApp http_app",
    "toolkit_servers.http.auth": "Login Token TokenFile",
    "toolkit_servers.http.door": "HostGuard is_loopback",
    "toolkit_servers.http.limits": "Limits",
    "toolkit_servers.http.serving": "serve_http",
    "toolkit_servers.http.tls": "Tls",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
