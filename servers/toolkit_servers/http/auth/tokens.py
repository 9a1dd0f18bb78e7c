"""Bearer tokens of our own: a file of names, scopes and tokens, or one token in the environment.

A line of the file is `NAME SCOPE TOKEN`. SCOPE is `all`, `read-only`, `metrics` or names of
tools with commas between them. TOKEN is the token itself or `sha256:` and the hex digest of
it. A file with one word is one token for everything. Only digests are kept in memory, every
presented token is compared with each of them in constant time, and a changed file is read
again at the next request: take a line out, and its token is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import ToolkitError
from toolkit_servers.http.auth.grant import METRICS, READ_ONLY, TOOLS

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken

SHORTEST = 16
"""Characters a token has at least."""
OWN_ISSUER = "urn:toolkit:tokens"
"""Tells the holder of our token from a client of the same name that an issuer knows."""
_LARGEST_FILE = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_WORDS = {"all": TOOLS, "read-only": READ_ONLY, "metrics": METRICS}
_MAKE_ONE = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"

_log = logging.getLogger("toolkit.http")


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is accepted: whose it is, what it covers, and its SHA-256 digest."""

    name: str
    scopes: tuple[str, ...]
    digest: bytes

    @classmethod
    def of(cls, secret: str, name: str = "token", scopes: Sequence[str] = (TOOLS,)) -> Token:
        """A token by its secret text.

        Raises:
            ToolkitError: it is too short to be one, or has characters that a header cannot carry.
        """
        if len(secret) < SHORTEST or not re.fullmatch(r"[\x21-\x7e]+", secret):
            raise ToolkitError(
                f"the token of '{name}' is not {SHORTEST} or more plain characters without spaces",
                fix=f"Make one: {_MAKE_ONE}",
            )
        return cls(name, tuple(scopes), hashlib.sha256(secret.encode()).digest())


class TokenFile:
    """Accepts the tokens of a file, and those given besides: mcp's `TokenVerifier`."""

    def __init__(self, file: Path | None, more: Sequence[Token] = ()) -> None:
        self._file = file
        self._more = tuple(more)
        self._seen: tuple[int, ...] | None = None
        self._of_file: tuple[Token, ...] = ()
        if file is not None:
            self._of_file, self._seen = read_tokens(file), _version(file)

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Every token that is accepted now."""
        return (*self._more, *self._of_file)

    async def verify_token(self, token: str) -> AccessToken | None:
        """The holder of a token and its scopes; None for any other."""
        from mcp.server.auth.provider import AccessToken

        self._read_again_if_changed()
        presented = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known in self.tokens:  # all of them, whichever it is: the time tells nothing
            if hmac.compare_digest(known.digest, presented):
                found = known
        if found is None:
            return None
        # Not the token itself: what holds this object may print it.
        return AccessToken(token="", client_id=found.name, scopes=list(found.scopes), claims={"iss": OWN_ISSUER})

    def _read_again_if_changed(self) -> None:
        if self._file is None:
            return
        version = _version(self._file)
        if version == self._seen:
            return
        self._seen = version
        try:
            self._of_file = read_tokens(self._file)
        except ToolkitError as problem:
            self._of_file = ()  # what cannot be checked is refused
            _log.error("no token of %s is accepted any more: %s", self._file, problem)


def read_tokens(file: Path) -> tuple[Token, ...]:
    """The tokens of a file.

    Raises:
        ToolkitError: others can read it, it cannot be read, or a line is not `NAME SCOPE TOKEN`.
    """
    text = _read_private(file)
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
    if len(lines) == 1 and len(lines[0][1]) == 1:
        return (Token.of(lines[0][1][0]),)
    tokens = tuple(_token(file, number, words) for number, words in lines)
    if not tokens:
        raise ToolkitError(f"no token in {file}", where=[str(file)], fix=f"Add a line: NAME all TOKEN. {_A_TOKEN}")
    _refuse_doubles(file, tokens)
    return tokens


_A_TOKEN = f"A new token: {_MAKE_ONE}"


def _token(file: Path, number: int, words: list[str]) -> Token:
    where = f"{file}:{number}"  # not the line: it holds a secret
    if len(words) != 3:
        what = f"a line of the token file has {len(words)} words instead of 3"
        raise ToolkitError(what, where=[where], fix="Write: NAME SCOPE TOKEN, for example: alice read-only TOKEN")
    name, scope, secret = words
    if not _NAME.fullmatch(name):
        raise ToolkitError(
            "a name in the token file is not 1 to 64 letters, digits, '_', '.', '@' or '-'",
            where=[where],
            fix="Write: NAME SCOPE TOKEN, in this order",
        )
    scopes = tuple(_WORDS.get(word, f"{TOOLS}:{word}") for word in scope.split(",") if word)
    if not scopes:
        raise ToolkitError(f"'{name}' has no scope", where=[where], fix="Write all, read-only, metrics or tools' names")
    if secret.startswith("sha256:"):
        if not re.fullmatch(r"[0-9a-fA-F]{64}", secret.removeprefix("sha256:")):
            raise ToolkitError(
                f"the digest of '{name}' is not 64 hex digits",
                where=[where],
                fix="Write the output of: printf %s TOKEN | sha256sum",
            )
        return Token(name, scopes, bytes.fromhex(secret.removeprefix("sha256:")))
    try:
        return Token.of(secret, name, scopes)
    except ToolkitError as problem:
        raise ToolkitError(problem.what, where=[where], fix=problem.fix) from None


def _refuse_doubles(file: Path, tokens: Sequence[Token]) -> None:
    seen: dict[str | bytes, Token] = {}
    for token in tokens:
        for key in (token.name, token.digest):
            if key in seen:
                what = f"two tokens are called '{token.name}'" if key == token.name else "two names have one token"
                where = f"{file}: {seen[key].name}, {token.name}"
                raise ToolkitError(what, where=[where], fix="Give each its own: a log tells clients apart by name")
            seen[key] = token


def _read_private(file: Path) -> str:
    """The text of a file that is this user's, or root's, and nobody else's to read."""
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ToolkitError(f"{file} is not a file", fix="Name the token file: --token-file tokens")
            _refuse_public(file, found)
            return opened.read(_LARGEST_FILE).decode()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise ToolkitError(
            f"the token file cannot be read: {reason}", where=[str(file)], fix="Check the path"
        ) from None
    except UnicodeDecodeError:
        raise ToolkitError("the token file is not text", where=[str(file)], fix="Write it in UTF-8") from None


def _refuse_public(file: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    # Root may share its file with a group on purpose; systemd does so with credentials.
    shared = 0o027 if found.st_uid == 0 else 0o077
    if mode & shared:
        who = "everybody" if mode & 0o007 else "its group"
        raise ToolkitError(
            f"refusing the token file: {who} has rights to it",
            where=[f"{file} has mode {mode:04o}"],
            fix=f"Keep it to yourself: chmod 600 {file}",
        )
    if found.st_uid not in (0, os.geteuid()):
        raise ToolkitError(
            "refusing the token file: it belongs to another user",
            where=[f"{file} belongs to user {found.st_uid}"],
            fix=f"Take it over: chown {os.geteuid()} {file}",
        )


def _version(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid
