"""Several processes or machines share one rate through a store: decisions of one hold for all, and each has its part."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from toolkit.errors import RunError
from toolkit.fleets.rate import Decision, SharedRate
from toolkit.fleets.rate.agreement import BEAT, Agreement
from toolkit.fleets.store import FolderStore, Row

WAIT = 60.0


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def takes_part(store: FolderStore, who: str) -> Agreement:
    return Agreement(store, "b", who, every=3.0)


def test_a_row_is_read_on_and_the_second_to_append_has_lost(store: FolderStore) -> None:
    one, other = Row(store, "b/row"), Row(store, "b/row")
    assert one.latest() is None
    assert one.append({"n": 1})
    assert not other.append({"n": 2})
    assert other.read_on() == [{"n": 1}]
    assert other.append({"n": 2})
    assert Row(store, "b/row").latest() == {"n": 2}
    assert one.latest() == {"n": 2}
    assert (one.last, other.last) == (2, 2)


def test_what_one_decides_holds_for_all_and_who_was_slower_takes_it_over(store: FolderStore) -> None:
    one, other = takes_part(store, "one"), takes_part(store, "other")
    first = one.exchange(None, 4, 0.0, 1000.0)
    assert [decision.why for decision in first.news] == ["begin"]
    assert other.exchange(None, 4, 0.0, 1000.0).news == first.news
    lowered = first.news[0].lowered(5.0, 9.0, 9.0, 429, 7.0)
    told = one.exchange(lowered, 4, 5.0, 1005.0)
    assert told.is_ours
    heard = other.exchange(first.news[0].lowered(5.0, 3.0, 3.0, 429, None), 4, 6.0, 1006.0)
    assert not heard.is_ours
    assert heard.news == told.news
    assert heard.elapsed == 1.0
    assert heard.news[-1].machine == "one"


def test_a_refusal_counts_although_somebody_else_has_just_raised_the_rate(store: FolderStore) -> None:
    one, other = takes_part(store, "one"), takes_part(store, "other")
    [begin] = one.exchange(None, 1, 0.0, 0.0).news
    other.exchange(None, 1, 0.0, 0.0)
    one.exchange(begin.raised(99.0), 1, 1.0, 1.0)
    heard = other.exchange(begin.lowered(99.0, 50.0, 50.0, 529, None), 1, 1.0, 1.0)
    assert heard.is_ours
    assert [decision.why for decision in heard.news] == ["raised", "lowered"]
    assert heard.news[-1].number == 3


def test_each_has_the_part_that_its_runs_are_of_all_and_the_silent_are_left_out(store: FolderStore) -> None:
    one, other = takes_part(store, "one"), takes_part(store, "other")
    assert one.exchange(None, 3, 0.0, 0.0).share == 1.0
    assert other.exchange(None, 1, 0.0, 0.0).share == 0.25
    assert one.exchange(None, 3, 1.0, 1.0).share == 0.75
    late = BEAT * 4
    assert one.exchange(None, 3, late, late).share == 1.0
    assert other.exchange(None, 1, late, late).share == 0.25
    other.leave()
    assert one.exchange(None, 3, late + 1, late + 1).share == 1.0


def test_the_clock_of_another_machine_is_hardly_believed(store: FolderStore) -> None:
    one, ahead = takes_part(store, "one"), takes_part(store, "ahead")
    [begin] = one.exchange(None, 1, 0.0, 0.0).news
    assert ahead.exchange(None, 1, 0.0, 1e6).elapsed == 20.0
    one.exchange(begin.lowered(5.0, 2.0, 2.0, 429, None), 1, 5.0, 5.0)
    assert ahead.exchange(None, 1, 5.0, 1e6 + 5).elapsed == 3.0


@pytest.mark.parametrize(
    "damage", [{"base": "x"}, {"base": 0}, {"base": 1, "ceiling": -2}, {"base": 1, "pause": 1e300}]
)
def test_a_damaged_decision_is_refused(store: FolderStore, damage: dict[str, object]) -> None:
    Row(store, "b/rate/decisions").append(damage)
    with pytest.raises(RunError, match="damaged"):
        takes_part(store, "one").exchange(None, 1, 0.0, 0.0)


async def test_two_that_share_a_rate_slow_down_together(store: FolderStore) -> None:
    heard = threading.Event()

    def listen(decision: Decision) -> None:
        if decision.why == "lowered":
            heard.set()

    with (
        SharedRate(store, "b", "one", every=0.02) as one,
        SharedRate(store, "b", "other", every=0.02, on_decision=listen) as other,
    ):
        permit = await one.of_run().admit(WAIT)
        assert permit is not None
        permit.answered(429, 60.0)
        assert one.now == 0.0
        assert heard.wait(WAIT)
        assert other.now == 0.0
        assert await other.of_run().admit(0.01) is None
        numbers = [decision.number for decision in one.history]
        assert numbers == [decision.number for decision in other.history] == [1, 2]
    assert not list(store.names("b/rate/here"))


async def test_a_store_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    with SharedRate(store, "b", "one", every=0.02) as rate:
        broken = threading.Event()

        def fail(*_: object) -> None:
            broken.set()
            raise RunError("the store cannot be reached")

        store.read = store.names = store.create = fail  # type: ignore[method-assign, assignment]
        assert broken.wait(WAIT)
        permit = await rate.of_run().admit(WAIT)
        assert permit is not None
        permit.answered(429, 60.0)
        assert rate.now == 0.0
    assert rate.trouble == "the store cannot be reached"


def test_a_store_that_was_never_there_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="store"), SharedRate(FolderStore(tmp_path / "store"), "b", "one"):
        pass


ASKS = """
import asyncio, json, sys, time
from toolkit.fleets.rate import SharedRate
from toolkit.fleets.store import FolderStore

async def ask(rate, seconds):
    pace, left, shares = rate.of_run(), [], []
    while time.time() < seconds:
        if (permit := await pace.admit(1.0)) is not None:
            left.append(time.time())
            permit.answered(200, None)
            shares.append(rate.share)
    return {"left": left, "share": min(shares)}

with SharedRate(FolderStore(sys.argv[1]), "b", sys.argv[2], every=0.1) as rate:
    print("ready", flush=True)
    until = float(sys.stdin.readline())
    print(json.dumps(asyncio.run(ask(rate, until))))
"""


def test_two_processes_of_one_machine_send_no_more_together_than_the_rate(tmp_path: Path) -> None:
    Row(FolderStore(tmp_path), "b/rate/decisions").append(
        {"number": 1, "why": "lowered", "base": 19.0, "ceiling": 20.0, "at": time.time()}
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [
        subprocess.Popen([sys.executable, "-c", ASKS, str(tmp_path), who], **pipes)  # type: ignore[call-overload]
        for who in ("one", "other")
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    began = time.time()
    for worker in workers:
        worker.stdin.write(f"{began + 4}\n")
        worker.stdin.flush()
    said = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [one["share"] for one in said] == [0.5, 0.5]
    left = sorted(at for one in said for at in one["left"] if at > began + 1)
    assert 0 < len(left) <= 75
