"""Put a parcel into a store, and get it out again: one record for the manifest, one for each block.

What a store gives is not believed: `unpacking` compares every record with its hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit.fleets.parcels.entries import Manifest, Parcel, ParcelError, blocks_in
from toolkit.fleets.parcels.packing import BLOCKS, MANIFEST, packed_pieces
from toolkit.fleets.store import Store


@dataclass(frozen=True)
class Parts:
    """Where the parts of a parcel can be had."""

    manifest: Callable[[], bytes]
    block: Callable[[int], bytes]


def send(parcel: Parcel, folder: Path, store: Store, name: str) -> None:
    """Put the parcel that was packed into `folder` below `name` of a store; what is there already is not sent again.

    Raises:
        RunError: the store cannot be written.
    """
    data = (folder / MANIFEST).read_bytes()
    blocks = blocks_in(data, parcel)
    known = set(store.names(name))
    if f"{name}/manifest" in known:  # it is written last
        return
    for number, piece in enumerate(packed_pieces(folder, blocks)):
        if _block_name(name, number) not in known:
            store.create(_block_name(name, number), piece)
    store.create(f"{name}/manifest", data)


def fetch(parcel: Parcel, store: Store, name: str) -> Parts:
    """The parts of a parcel in a store; each is asked for when it is needed."""

    def read(record: str) -> bytes:
        data = store.read(record)
        if data is None:
            raise ParcelError("a part of a parcel is missing in the store", where=[record, parcel.hash])
        return data

    return Parts(lambda: read(f"{name}/manifest"), lambda number: read(_block_name(name, number)))


def at_home(folder: Path, manifest: Manifest) -> Parts:
    """The parts of a parcel that was packed into a folder here."""
    starts = [0]
    for block in manifest.blocks:
        starts.append(starts[-1] + block.packed)

    def read(number: int) -> bytes:
        with (folder / BLOCKS).open("rb") as file:
            file.seek(starts[number])
            return file.read(manifest.blocks[number].packed)

    return Parts(lambda: (folder / MANIFEST).read_bytes(), read)


def forget_sent(store: Store, name: str) -> None:
    """Take a parcel out of a store, the manifest first."""
    store.remove(f"{name}/manifest")
    for record in store.names(name):
        store.remove(record)


def _block_name(name: str, number: int) -> str:
    return f"{name}/block-{number:06}"
