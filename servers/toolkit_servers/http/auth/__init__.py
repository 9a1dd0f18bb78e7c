"""Who may call what over HTTP: bearer tokens of our own, an issuer's tokens, and what each of them covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit_servers.http.auth.grant import (
        METRICS as METRICS,
        READ_ONLY as READ_ONLY,
        TOOLS as TOOLS,
        Grant as Grant,
    )
    from toolkit_servers.http.auth.lock import (
        Lock as Lock,
        asked_url as asked_url,
        resource_metadata as resource_metadata,
    )
    from toolkit_servers.http.auth.login import Login as Login, load_verifier as load_verifier
    from toolkit_servers.http.auth.tokens import Token as Token, TokenFile as TokenFile, read_tokens as read_tokens

_HOMES = {
    "toolkit_servers.http.auth.grant": "METRICS READ_ONLY TOOLS Grant",
    "toolkit_servers.http.auth.lock": "Lock asked_url resource_metadata",
    "toolkit_servers.http.auth.login": "Login load_verifier",
    "toolkit_servers.http.auth.tokens": "Token TokenFile read_tokens",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
