"""Read the model API's key on the host, and refuse a file that others can read too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from toolkit.errors import SandboxError


def read_key(api_key: str | None, api_key_file: Path | str | None) -> str | None:
    """Return the key as given, from the file, or from `ANTHROPIC_API_KEY`; None if there is none.

    Raises:
        SandboxError: both are given, or the file is missing, empty, a link, or open to others.
    """
    if api_key is not None and api_key_file is not None:
        raise SandboxError("api_key and api_key_file are both given", fix="Give one of them.")
    if api_key_file is None:
        return api_key if api_key is not None else os.environ.get("ANTHROPIC_API_KEY")
    path = Path(api_key_file)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise SandboxError(f"key file '{path}' cannot be read: {why}", fix="Name the file itself.") from None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise SandboxError(f"key file '{path}' is not a file", fix="Name the file that holds the key.")
        if found.st_mode & 0o077:
            raise SandboxError(f"key file '{path}' can be read by others", fix=f"Run: chmod 600 {path}")
        key = file.read().strip()
    if not key or not key.isprintable() or " " in key:
        raise SandboxError(f"key file '{path}' does not hold one key", fix="Put the key alone into it.")
    return key
