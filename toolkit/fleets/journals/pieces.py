"""The journal of a batch as pieces in a store, each written once, in order.

    BASE/journal/N      the Nth piece: its lines, the caller that wrote it, and the hash of the piece before

Whoever creates the next piece has written it, so a caller that somebody has taken over from can write no more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import Store

_MOST_BYTES = 16 * 1024 * 1024
_READERS = 16


class Pieces:
    """The pieces of one journal, as one caller knows them."""

    def __init__(self, store: Store, base: str) -> None:
        self._store = store
        self._folder = f"{base}/journal"
        self._last = 0
        self._hash = ""
        """Of the last piece that is known."""

    def read_on(self) -> list[Any]:
        """The lines of the pieces after those that are known, as they are: nobody has looked at them.

        Raises:
            RunError: a piece is missing or damaged.
            StoreError: the store cannot be read.
        """
        names = [name for name in self._store.names(self._folder) if name > self._name(self._last)]
        if names != [self._name(self._last + 1 + index) for index in range(len(names))]:
            raise RunError("the journal in the store has a gap", where=[self._folder])
        lines: list[Any] = []
        with ThreadPoolExecutor(_READERS) as readers:
            for name, data in zip(names, readers.map(self._store.read, names), strict=True):
                lines += self._lines(name, data or b"")
        return lines

    def append(self, lines: Sequence[dict[str, Any]], by: int) -> bool:
        """Write the next piece; False where somebody else has. What failed may be tried again.

        Raises:
            StoreError: the store cannot be written.
        """
        name = self._name(self._last + 1)
        data = json.dumps({"after": self._hash, "by": by, "lines": list(lines)}, ensure_ascii=True).encode()
        if not self._store.create(name, data) and self._store.read(name) != data:  # one of ours may have got through
            return False
        self._last, self._hash = self._last + 1, hashlib.sha256(data).hexdigest()
        return True

    def _lines(self, name: str, data: bytes) -> list[Any]:
        try:
            said = json.loads(data) if len(data) <= _MOST_BYTES else None
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or said.get("after") != self._hash or not isinstance(said.get("lines"), list):
            raise RunError("the journal in the store is damaged", where=[name])
        self._last, self._hash = self._last + 1, hashlib.sha256(data).hexdigest()
        return list(said["lines"])

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:08d}"
