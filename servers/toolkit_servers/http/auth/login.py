"""How clients log in: our own tokens, an issuer's tokens through mcp's `TokenVerifier`, or both."""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError
from toolkit_servers.http.auth.tokens import Token, TokenFile

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken, TokenVerifier
    from mcp.server.auth.settings import AuthSettings

VARIABLE = "TOOLKIT_SERVE_TOKEN"


@dataclass(frozen=True, slots=True)
class Login:
    """What is accepted as a login; at least one of the two."""

    tokens: TokenFile | None = None
    verifier: TokenVerifier | None = None
    settings: AuthSettings | None = None
    """mcp's settings for the verifier: the issuer that clients are sent to, and scopes that every token needs."""

    @classmethod
    def read(
        cls,
        token_file: Path | None = None,
        verifier: str | None = None,
        issuer: str | None = None,
        environment: MutableMapping[str, str] = os.environ,
    ) -> Login | None:
        """The login that these options ask for; None when they ask for none.

        The token in the environment is taken out of it, so that no tool and no child process finds it there.

        Raises:
            ToolkitError: a file, a token or a verifier that cannot be used.
        """
        given = environment.pop(VARIABLE, None)
        more = [] if given is None else [_from_variable(given)]
        tokens = TokenFile(token_file, more) if token_file is not None or more else None
        if verifier is None:
            if issuer is not None:
                raise ToolkitError(
                    "an issuer is given, and nothing that checks its tokens", fix="Add: --auth my_login:verifier"
                )
            return None if tokens is None else cls(tokens)
        found = load_verifier(verifier)
        return cls(tokens, found, _settings(found, verifier, issuer))

    async def verify_token(self, token: str) -> AccessToken | None:
        """The holder of a token; None when nothing knows it."""
        if self.tokens is not None:
            found = await self.tokens.verify_token(token)
            if found is not None:
                return found
        return None if self.verifier is None else await self.verifier.verify_token(token)

    @property
    def required_scopes(self) -> Sequence[str]:
        """What every token of the issuer needs besides what the tool needs."""
        return (self.settings.required_scopes or ()) if self.settings is not None else ()


def load_verifier(spec: str) -> TokenVerifier:
    """The `TokenVerifier` that `module:name` or `file.py:name` stands for; a class or a function is called for one.

    Raises:
        ToolkitError: there is none.
    """
    from toolkit_servers.target import import_module_or_file

    place, _, name = spec.rpartition(":")
    if not place or not name.isidentifier():
        raise ToolkitError(f"'{spec}' names no verifier", fix="Write a module and a name: --auth my_login:verifier")
    value: Any = getattr(import_module_or_file(place), name, None)
    if value is None:
        raise ToolkitError(f"{place} has no '{name}'", where=[spec], fix="Name a TokenVerifier that stands in it")
    if isinstance(value, type) or (callable(value) and not hasattr(value, "verify_token")):
        try:
            value = value()
        except Exception as problem:
            what = f"{spec} could not be made: {type(problem).__name__}: {problem}"
            raise ToolkitError(
                what, fix="It is called without arguments; give the object itself otherwise"
            ) from problem
    if not callable(getattr(value, "verify_token", None)):
        raise ToolkitError(
            f"{spec} is no TokenVerifier but a {type(value).__name__}",
            fix="Give it a method: async def verify_token(self, token: str) -> AccessToken | None",
        )
    found: TokenVerifier = value
    return found


def _settings(verifier: TokenVerifier, spec: str, issuer: str | None) -> AuthSettings:
    from mcp.server.auth.settings import AuthSettings
    from pydantic import ValidationError

    own = getattr(verifier, "auth_settings", None)
    if isinstance(own, AuthSettings) and issuer is None:
        return own
    if issuer is None:
        raise ToolkitError(
            f"nothing says where clients of {spec} log in",
            fix="Add --issuer https://login.example, or give the verifier an attribute auth_settings",
        )
    try:
        # The verifier checks the audience itself: only it knows what its issuer calls this server.
        return AuthSettings.model_validate({"issuer_url": issuer, "resource_server_url": None})
    except ValidationError:
        raise ToolkitError(f"'{issuer}' is no URL of an issuer", fix="Write it whole: https://login.example") from None


def _from_variable(secret: str) -> Token:
    try:
        return Token.of(secret.strip(), "environment")
    except ToolkitError as problem:
        raise ToolkitError(problem.what, where=[VARIABLE], fix=problem.fix) from None
