"""The journal of a batch in a store: what it says is looked at, and what cannot be is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.batches._batches import began, ended, make, tasks, write_journal
from toolkit.errors import RunError
from toolkit.fleets.caller import JournalStore
from toolkit.fleets.journals import AttendanceLostError, attend, take_over
from toolkit.fleets.rate import Decision, take_up
from toolkit.fleets.store import FolderStore, Row, Store, StoreError
from toolkit.runs.batches import Batch, tasks_digest, work_off

GOOD = began("t0", worker="tcp://w:1", machine="m", used={"tokens": 0, "calls": 0, "open": {"next": None}})


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its batches to itself."""


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


async def attended(batch: Batch, store: Store, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Say lines as the one caller; what the journal says then."""
    with batch.worked_on():
        async with attend(batch, store, lease=4, patience=0, on_word=print):
            if lines:
                batch.say(*lines)
    return batch.lines()


def elsewhere(batch: Batch, home: Path) -> Batch:
    """The same batch on another machine, with an empty journal."""
    return Batch.begin(batch.name, tasks(2), home, uid=batch.facts["uid"])


async def test_what_is_said_about_tasks_is_in_the_store_and_arrives_elsewhere(
    store: FolderStore, tmp_path: Path
) -> None:
    batch = Batch.begin("b", tasks(2))
    write_journal(batch, began("t1"))  # before there was a store
    lines = await attended(batch, store, {"cluster": "tcp://of-the-first:1", "at": 1.0}, GOOD, ended("t0"))
    assert [line.get("task") for line in lines] == ["t1", None, "t0", "t0"]
    there = elsewhere(batch, tmp_path / "there")
    assert await attended(there, store) == [lines[0], *lines[2:]]  # an address of a cluster never comes from a store
    assert {task: one.state for task, one in there.standings().items()} == {"t0": "ok", "t1": "running"}
    await attended(there, store, ended("t1"))
    assert (await attended(batch, store))[-1] == ended("t1")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("text", "speaks of a task that there is not"),
        ({"task": "t9", "run": "b.t9.1"}, "speaks of a task that there is not"),
        ({**GOOD, "run": "b.t0.1/../../x"}, "says what it cannot: run"),
        ({**GOOD, "run": "b.t1.1"}, "says what it cannot: run"),
        ({**GOOD, "began": "now"}, "says what it cannot: began"),
        ({**GOOD, "used": {"tokens": -1}}, "says what it cannot: used"),
        ({**GOOD, "used": {"open": [1]}}, "says what it cannot: used"),
        ({**ended("t0"), "tokens": "many"}, "says what it cannot: tokens"),
        ({**ended("t0"), "tokens": True}, "says what it cannot: tokens"),
        ({**ended("t0"), "known_cost": float("nan")}, "says what it cannot: known_cost"),
        ({**ended("t0"), "code": "<img>"}, "says what it cannot: code"),
        ({**ended("t0"), "cause": "x" * 30_000}, "says what it cannot: cause"),
        ({"task": "t0", "run": "b.t0.1", "ended": 1.0}, "says what it cannot: ended"),
        ({"task": "t0", "promised": {"usd": float("inf")}}, "says what it cannot: promised"),
    ],
    ids=str,
)
async def test_a_line_that_cannot_be_is_refused(store: FolderStore, tmp_path: Path, line: Any, says: str) -> None:
    batch = Batch.begin("b", tasks(2))
    piece = {"after": "", "by": 1, "lines": [line]}
    store.create(f"batches/{batch.facts['uid']}/journal/00000001", json.dumps(piece).encode())
    with pytest.raises(RunError, match=says):
        await attended(batch, store)
    assert batch.lines() == []


async def test_what_a_line_may_not_say_does_not_arrive(store: FolderStore, tmp_path: Path) -> None:
    batch = Batch.begin("b", tasks(2))
    await attended(batch, store, {**GOOD, "cluster": "tcp://evil:1", "store": "/evil", "other": 1})
    assert await attended(elsewhere(batch, tmp_path / "there"), store) == [GOOD]
    assert len(await attended(batch, store)) == 1


def _gap(folder: Path) -> None:
    (folder / "00000002").unlink()


def _changed(folder: Path) -> None:
    said = json.loads((folder / "00000002").read_bytes())
    (folder / "00000002").write_text(json.dumps({**said, "by": 7}), encoding="utf-8")


def _nonsense(folder: Path) -> None:
    (folder / "00000002").write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("damage", [_gap, _changed, _nonsense])
async def test_a_journal_with_a_piece_missing_or_changed_is_refused(
    store: FolderStore, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    batch = Batch.begin("b", tasks(2))
    await attended(batch, store, GOOD)
    await attended(batch, store, ended("t0"))
    damage(store.folder / "batches" / batch.facts["uid"] / "journal")
    with pytest.raises(RunError, match=r"has a gap|is damaged"):
        await attended(elsewhere(batch, tmp_path / "there"), store)


async def test_two_journals_that_differ_are_refused(store: FolderStore, tmp_path: Path) -> None:
    batch = Batch.begin("b", tasks(2))
    await attended(batch, store, GOOD)
    there = elsewhere(batch, tmp_path / "there")
    write_journal(there, began("t1"))
    with pytest.raises(RunError, match="here and the one in the store differ"):
        await attended(there, store)


async def test_whoever_is_taken_over_from_can_write_nothing_more(store: FolderStore, tmp_path: Path) -> None:
    batch = Batch.begin("b", tasks(2))
    with batch.worked_on():
        async with attend(batch, store, lease=60, on_word=print) as attendance:
            batch.say(GOOD)
            store.create(f"batches/{batch.facts['uid']}/journal/00000003", b"{}")  # of another caller
            with pytest.raises(AttendanceLostError, match="another caller has taken the batch over"):
                batch.say(ended("t0"))
            assert not attendance.may_answer
    assert batch.lines() == [GOOD]


class _Gone(FolderStore):
    """A store that is there for a while."""

    is_gone = False

    def create(self, name: str, data: bytes) -> bool:
        if self.is_gone:
            raise StoreError("the store cannot be written: it is away")
        return super().create(name, data)


async def test_a_store_that_stays_away_ends_the_batch_and_no_line_is_only_here(tmp_path: Path) -> None:
    batch, store = Batch.begin("b", tasks(2)), _Gone(tmp_path / "store")
    with batch.worked_on():
        async with attend(batch, store, lease=60, patience=0, on_word=print):
            store.is_gone = True
            with pytest.raises(AttendanceLostError, match="it is away"):
                batch.say(GOOD)
    assert batch.lines() == []


async def test_a_batch_whose_journal_is_in_a_store_is_not_gone_on_with_without_it() -> None:
    batch = Batch.begin("b", tasks(1))
    with batch.worked_on():
        batch.say({"cluster": "tcp://h:1", "at": 1.0, "store": "s3://bucket/x"})
    with pytest.raises(RunError, match="is in a store, too") as caught:
        await work_off(batch, make)
    assert caught.value.where == ("s3://bucket/x",)
    batch.check_store("s3://bucket/x")


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"uid": "../../x"}, "cannot be gone on with"),
        ({"most_losses": "2"}, "cannot be gone on with"),
        ({"tasks": "other"}, "are not those of the batch"),
    ],
    ids=str,
)
def test_a_name_in_the_store_is_not_believed(store: FolderStore, said: dict[str, Any], says: str) -> None:
    fine = {"uid": "b-01234567", "most_losses": 2, "tasks": tasks_digest(tasks(2))}
    store.create("names/b", json.dumps({**fine, **said}).encode())
    with pytest.raises(RunError, match=says):
        take_over(str(store.folder), "b", tasks(2))
    assert take_over(str(store.folder), "c", tasks(2)) is None


def test_the_rate_goes_on_from_the_latest_decision_of_the_first_caller(store: FolderStore, tmp_path: Path) -> None:
    batch, base = Batch.begin("b", tasks(2)), "batches/b"
    here = JournalStore(batch, base, shared=store)
    decisions = Row(here, f"{base}/rate/decisions")
    for number, ceiling in enumerate((None, 5.0, 7.0), 1):
        said = Decision(number, "lowered", 4.0, ceiling, status=429, at=9.0, machine="w1")
        assert decisions.append(dataclasses.asdict(said))
    here.create(f"{base}/rate/here/w1/1.1", b"{}")
    there = JournalStore(elsewhere(batch, tmp_path / "there"), base, shared=store)
    taken = take_up(store, there, base)
    assert taken is not None
    assert (taken["number"], taken["ceiling"], taken["machine"]) == (3, 7.0, "w1")
    assert Row(there, f"{base}/rate/decisions").latest() == taken
    assert store.names(f"{base}/rate/here") == []
    store.create(f"{base}/rate/decisions/00000004", b'{"base": "fast"}')
    with pytest.raises(RunError, match="a decision on the rate is damaged"):
        take_up(store, there, base)
