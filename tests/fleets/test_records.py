"""The caller's journal as the store of its workers: what is created is in it, once, and stays after a kill."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.play import tasks
from toolkit.errors import RunError
from toolkit.fleets.caller import JournalStore
from toolkit.fleets.caller.answering import Desk
from toolkit.fleets.claims import Claim, Claims, Ended, Held
from toolkit.runs.batches import Batch, find_batch

BASE = "batches/b"


@pytest.fixture
def batch(toolkit_home: Path) -> Iterator[Batch]:
    made = Batch.begin("b", tasks(2))
    with made.worked_on():
        yield made


def said(**facts: Any) -> bytes:
    return json.dumps({"task": "t0", "run": "b.t0.1", **facts}).encode()


def test_claims_over_the_journal_are_claims_and_another_caller_finds_them(batch: Batch) -> None:
    store = JournalStore(batch, BASE)
    claim = Claims(store, BASE, "b", {"worker": "w1", "machine": "m"}).take("t0")
    assert isinstance(claim, Claim)
    assert store.standings["t0"].state == "claimed"
    assert find_batch("b").standings()["t0"].begins["b.t0.1"]["machine"] == "m"
    later = JournalStore(find_batch("b"), BASE)
    assert isinstance(Claims(later, BASE, "b").take("t0"), Held)
    assert claim.renew()
    assert claim.finish({"code": "ok", "tokens": 5, "cost": 0.1, "known_cost": 0.1})
    assert isinstance(Claims(JournalStore(find_batch("b"), BASE), BASE, "b").take("t0"), Ended)
    assert find_batch("b").standings()["t0"].state == "ok"


def test_a_silent_holder_is_lost_with_what_it_was_charged_when_another_takes_over(batch: Batch) -> None:
    store = JournalStore(batch, BASE)
    now = [0.0]
    first = Claims(store, BASE, "b", {"worker": "w1"}, lease=60.0, clock=lambda: now[0]).take("t0")
    assert isinstance(first, Claim)
    store.create(f"{BASE}/books/t0/1/1", said(used={"tokens": 100, "calls": 1, "open": {"2": 900}, "known_cost": 0.0}))
    other = Claims(store, BASE, "b", {"worker": "w2"}, lease=60.0, clock=lambda: now[0])
    assert isinstance(other.take("t0"), Held)
    now[0] = 61.0
    assert isinstance(other.take("t0"), Claim)
    standing = find_batch("b").standings()["t0"]
    end = standing.ends["b.t0.1"]
    assert (end["lost"], end["tokens"], end["estimated"], end["unknown_calls"], end["cost"]) == (
        True,
        1000,
        900,
        1,
        None,
    )
    assert (standing.tokens, standing.cost[1], standing.state) == (1000, False, "claimed")


def test_a_record_about_a_task_that_there_is_not_is_refused_and_nothing_is_written(batch: Batch) -> None:
    store = JournalStore(batch, BASE)
    with pytest.raises(RunError, match="a task that there is not"):
        store.create_all(
            [(f"{BASE}/claims/t0/1", said(claimed=1.0)), (f"{BASE}/claims/x/1", b'{"task": "x", "run": "y"}')]
        )
    with pytest.raises(RunError, match="no JSON object"):
        store.create(f"{BASE}/claims/t0/1", b"[]")
    assert batch.lines() == []
    assert store.create(f"{BASE}/claims/t0/1", said(claimed=1.0))


def test_a_request_that_comes_twice_is_done_once(batch: Batch) -> None:
    desk = Desk(JournalStore(batch, BASE), "topic")
    ask = {"word": "a", "from": "w1", "what": "create", "name": f"{BASE}/claims/t0/1", "data": said(claimed=1.0)}
    assert desk._answer([ask]) == desk._answer([ask]) == {"w1": [("a", True, True)]}
    other = {**ask, "word": "b", "from": "w2"}
    assert desk._answer([other]) == {"w2": [("b", True, False)]}
    assert len(batch.lines()) == 1
    odd: list[Mapping[str, Any]] = [
        {"word": "c", "from": "w1", "what": "eat", "name": "x"},
        {"word": "d", "from": "w1", "what": "read", "name": ".."},
    ]
    assert [(word, is_done) for word, is_done, _ in desk._answer(odd)["w1"]] == [("c", False), ("d", False)]
