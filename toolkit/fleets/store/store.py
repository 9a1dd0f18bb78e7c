"""The store: named records, each created once by whoever is first, and never changed.

Nothing more is asked of a store than an atomic create, so that a folder, an object store and a scheduler can all be
one. What changes over time is a row of records (`claims/TASK/1`, `claims/TASK/2`): whoever creates the next one has
won, and the others see that they have lost.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Protocol

from toolkit._base.files import write_whole
from toolkit.errors import RunError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,99}){0,7}")


class StoreError(RunError):
    """A store cannot be reached, read or written, for now: no task has ended by that."""


class Store(Protocol):
    """What every store can do. A name is up to eight parts of letters, digits, '-', '_' and '.', divided by '/'.

    Each raises StoreError where the store cannot be reached, read or written; that something is not there is no error.
    """

    def create(self, name: str, data: bytes) -> bool:
        """Make a record, whole or not at all. False where there is one of that name: then nothing is changed."""

    def read(self, name: str) -> bytes | None:
        """A record's content; None where there is none."""

    def names(self, folder: str) -> list[str]:
        """The full names of all records below a folder, sorted."""

    def remove(self, name: str) -> None:
        """Take a record away, where it is there."""


def is_name(name: str) -> bool:
    """Whether a text can be the name of a record."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """A name, where it can be one.

    Raises:
        RunError: it cannot; so no record is outside its store.
    """
    if not is_name(name):
        raise RunError(f"{name!r} cannot be the name of a record")
    return name


class FolderStore:
    """A store in a folder of this machine, or of a disk that several share."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def create(self, name: str, data: bytes) -> bool:
        """Make a record, synced to the disk before it has its name."""
        file = self.folder / check_name(name)
        fresh = file.with_name(f".{secrets.token_hex(8)}.new")
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                write_whole(fresh, data, durable=True)
                os.link(fresh, file)
            finally:
                fresh.unlink(missing_ok=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._failed("written", name, error) from None
        return True

    def read(self, name: str) -> bytes | None:
        """A record's content."""
        try:
            return (self.folder / check_name(name)).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", name, error) from None

    def names(self, folder: str) -> list[str]:
        """The full names of all records below a folder."""
        top = self.folder / check_name(folder)

        def failed(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise self._failed("read", folder, error) from None

        found = []
        for place, _, files in os.walk(top, onerror=failed):
            within = Path(place).relative_to(self.folder)
            found += [str(within / file) for file in files if _NAME.fullmatch(file)]
        return sorted(found)

    def remove(self, name: str) -> None:
        """Take a record away."""
        try:
            (self.folder / check_name(name)).unlink(missing_ok=True)
        except OSError as error:
            raise self._failed("changed", name, error) from None

    def _failed(self, done: str, name: str, error: OSError) -> StoreError:
        why = error.strerror or type(error).__name__
        return StoreError(f"the store cannot be {done}: {why}", where=[str(self.folder), name])
