"""Accept the access tokens of an OpenID issuer: `toolkit serve --http --auth jwt_login.py:verifier`.

ISSUER and AUDIENCE are read from the environment. The issuer's keys come from its JWKS document and are kept by PyJWT.
"""

import asyncio
import os
from typing import Any

import jwt
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings


class JwtVerifier:
    """mcp's TokenVerifier for signed tokens."""

    def __init__(self) -> None:
        self.issuer = os.environ["ISSUER"]
        self.audience = os.environ["AUDIENCE"]
        self.auth_settings = AuthSettings.model_validate({"issuer_url": self.issuer, "resource_server_url": None})
        self._keys = jwt.PyJWKClient(f"{self.issuer}/jwks", timeout=5)

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            claims = await asyncio.to_thread(self._read, token)
        except jwt.PyJWTError:  # expired, signed by another, for another audience, no token at all
            return None
        return AccessToken(
            token="",
            client_id=str(claims.get("client_id") or claims["sub"]),
            subject=claims["sub"],
            scopes=str(claims.get("scope", "")).split(),
            expires_at=claims["exp"],
            claims={"iss": claims["iss"]},
        )

    def _read(self, token: str) -> dict[str, Any]:
        key = self._keys.get_signing_key_from_jwt(token)
        required = ["exp", "iss", "sub", "aud"]
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=["RS256"],
            audience=self.audience,
            issuer=self.issuer,
            options={"require": required},
        )
        return claims


def verifier() -> JwtVerifier:
    return JwtVerifier()
