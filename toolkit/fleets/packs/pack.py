"""Pack a workspace: the files that preparing would copy, by the same rules, with the history that git needs.

    FOLDER/HASH/
      manifest, blocks   the parcel, as it is sent
      record             what the files were here, so that what comes back can be compared and applied; it is not sent

What is lent is not packed: a worker has it at the same path, makes it by a setup, or refuses by its name.
"""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import remove_folder
from toolkit._base.unborn import unborn_name
from toolkit._base.words import size_text
from toolkit.errors import RunError, WorkspaceBudgetError
from toolkit.fleets.parcels import Manifest, Packing, Parcel, ParcelError, Parts, at_home, send
from toolkit.fleets.store import Store
from toolkit.sandbox import find_toolchain
from toolkit_workspace import WorkspaceSection
from toolkit_workspace.record import Record

MOST_BYTES = 16 << 30
"""The most that one pack may hold."""
_RECORD = "record"


@dataclass(frozen=True)
class Pack:
    """A packed workspace, as workers are told of it: small, and the same for the same content."""

    parcel: Parcel
    remarks: tuple[str, ...] = ()
    """What its owner should know before anything is sent: files that usually hold credentials, say."""

    @property
    def hash(self) -> str:
        """Its name everywhere."""
        return self.parcel.hash

    @property
    def name(self) -> str:
        """Where it is in a store."""
        return f"packs/{self.hash}"


@dataclass(frozen=True)
class PackedHome:
    """A pack where it was packed: its parts, and what its files were."""

    pack: Pack
    folder: Path

    @property
    def manifest(self) -> Manifest:
        """What it says of itself."""
        data = (self.folder / "manifest").read_bytes()
        return Manifest.from_bytes(data, self.pack.parcel, most_bytes=self.pack.parcel.size)

    @property
    def record(self) -> Record:
        """What its files were on this machine."""
        return Record.load(self.folder / _RECORD)

    def parts(self, manifest: Manifest) -> Parts:
        """Its bytes."""
        return at_home(self.folder, manifest)


def pack(section: WorkspaceSection, folder: Path, *, toolchain: bool = True, most_bytes: int = MOST_BYTES) -> Pack:
    """Pack a section into `folder/HASH`; packing the same content again gives the same pack.

    With `toolchain` the owner's virtual environments and the like are lent, as they are to a run here.

    Raises:
        RunError: it is prepared already.
        WorkspaceBudgetError: a mount is larger than its max_bytes, or all of it than `most_bytes`.
        WorkspaceError: a mount lies in no allowed root, or something cannot be read or written.
    """
    if section.is_prepared:
        raise RunError(
            "a workspace that is prepared cannot be sent to other machines", fix="Give the section unprepared"
        )
    lending = copy.copy(section)
    if toolchain:
        found = find_toolchain([one for one in section.projects if one.is_dir()])
        for mount, project in zip(lending.mounts, section.projects, strict=True):
            lending.lend_also(mount, found.inside(project))
    return packed_into(folder, lambda unborn: _packed(lending, unborn, most_bytes))


def packed_into(folder: Path, packs: Callable[[Path], Pack]) -> Pack:
    """What `packs` has packed into a new folder, which is then `folder/HASH`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    unborn = folder / unborn_name(f"pack-{secrets.token_hex(4)}")
    unborn.mkdir(mode=0o700)
    try:
        pack = packs(unborn)
        if not (folder / pack.hash).is_dir():
            unborn.rename(folder / pack.hash)
    finally:
        if unborn.exists():
            remove_folder(unborn)
    return pack


def _packed(section: WorkspaceSection, into: Path, most_bytes: int) -> Pack:
    with Packing(into, most_bytes=most_bytes) as packing:
        try:
            selected = section.pack_into(packing)
        except ParcelError:
            raise WorkspaceBudgetError(
                f"the workspace holds more than the {size_text(most_bytes)} that can be sent",
                max_bytes=most_bytes,
                needed=packing.size,
                largest=(),
                fix="Leave out what the agent does not need: --exclude PATTERN, or --gitignore",
            ) from None
        parcel = packing.finish({"section": selected.facts})
    selected.record.save(into / _RECORD)
    return Pack(parcel, selected.remarks)


def packed_home(pack: Pack, folder: Path) -> PackedHome:
    """A pack in the folder that it was packed into.

    Raises:
        RunError: it is not there.
    """
    place = folder / pack.hash
    if not place.is_dir():
        raise RunError(
            "the pack of a batch is gone", where=[os.fspath(place)], fix="Pack it again: start the batch anew"
        )
    return PackedHome(pack, place)


def send_pack(pack: Pack, folder: Path, store: Store) -> None:
    """Put a pack into a store, unless it is there.

    Raises:
        RunError: the store cannot be written.
    """
    send(pack.parcel, folder / pack.hash, store, pack.name)
