"""A row of records: what changes over time, each state a record with the next number.

row = Row(store, "BASE/rate/decisions")
row.read_on()                    what others have said since
row.append({...})                True: it is the next; False: somebody was quicker, so read on and think again
"""

from __future__ import annotations

import json
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store.store import Store

_DIGITS = 8


class Row:
    """One row, as one reader knows it."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store = store
        self.folder = folder
        self.last = 0
        """The number of the latest record that was read or written here; 0 for none."""

    def latest(self) -> dict[str, Any] | None:
        """The last record there is, without reading those before it; None where there is none.

        Raises:
            RunError: the store cannot be reached, or a record is damaged.
        """
        numbers = [int(end) for name in self.store.names(self.folder) if (end := name.rpartition("/")[2]).isdigit()]
        self.last = max([self.last, *numbers])
        found = self.read_on()
        return found[-1] if found else self._read(self.last) if self.last else None

    def read_on(self) -> list[dict[str, Any]]:
        """The records after those that are known here, in order. Raises as `latest`."""
        found = []
        while (said := self._read(self.last + 1)) is not None:
            self.last += 1
            found.append(said)
        return found

    def newest(self) -> dict[str, Any] | None:
        """The last record after those that are known here, without reading all between; None where there is none.

        Only for a row of which nothing is taken away. Raises as `latest`.
        """
        found, step, low = None, 1, self.last
        while (said := self._read(self.last + step)) is not None:
            found, low, step = said, self.last + step, step * 2
        high = self.last + step
        while high - low > 1:
            middle = (low + high) // 2
            said = self._read(middle)
            found, low, high = (found, low, middle) if said is None else (said, middle, high)
        self.last = low
        return found

    def append(self, said: dict[str, Any]) -> bool:
        """Make the next record; False where somebody else has made it. Raises as `latest`."""
        if not self.store.create(self._name(self.last + 1), json.dumps(said).encode()):
            return False
        self.last += 1
        return True

    def forget(self, number: int) -> None:
        """Take away a record that nobody needs any more."""
        if number >= 1:
            self.store.remove(self._name(number))

    def _name(self, number: int) -> str:
        return f"{self.folder}/{number:0{_DIGITS}d}"

    def _read(self, number: int) -> dict[str, Any] | None:
        return read_said(self.store, self._name(number))


def read_said(store: Store, name: str) -> dict[str, Any] | None:
    """What a record says; None where there is none.

    Raises:
        RunError: the store cannot be read, or the record is damaged.
    """
    data = store.read(name)
    if data is None:
        return None
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise RunError("a record of the store is damaged", where=[name])
    return said
