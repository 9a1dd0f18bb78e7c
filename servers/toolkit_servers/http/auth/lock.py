"""The lock on an ASGI app: without a valid bearer token, 401 and where to get one.

mcp's own parts do the work: `BearerAuthBackend` reads and checks the token,
`RequireAuthMiddleware` answers 401 and 403, `AuthContextMiddleware` lets a tool ask
`get_access_token()`. mcp's sessions belong to the token that opened them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.routes import build_resource_metadata_url
from pydantic import AnyHttpUrl
from starlette.requests import HTTPConnection

from toolkit_servers.http.answers import header, refuse
from toolkit_servers.http.auth.grant import METRICS, READ_ONLY, TOOLS
from toolkit_servers.http.auth.tokens import OWN_ISSUER

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.auth.provider import AccessToken
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolkit_servers.http.auth.login import Login

_LONGEST_CHECK = 10.0
"""Seconds that a verifier may take."""
_log = logging.getLogger("toolkit.http")


class Lock:
    """Lets requests with a valid token through, with its holder in the scope."""

    def __init__(
        self, app: ASGIApp, login: Login, url_of: Callable[[Scope], str], on_refused: Callable[[Scope, int], None]
    ) -> None:
        settings = login.settings
        resource = settings.resource_server_url if settings and settings.validate_token_resource else None
        self._backend = BearerAuthBackend(login, resource_server_url=resource)
        self._app = AuthContextMiddleware(app)
        self._required = list(login.required_scopes)
        self._url_of = url_of
        self._on_refused = on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if sum(key == b"authorization" for key, _ in scope["headers"]) > 1:
            self._on_refused(scope, 400)
            await refuse(send, 400, "Authorization is there more than once", close=True)
            return
        try:
            async with asyncio.timeout(_LONGEST_CHECK):
                found = await self._backend.authenticate(HTTPConnection(scope))
        except Exception as problem:
            # Not the problem's text: a verifier may put the token into it.
            _log.error("a token could not be checked: %s", type(problem).__name__)
            self._on_refused(scope, 503)
            await refuse(send, 503, "the token could not be checked; try again", retry_after=5)
            return
        if found is not None:
            scope["auth"], scope["user"] = found
            if self._has_required(found[1].access_token):
                await self._app(scope, receive, send)
                return
        self._on_refused(scope, 401 if found is None else 403)
        url = build_resource_metadata_url(AnyHttpUrl(self._url_of(scope)))
        await RequireAuthMiddleware(self._app, self._required, url)(scope, receive, send)

    def _has_required(self, token: AccessToken) -> bool:
        """Whether an issuer's token has the scopes that all of them need."""
        return (token.claims or {}).get("iss") == OWN_ISSUER or set(self._required) <= set(token.scopes)


def resource_metadata(login: Login, url: str, name: str) -> dict[str, Any]:
    """What RFC 9728 has a client read about this server: how to authorize, and where."""
    issuer = None if login.settings is None else str(login.settings.issuer_url)
    return {
        "resource": url,
        **({"authorization_servers": [issuer]} if issuer else {}),
        "scopes_supported": [*login.required_scopes, TOOLS, READ_ONLY, METRICS],
        "bearer_methods_supported": ["header"],
        "resource_name": name,
    }


def asked_url(scope: Scope, path: str) -> str:
    """This server's URL by the name the client used, which the door has checked."""
    return f"{scope.get('scheme', 'http')}://{header(scope, b'host')}{path}"
