"""Open the store that somebody named: a folder, or an address."""

from __future__ import annotations

import secrets
from pathlib import Path

from toolkit.errors import RunError
from toolkit.fleets.store.store import FolderStore, Store

_PROBES = "probes"
_SHARED = "Write a folder that all machines see, or for example: s3://bucket/folder"


def open_store(address: str) -> Store:
    """The store at an address: a path, `file:///path`, `s3://bucket/folder` and so on. Nothing is asked of it yet.

    Raises:
        RunError: there can be none at that address, or what it needs is not installed.
    """
    protocol, sign, rest = address.partition("://")
    if not address.strip() or "::" in address:
        raise RunError(f"{address!r} is no address of a store", fix=_SHARED)
    if not sign:
        return FolderStore(Path(address).expanduser().absolute())
    if protocol in ("file", "local"):
        return FolderStore(Path(rest if rest.startswith("/") else f"/{rest}"))
    from toolkit.fleets.store.fsspec_store import FsspecStore

    return FsspecStore(address)


def open_shared(address: str) -> Store:
    """The same, for several machines.

    Raises:
        RunError: as `open_store`, or it is in the memory of one process.
    """
    if address.startswith("memory:"):
        raise RunError(f"{address} is in the memory of one process: no worker can reach it", fix=_SHARED)
    return open_store(address)


def address_of(store: Store) -> str:
    """The address of a store, without a user or password in it."""
    return str(store.folder) if isinstance(store, FolderStore) else str(getattr(store, "address", ""))


def check_store(store: Store) -> None:
    """Make sure that a store can be written and read, and creates a record once.

    Raises:
        RunError: it cannot, or does not.
    """
    name, word = f"{_PROBES}/{secrets.token_hex(12)}", secrets.token_bytes(8)
    if not store.create(name, word):
        raise RunError("the store says that a new record was there before", where=[name])
    try:
        if store.read(name) != word:
            raise RunError("the store does not give back what was put into it", where=[name])
        if store.create(name, b"other") or store.read(name) != word:
            raise RunError(
                "the store lets a record be replaced: two machines could do one task",
                where=[name],
                fix="Use a store that creates a file for one only, such as a folder or S3 itself",
            )
    finally:
        store.remove(name)
