"""What the runs of a batch work on, packed when the first needs it, once, and the same after a --resume."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from toolkit._base.files import write_json
from toolkit.fleets.packs import Pack, pack, pack_code, send_pack
from toolkit.fleets.parcels import Parcel
from toolkit.fleets.store import Store
from toolkit.runs import RunSpec
from toolkit.workspace import WorkspaceSection

_INDEX = "packs.json"


class Packs:
    """The packs of one batch, by what they were packed of."""

    def __init__(self, folder: Path, store: Store, on_word: Callable[[str], None]) -> None:
        self._folder = folder
        self._store = store
        self._on_word = on_word
        self._packing = asyncio.Lock()
        self._known: dict[str, Pack] = {}
        self._sent: set[str] = set()
        """What the store is known to have."""
        try:
            kept = json.loads((folder / _INDEX).read_bytes())
            self._known = {key: Pack(Parcel(**parcel)) for key, parcel in kept.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._known = {}

    async def of(self, spec: RunSpec) -> Pack | None:
        """The pack of what a run works on; None where it works on nothing that travels.

        Raises:
            WorkspaceError: it cannot be packed: a mount is over its budget, not allowed, or cannot be read.
            RunError: it is prepared already, or the store cannot be written.
        """
        section = spec.workspace
        if not isinstance(section, WorkspaceSection) or spec.transport is not None:
            return None
        key = repr((section.mounts, section.allowed_host_roots, section.at, spec.toolchain))
        async with self._packing:
            found = self._known.get(key)
            if found is None or not (self._folder / found.hash).is_dir():
                found = await asyncio.to_thread(self._pack, section, toolchain=spec.toolchain)
                self._known[key] = found
                await asyncio.to_thread(self._remember)
            await asyncio.to_thread(self._send, found)
            return found

    async def of_code(self, files: Sequence[Path | str]) -> Pack | None:
        """The pack of files of tools, as they are now; None where there are none.

        Raises:
            RunError: a file is no code, or cannot be read, or the store cannot be written.
        """
        if not files:
            return None
        async with self._packing:
            made = await asyncio.to_thread(pack_code, files, self._folder)
            await asyncio.to_thread(self._send, made)
            return made

    def _send(self, made: Pack) -> None:
        """Put a pack into the store, unless it is there: a batch may go on with another store."""
        if made.hash not in self._sent:
            send_pack(made, self._folder, self._store)
            self._sent.add(made.hash)

    def _pack(self, section: WorkspaceSection, *, toolchain: bool) -> Pack:
        made = pack(section, self._folder, toolchain=toolchain)
        for remark in made.remarks:
            self._on_word(remark)
        return made

    def _remember(self) -> None:
        kept = {key: dataclasses.asdict(one.parcel) for key, one in self._known.items()}
        write_json(self._folder / _INDEX, kept, durable=True)
