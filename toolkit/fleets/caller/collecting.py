"""Take in what workers send back: a stored run like any other. Nothing that comes is believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.packs import Pack, packed_home
from toolkit.fleets.parcels import Parcel
from toolkit.fleets.returns import Brought, forget_brought, take_in
from toolkit.fleets.store import MemoryStore, Store
from toolkit.fleets.workers import Sent
from toolkit.runs.storage import runs_home


class Collector:
    """Takes runs in. `store` is where they come through; None where they come along with an answer."""

    def __init__(self, packs: Path, store: Store | None, on_word: Callable[[str], None]) -> None:
        self._packs = packs
        self._store = store
        self._on_word = on_word

    async def take(self, run: str, sent: Sent, pack: Pack | None) -> bool:
        """Store a run here, and say whether its worker need not keep it; why it must is a word to the caller."""
        try:
            left_there = await asyncio.to_thread(self._take, run, sent, pack)
        except ToolkitError as error:
            self._on_word(f"run {run} stays on its worker: {error}")
            return False
        if left_there:
            self._on_word(f"run {run}: {left_there}")
        return not left_there

    def _take(self, run: str, sent: Sent, pack: Pack | None) -> str:
        """Store it; what of it is only on the worker, and why."""
        if sent.brought is None:
            raise RunError(sent.why or "it was not sent")
        brought = _brought(sent.brought)
        store = MemoryStore(sent.records) if self._store is None else self._store
        home = None if pack is None else packed_home(pack, self._packs)
        take_in(brought, store, run=run, pack=home)
        if self._store is not None:
            forget_brought(brought, store)
        return brought.left_there

    @staticmethod
    def has(run: str) -> bool:
        """Whether a run is stored here."""
        return (runs_home() / run).is_dir()


def _brought(said: dict[str, Any]) -> Brought:
    """What a worker says of a run that it sends.

    Raises:
        RunError: it says something else.
    """
    try:
        kinds = {"hash": str, "manifest": int, "blocks": int, "packed": int, "size": int, "files": int}
        parcel = said["parcel"]
        if set(parcel) != set(kinds) or any(not isinstance(parcel[name], kind) for name, kind in kinds.items()):
            raise TypeError
        texts = [said[name] for name in ("run", "name", "left_there")]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        return Brought(texts[0], Parcel(**parcel), texts[1], texts[2])
    except (KeyError, TypeError):
        raise RunError("what a worker says of a run cannot be read") from None
