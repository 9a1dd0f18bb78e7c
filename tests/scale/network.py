"""A store in memory, and the way to it: answers get lost, others are quicker, and some machines are cut off."""

from __future__ import annotations

from dataclasses import dataclass

from tests.scale.world import World
from toolkit.errors import RunError


class Records:
    """What the store holds."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}
        self._below: dict[str, set[str]] = {}
        self.requests = 0

    def create(self, name: str, data: bytes) -> bool:
        if name in self._data:
            return False
        self._data[name] = data
        while "/" in name:
            folder = name.rpartition("/")[0]
            known = self._below.setdefault(folder, set())
            if name in known:
                break
            known.add(name)
            name = folder
        return True

    def read(self, name: str) -> bytes | None:
        return self._data.get(name)

    def names(self, folder: str) -> list[str]:
        found: list[str] = []
        todo = [folder]
        while todo:
            for name in self._below.get(todo.pop(), ()):
                (found if name in self._data else todo).append(name)
        return sorted(found)

    def remove(self, name: str) -> None:
        if self._data.pop(name, None) is not None:
            self._below[name.rpartition("/")[0]].discard(name)


@dataclass(slots=True)
class Way:
    """One machine's way to the store: a `toolkit.fleets.store.Store`."""

    records: Records
    world: World
    lost_answers: float = 0.0
    """How likely an answer is to be lost, after the store has done what was asked."""
    overtaken: float = 0.0
    """How likely somebody else is to do something between the request and the store."""
    is_cut: bool = False

    def create(self, name: str, data: bytes) -> bool:
        if self.overtaken and self.world.dice.random() < self.overtaken:
            self.world.meanwhile(0.2)
        self._reach()
        made = self.records.create(name, data)
        self._answer()
        return made

    def read(self, name: str) -> bytes | None:
        self._reach()
        return self.records.read(name)

    def names(self, folder: str) -> list[str]:
        self._reach()
        return self.records.names(folder)

    def remove(self, name: str) -> None:
        self._reach()
        self.records.remove(name)

    def _reach(self) -> None:
        self.records.requests += 1
        if self.is_cut:
            raise RunError("the store cannot be reached")

    def _answer(self) -> None:
        if self.lost_answers and self.world.dice.random() < self.lost_answers:
            raise RunError("the answer of the store was lost")
