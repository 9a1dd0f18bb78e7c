"""Recognise files that usually hold credentials, by their names, and by their beginning where a name says too little.

They are named, never refused: the owner decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit._base.handles import READ_FILE
from toolkit._base.words import safe_name
from toolkit_workspace.record import join

if TYPE_CHECKING:
    from toolkit_workspace.selecting.sources import Source
    from toolkit_workspace.selecting.tally import LeftOut, Tally

_MOST_READ = 65_536
_KEYS = rb"PRIVATE KEY-----"
# name: what it holds, the pattern that leaves it out, and what its beginning must hold (None: the name is enough)
_KINDS: tuple[tuple[str, str, str, bytes | None], ...] = (
    (r"\.env(\..+)?", "environment variables", ".env*", None),
    (r"[._]netrc", "passwords for hosts", "{name}", None),
    (r"id_(rsa|dsa|ecdsa|ed25519)(_sk)?", "a private key", "id_*", None),
    (r"\.(pypirc|git-credentials|htpasswd|pgpass)", "passwords", "{name}", None),
    (r".+\.(p12|pfx|jks|keystore)", "a key store", "*.{suffix}", None),
    (r".+\.(pem|key)", "a private key", "*.{suffix}", _KEYS),
    (r"\.npmrc|\.yarnrc(\.yml)?", "a token for packages", "{name}", rb"_auth|_password|[aA]uthToken"),
    (r".*(cred|secret|service|account|key|firebase|gcp|google).*\.json", "a service account", "{name}",
     rb'"(private_key|client_secret)"\s*:'),
    (r"credentials", "access keys", "credentials", rb"aws_secret_access_key"),
)  # fmt: skip
_IN_GIT = re.compile(
    rb"^\s*(?:(?:push)?url\s*=\s*\"?|\[\s*url\s+\")(?:https?://[^/\s@\"]+@|[a-z+.-]+://[^/\s@\":]*:[^/\s@\"]+@)"
    rb"|^\s*extraheader\s*=.*authorization|^\s*(?:password|token|oauthtoken)\s*=\s*\S",
    re.IGNORECASE | re.MULTILINE,
)
"""What gives a repository's own configuration away: a user or token in an address, a header, a password."""
_EXAMPLES = re.compile(r"\.env\.(example|sample|template|dist|defaults?)")
_ANY = re.compile("|".join(f"(?P<k{number}>{kind[0]})" for number, kind in enumerate(_KINDS)), re.IGNORECASE)
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Secret:
    """One file that usually holds credentials."""

    path: str
    """Relative to the workspace."""
    what: str
    pattern: str
    """An exclude pattern that leaves it and its like behind."""


def looks_secret(folder: int, name: str, path: bytes = b"") -> tuple[str, str] | None:
    """What a file in an open folder holds and the pattern that leaves it out; None for an ordinary one.

    `path` is the folder's in its mount.
    """
    if name == "config" and (pattern := _git_config(path)) is not None:
        return ("a token for git", pattern) if _IN_GIT.search(_beginning(folder, name)) else None
    found = _ANY.fullmatch(name)
    if found is None or found.lastgroup is None or _EXAMPLES.fullmatch(name):
        return None
    number = next(number for number in range(len(_KINDS)) if found[f"k{number}"] is not None)
    _, what, pattern, beginning = _KINDS[number]
    if beginning is not None and not re.search(beginning, _beginning(folder, name)):
        return None
    return what, pattern.format(name=name, suffix=name.rpartition(".")[2])


def _git_config(path: bytes) -> str | None:
    """The pattern for the `config` of a folder, if that is a git folder, or one of a submodule in it."""
    _, found, below = (b"/" + path + b"/").rpartition(b"/.git/")
    if not found or (below and not below.startswith(b"modules/")):
        return None
    return "**/.git/modules/**/config" if below else "**/.git/config"


def _beginning(folder: int, name: str) -> bytes:
    try:
        handle = os.open(name, READ_FILE, dir_fd=folder)
    except OSError:  # whether it can be read is told by whoever copies it
        return b""
    try:
        return os.read(handle, _MOST_READ)
    except OSError:
        return b""
    finally:
        os.close(handle)


def secrets_of(sources: Sequence[Source], tallies: Sequence[Tally]) -> Iterator[Secret]:
    """What was found in the mounts, with paths of the workspace."""
    for source, tally in zip(sources, tallies, strict=True):
        for path, what, pattern in sorted(tally.secrets):
            yield Secret(os.fsdecode(join(source.record.at, path)), what, pattern)


def left_secrets_text(left: Sequence[tuple[str, LeftOut]]) -> str | None:
    """One line for those that did not come along, by the mount's place and the entry; None where all did."""
    found = [(f"{at}/{one.path}", one.detail) for at, one in left if one.why == "holds credentials"]
    if not found:
        return None
    files = (
        "1 file that may hold credentials was"
        if len(found) == 1
        else f"{len(found)} files that may hold credentials were"
    )
    return f"{files} left out: {_named(found)}"


def secrets_text(secrets: Sequence[Secret]) -> str:
    """One warning for all of them: which, and what leaves them out."""
    patterns = " ".join(f"--exclude '{pattern}'" for pattern in dict.fromkeys(one.pattern for one in secrets))
    files = "1 file" if len(secrets) == 1 else f"{len(secrets)} files"
    what = f"{files} that the agent can read may hold credentials"
    named = _named([(one.path, one.what) for one in secrets])
    return f"{what}: {named}. Leave out: {patterns}, or all such: --leave-out-secrets"


def _named(found: Sequence[tuple[str, str]]) -> str:
    named = [f"{safe_name(path)} ({what})" for path, what in found[:_MOST_NAMED]]
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return ", ".join([*named, *more])
