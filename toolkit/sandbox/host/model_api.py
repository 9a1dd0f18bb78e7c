"""Where the model API is, and what it is reached with: as given, or from the environment as the CLI reads it.

| given | in the environment | sent |
|---|---|---|
| `api_key`, `api_key_file` | `ANTHROPIC_API_KEY` | `x-api-key` |
| `auth_token` | `ANTHROPIC_AUTH_TOKEN` | `Authorization: Bearer` |
| `oauth_token` | `CLAUDE_CODE_OAUTH_TOKEN` | `Authorization: Bearer`, and the beta that makes the API take it |
| `api_headers` | `ANTHROPIC_CUSTOM_HEADERS` | these headers |

A credential that is given wins: the environment's are then not looked at, also not in its headers. Of those in
the environment the CLI sends key and token together, and the subscription's token only
without either. Headers that are given win over those in the environment name by name,
and over a credential; betas of all of them are asked for. Nothing of this is ever shown, also not in an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.errors import SandboxError

API_URL = "https://api.anthropic.com"
PLACEHOLDER = "kept-outside-the-jail"
CREDENTIALS = {
    "api_key": "ANTHROPIC_API_KEY",
    "auth_token": "ANTHROPIC_AUTH_TOKEN",
    "oauth_token": "CLAUDE_CODE_OAUTH_TOKEN",
}
"""What a credential is called here, and in the environment."""
CUSTOM_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
BETAS = "anthropic-beta"
"""The header that names betas, separated by commas."""
_OF_CREDENTIALS = ("x-api-key", "authorization")
_OAUTH_BETA = "oauth-2025-04-20"
_OAUTH_PREFIX = "sk-ant-oat"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# What the gate says about the connection itself: another value would break it, or hide the answer's usage.
_OF_THE_GATE = (
    *("accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host"),
    *("keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
)


@dataclass(frozen=True, slots=True)
class BaseURL:
    """Where the model API lives."""

    host: str
    port: int
    prefix: str
    is_tls: bool

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> BaseURL:
        """Read a base URL such as https://api.anthropic.com, or raise a SandboxError."""
        example = "Give the base URL of the model API, for example: https://api.anthropic.com"
        try:
            parts = urlsplit(text)
            port = parts.port
        except (ValueError, AttributeError, TypeError):
            raise SandboxError(f"the API base URL {text!r} is no URL", fix=example) from None
        is_clean = text.isascii() and text.isprintable() and " " not in text
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_clean or port == 0:
            raise SandboxError(f"the API base URL {text!r} is no http(s) URL", fix=example)
        if parts.username is not None or parts.password is not None:
            raise SandboxError("the API base URL contains a credential", fix="Pass the key as api_key instead")
        if parts.query or parts.fragment:
            raise SandboxError(f"the API base URL {text!r} has a query or fragment", fix=example)
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if is_tls else 80), parts.path.rstrip("/"), is_tls)


@dataclass(frozen=True, slots=True)
class ModelAPI:
    """Where the model API is, and what it is reached with."""

    url: str
    key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    oauth_token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers, by their names in lower case."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The credentials it has, as `CREDENTIALS` names them."""
        given = {"api_key": self.key, "auth_token": self.auth_token, "oauth_token": self.oauth_token}
        return tuple(kind for kind, value in given.items() if value is not None)

    @property
    def lacks_key(self) -> bool:
        """Whether this is the public API without any credential, which answers nobody."""
        return self.url == API_URL and not set(_OF_CREDENTIALS) & set(self.all_headers())

    def all_headers(self) -> dict[str, str]:
        """What the gate adds to every request."""
        found = {} if self.key is None else {"x-api-key": self.key}
        bearer = self.auth_token or self.oauth_token
        if bearer is not None:
            found["authorization"] = f"Bearer {bearer}"
        if self.auth_token is None and self.oauth_token is not None:
            found[BETAS] = _OAUTH_BETA
        return merged_headers(found, self.headers)

    def placeholders(self) -> dict[str, str]:
        """What the CLI in the jail finds in its environment: the same kinds of credentials, without their values."""
        return {CREDENTIALS[kind]: PLACEHOLDER for kind in self.kinds or ("api_key",)}


def find_api(
    api_url: str | None = None,
    api_key: str | None = None,
    api_key_file: Path | str | None = None,
    *,
    auth_token: str | None = None,
    oauth_token: str | None = None,
    api_headers: Mapping[str, str] | None = None,
) -> ModelAPI:
    """The model API as given; what is not given is taken from the environment. The table above says how.

    Raises:
        SandboxError: two credentials are given, one is empty or no credential, a key file is missing, empty, a link,
            or open to others, a header cannot be sent, or the URL is none.
    """
    given = {"api_key": api_key, "auth_token": auth_token, "oauth_token": oauth_token}
    named = [name for name, value in {**given, "api_key_file": api_key_file}.items() if value is not None]
    if len(named) > 1:
        raise SandboxError(f"{' and '.join(named)} are both given", fix="Give one of them.")
    if api_key_file is not None:
        given["api_key"] = _read_key(Path(api_key_file))
    elif not named:
        given = _of_the_environment()
    told = {} if named else CREDENTIALS
    found = {name: _checked(name, value, told.get(name)) for name, value in given.items() if value is not None}
    of_environment = checked_headers(_custom_headers())
    for name in _OF_CREDENTIALS if named else ():
        of_environment.pop(name, None)
    headers = merged_headers(of_environment, checked_headers(api_headers or {}))
    url = api_url or os.environ.get("ANTHROPIC_BASE_URL") or API_URL
    BaseURL.parse(url)
    return ModelAPI(url, found.get("api_key"), found.get("auth_token"), found.get("oauth_token"), headers)


def merged_headers(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Both, by names in lower case: of one name the later counts, but betas of both are asked for."""
    merged = {**first, **then}
    if BETAS in first and BETAS in then:
        merged[BETAS] = ",".join(dict.fromkeys(re.split(r"\s*,\s*", f"{first[BETAS]},{then[BETAS]}")))
    return merged


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that can be sent, by their names in lower case.

    Raises:
        SandboxError: a name that is none, stands there twice or belongs to the connection, or a value that is not one
            line of plain text. The value is not shown: it may be a secret.
    """
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SandboxError(f"{name!r} is no header name", fix="Use letters, digits and dashes")
        if name.lower() in _OF_THE_GATE:
            raise SandboxError(f"the header '{name}' is the gate's own", fix="Leave it out")
        if name.lower() in found:
            raise SandboxError(f"the header '{name}' is given twice", fix="Give it once; case makes no difference")
        plain = isinstance(value, str) and value.isascii() and value.isprintable()
        if not plain or not value or value != value.strip():
            raise SandboxError(
                f"the value for the header '{name}' cannot be sent",
                fix="Give one line of plain ASCII, without spaces around it",
            )
        found[name.lower()] = value
    return found


def _of_the_environment() -> dict[str, str | None]:
    found: dict[str, str | None] = {name: os.environ.get(variable) or None for name, variable in CREDENTIALS.items()}
    if found["api_key"] or found["auth_token"]:
        found["oauth_token"] = None
    return found


def _custom_headers() -> dict[str, str]:
    """The headers in the environment: a line each, as the CLI reads them."""
    found: dict[str, str] = {}
    for number, line in enumerate(os.environ.get(CUSTOM_HEADERS, "").splitlines(), 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon:
            raise SandboxError(f"{CUSTOM_HEADERS}: line {number} is no header", fix="Write one a line: NAME: VALUE")
        found[name.strip()] = value.strip()
    return found


def _checked(name: str, value: str, variable: str | None) -> str:
    """A credential that can be sent; it is not shown, also where it is none. `variable` is where it comes from."""
    if not value.strip():
        fix = f"Set it, or unset {variable}" if variable else f"Leave it out to use {CREDENTIALS[name]}"
        raise SandboxError(f"{variable or name} is empty", fix=fix)
    if not value.isascii() or not value.isprintable() or " " in value:
        what = f"{variable or name} is not one line of plain ASCII"
        raise SandboxError(what, fix="Give it alone, without spaces or line ends")
    if name == "api_key" and value.startswith(_OAUTH_PREFIX):
        raise SandboxError(
            "the API key is a subscription's token", fix=f"Give it as oauth_token, or as {CREDENTIALS['oauth_token']}"
        )
    return value


_LONGEST_KEY_FILE = 1 << 16


def _read_key(path: Path) -> str:
    """The key in a file that only its owner can read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise SandboxError(f"key file '{path}' cannot be read: {why}", fix="Name the file itself.") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SandboxError(f"key file '{path}' is not a file", fix="Name the file that holds the key.")
        if found.st_mode & 0o077:
            raise SandboxError(f"key file '{path}' can be read by others", fix=f"Run: chmod 600 {path}")
        key = os.read(descriptor, _LONGEST_KEY_FILE).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise SandboxError(f"key file '{path}' does not hold one key", fix="Put the key alone into it.")
    return key
