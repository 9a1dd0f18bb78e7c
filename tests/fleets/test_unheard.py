"""A run that nobody can be told of is not begun, and its task is not ended by that: another worker does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleets.play import BILLS, bills, make, tasks
from toolkit.errors import RunError
from toolkit.fleets.store import MemoryStore
from toolkit.fleets.workers import Order, Worker, pack_spec, tell_all, work_on
from toolkit.runs.storage import runs_home

RUN = "b.t0.1"


class Deaf(MemoryStore):
    """A store that cannot be reached for records of some kinds."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self._kinds = kinds

    def create(self, name: str, data: bytes) -> bool:
        if name.split("/")[1] in self._kinds:
            raise RunError("whoever called for the batch does not answer")
        return super().create(name, data)


@pytest.fixture
def order(toolkit_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Order:
    monkeypatch.setenv(BILLS, str(tmp_path / "bills"))
    (tmp_path / "bills").touch()
    [task] = tasks(1)
    return Order("b", "base", task.id, task.prompt, pack_spec(make(task)), lease=0.2)


async def test_it_is_given_back_at_once_where_that_can_be_said(order: Order, tmp_path: Path) -> None:
    store = Deaf("begun")
    answer = await work_on(order, Worker("w1", "here", store))
    assert answer.kind == "held"
    assert "base/released/t0/1" in store.records
    assert not store.names("base/ends")
    assert not (runs_home() / RUN).exists()
    other = MemoryStore(store.records)
    assert (await work_on(order, Worker("w2", "here", other))).said["code"] == "ok"
    assert len(list(bills(tmp_path / "bills"))) == 1


async def test_where_nothing_can_be_said_it_is_taken_over_after_its_lease(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Deaf("begun", "released", "ends", "lost")
    with monkeypatch.context() as killed:  # before it could remove the run
        killed.setattr("toolkit.fleets.workers.entry.drop_run", lambda run: None)
        assert (await work_on(order, Worker("w1", "here", store))).kind == "held"
    assert (runs_home() / RUN).is_dir()
    assert tell_all([RUN]) == []
    other = MemoryStore(store.records)
    answer = await work_on(order, Worker("w2", "here", other))
    assert (answer.kind, answer.said["code"], answer.said["run"]) == ("ended", "ok", "b.t0.2")
    assert len(list(bills(tmp_path / "bills"))) == 1
