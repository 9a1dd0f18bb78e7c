"""A run that nobody can be told of is not begun, and its task is not ended by that: another worker does it."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tests.fleets.conftest import Processes
from tests.fleets.play import BILLS, bills, make, tasks
from tests.sandbox.jails import needs_jail
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.fleets.packs import pack_code
from toolkit.fleets.store import MemoryStore, StoreError
from toolkit.fleets.workers import Order, Worker, pack_spec, tell_all, work_on
from toolkit.runs import RunSpec
from toolkit.runs.batches import Batch
from toolkit.runs.storage import runs_home
from toolkit.workspace import HostMount, WorkspaceSection

RUN = "b.t0.1"


class Deaf(MemoryStore):
    """A store that cannot be reached for records of some kinds."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self._kinds = kinds

    def create(self, name: str, data: bytes) -> bool:
        if name.split("/")[1] in self._kinds:
            raise StoreError("whoever called for the batch does not answer")
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


async def test_a_worker_that_cannot_reach_the_store_gives_the_task_back(order: Order, tmp_path: Path) -> None:
    """The tools that it needs are in a store that is away: that is no end of the task, and another may reach it."""
    module = tmp_path / "sent_tools.py"
    module.write_text("X = 1\n", encoding="utf-8")
    code = pack_code([module], tmp_path / "packs")
    (tmp_path / "file").touch()
    away = dataclasses.replace(order, code=code, store=str(tmp_path / "file" / "store"))
    store = MemoryStore()
    answer = await work_on(away, Worker("w1", "here", store))
    assert (answer.kind, answer.said["is_store"]) == ("released", True)
    assert not store.names("base/ends")
    assert (await work_on(order, Worker("w2", "here", store))).said["code"] == "ok"


@needs_jail
@pytest.mark.filterwarnings("default")
async def test_a_store_that_the_caller_cannot_write_ends_no_task(fleet: Processes, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "packs").touch()  # in the way of what is packed, and only of that
    section = WorkspaceSection([HostMount(tmp_path / "project")], allowed_host_roots=[tmp_path])
    batch = Batch.begin("b", tasks(2))
    spec = RunSpec("Do it.", workspace=section, api_url="http://127.0.0.1:9", api_key="k")
    options = Fleet(fleet.address, patience=60, store=str(tmp_path / "store"))
    with pytest.raises(StoreError, match="the store cannot be"):
        await asyncio.wait_for(work_off_on(batch, lambda task: spec, options), 120)
    assert [(one.state, one.runs) for one in batch.standings().values()] == [("waiting", [])] * 2
