"""A store behind any address that fsspec knows and that can create a file for one only: S3, Google Cloud, Azure.

Every record begins with a word that only its writer knows. An answer can be lost on the way and the request be sent
again by the client library, which then hears that the record is there: by the word the writer knows its own again.
"""

from __future__ import annotations

import re
import secrets
import threading
from importlib import import_module
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store.store import StoreError, check_name, is_name

_MAGIC = b"toolkit record 1\n"
_WORD = 16
_HEAD = len(_MAGIC) + _WORD
_IN_MEMORY = threading.Lock()
"""The memory of a process checks and creates in two steps."""

EXCLUSIVE = ("memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl")
"""The protocols whose file systems create a file for one only; the first is for one process."""


class FsspecStore:
    """A store behind an address such as `s3://bucket/folder`. Each machine reaches it with its own credentials."""

    def __init__(self, address: str) -> None:
        """Find the file system behind an address; nothing is asked of it yet.

        Raises:
            RunError: fsspec or its part for this protocol is not installed, or it cannot create a file for one only.
        """
        self.address = without_user(address)
        protocol = address.partition("://")[0]
        if protocol not in EXCLUSIVE:
            raise RunError(
                f"a store cannot be at {self.address}: {protocol} does not create a file for one only",
                fix=f"Use a folder, or one of: {', '.join(EXCLUSIVE[1:])}",
            )
        try:
            self._fs, top = import_module("fsspec.core").url_to_fs(address)
        except ImportError as error:
            raise RunError(
                f"the store {self.address} needs a package that is not installed: {error}",
                fix="Install it where the batch is started and on every worker",
            ) from None
        except Exception as error:  # each file system has errors of its own
            raise self._failed("opened", "", error) from None
        self._top = str(top).rstrip("/")
        self._lock = _IN_MEMORY if protocol == "memory" else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address,)

    def create(self, name: str, data: bytes) -> bool:
        """Make a record."""
        head = _MAGIC + secrets.token_bytes(_WORD)
        path = self._path(name)
        try:
            if self._lock is None:
                self._fs.pipe_file(path, head + data, mode="create")
            else:
                with self._lock:
                    self._fs.pipe_file(path, head + data, mode="create")
        except Exception as error:  # each file system has errors of its own for what is there already
            found = self._get(path)
            if found is None:
                raise self._failed("written", name, error) from None
            return found[:_HEAD] == head
        return True

    def read(self, name: str) -> bytes | None:
        """A record's content."""
        found = self._get(self._path(name))
        if found is None:
            return None
        if not found.startswith(_MAGIC) or len(found) < _HEAD:
            raise RunError("a record of the store is damaged", where=[self.address, name])
        return found[_HEAD:]

    def names(self, folder: str) -> list[str]:
        """The full names of all records below a folder."""
        top = self._path(folder)
        try:
            self._fs.invalidate_cache()
            found = self._fs.find(top)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._failed("read", folder, error) from None
        below = [str(path).rpartition(f"{self._top}/")[2] for path in found]
        return sorted(name for name in below if is_name(name))

    def remove(self, name: str) -> None:
        """Take a record away."""
        try:
            self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return
        except Exception as error:
            if self._get(self._path(name)) is not None:
                raise self._failed("changed", name, error) from None

    def _path(self, name: str) -> str:
        return f"{self._top}/{check_name(name)}"

    def _get(self, path: str) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(path))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", path.rpartition(f"{self._top}/")[2], error) from None

    def _failed(self, done: str, name: str, error: Exception) -> StoreError:
        why = without_user(str(error).partition("\n")[0]) or type(error).__name__
        where = [self.address, *([name] if name else [])]
        fix = "Look whether this machine's credentials may read and write there"
        return StoreError(f"the store cannot be {done}: {why}", where=where, fix=fix)


def without_user(text: str) -> str:
    """A text without what stands between '://' and '@' in its addresses."""
    return re.sub(r"(\w://)[^/@\s]*@", r"\1", text)
