"""A store in memory: for what is on its way in one message, and gone with it."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.fleets.store.store import check_name


class MemoryStore:
    """Records in a dict; `records` is what it holds."""

    def __init__(self, records: Mapping[str, bytes] | None = None) -> None:
        self.records = dict(records or {})

    def create(self, name: str, data: bytes) -> bool:
        """Make a record."""
        return self.records.setdefault(check_name(name), data) is data

    def read(self, name: str) -> bytes | None:
        """A record's content."""
        return self.records.get(name)

    def names(self, folder: str) -> list[str]:
        """The full names of all records below a folder."""
        return sorted(name for name in self.records if name.startswith(f"{check_name(folder)}/"))

    def remove(self, name: str) -> None:
        """Take a record away."""
        self.records.pop(name, None)
