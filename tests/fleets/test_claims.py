"""One worker at a time does a task: by claims that are taken, renewed, taken over and given back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolkit.fleets.claims import Account, Claim, Claims, Ended, Held
from toolkit.fleets.store import FolderStore

END = {"code": "ok", "tokens": 7}


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def worker(tmp_path: Path, name: str, clock: Clock | None = None, **options: Any) -> Claims:
    holder = {"worker": name}
    return Claims(FolderStore(tmp_path), "batches/b", "b", holder, lease=60.0, clock=clock or Clock(), **options)


def taken(claims: Claims) -> Claim:
    claim = claims.take("t")
    assert isinstance(claim, Claim)
    return claim


def test_a_task_that_is_handed_out_twice_is_held_by_one(tmp_path: Path) -> None:
    first = taken(worker(tmp_path, "one"))
    second = worker(tmp_path, "two").take("t")
    assert (first.number, first.run, first.before) == (1, "b.t.1", ())
    assert isinstance(second, Held)
    assert (second.by["worker"], second.by["run"], second.left) == ("one", "b.t.1", 60.0)


def test_of_many_who_ask_at_once_one_gets_it(tmp_path: Path) -> None:
    barrier = threading.Barrier(16)

    def ask(number: int) -> object:
        claims = worker(tmp_path, f"w{number}")
        barrier.wait(60)
        return claims.take("t")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    assert sum(isinstance(one, Claim) for one in answers) == 1
    assert sum(isinstance(one, Held) for one in answers) == 15


def test_a_holder_that_beats_keeps_it_and_one_that_is_silent_for_a_lease_loses_it(tmp_path: Path) -> None:
    clock, elsewhere = Clock(), Clock()
    elsewhere.now = -5e6  # the clocks of two machines need not agree
    first, other = taken(worker(tmp_path, "one", clock)), worker(tmp_path, "two", elsewhere)
    for _ in range(10):
        assert isinstance(other.take("t"), Held)
        assert first.renew()
        elsewhere.now += 50
    assert isinstance(other.take("t"), Held)
    elsewhere.now += 60
    second = other.take("t")
    assert isinstance(second, Claim)
    assert (second.number, [one["worker"] for one in second.before]) == (2, ["one"])
    assert not first.renew()
    assert not first.finish(END)
    assert second.finish(END)


def test_only_the_latest_beat_is_kept(tmp_path: Path) -> None:
    claims = worker(tmp_path, "one")
    claim = taken(claims)
    for _ in range(5):
        assert claim.renew()
    assert claims.store.names("batches/b/beats") == ["batches/b/beats/t/1/5"]


def test_a_holder_that_cannot_renew_stops_before_anybody_may_take_over(tmp_path: Path) -> None:
    clock = Clock()
    claim = taken(worker(tmp_path, "one", clock))
    assert (claim.next, claim.is_due) == (15.0, False)
    clock.now += 40
    assert (claim.next, claim.is_due) == (0.0, True)
    assert claim.renew()
    assert not claim.is_due


def test_what_is_given_back_is_taken_at_once_and_is_no_loss(tmp_path: Path) -> None:
    for number in range(1, 6):
        claim = taken(worker(tmp_path, f"w{number}"))
        assert (claim.number, claim.before) == (number, ())
        claim.release("no room on its disk")


def test_a_task_that_is_done_with_is_never_taken_again(tmp_path: Path) -> None:
    claim = taken(worker(tmp_path, "one"))
    assert claim.finish(END)
    assert not claim.finish(END)
    assert not claim.renew()
    found = worker(tmp_path, "two").take("t")
    assert isinstance(found, Ended)
    assert (found.end["code"], found.end["run"], found.end["tokens"]) == ("ok", "b.t.1", 7)


def test_what_its_worker_did_not_survive_twice_is_set_aside_and_says_where(tmp_path: Path) -> None:
    clock = Clock()
    for name in ("one", "two"):
        claims = worker(tmp_path, name, clock)
        found = claims.take("t")
        clock.now += 60
        if isinstance(found, Held):
            found = claims.take("t")
        assert isinstance(found, Claim)
    last = worker(tmp_path, "three", clock)
    assert isinstance(last.take("t"), Held)
    clock.now += 60
    found = last.take("t")
    assert isinstance(found, Ended)
    assert found.end["aside"] == "set aside: its worker was lost 2 times (one, two)"
    assert found.end["run"] == "b.t.2"


def test_a_holder_that_was_found_dead_is_not_waited_for_and_is_a_loss(tmp_path: Path) -> None:
    taken(worker(tmp_path, "one"))
    other = worker(tmp_path, "two")
    held = other.take("t")
    assert isinstance(held, Held)
    other.found_dead(held, {"tokens": 5})
    assert taken(other).before[0]["worker"] == "one"


def test_a_task_that_is_wanted_again_is_taken_once_more_and_old_losses_do_not_count(tmp_path: Path) -> None:
    clock = Clock()
    claims = worker(tmp_path, "one", clock)
    assert taken(claims).finish(END)
    again = claims.take("t", after=1)
    assert isinstance(again, Claim)
    assert (again.number, again.run, again.before) == (2, "b.t.2", ())
    assert again.renew()
    assert isinstance(worker(tmp_path, "two").take("t", after=1), Held)
    assert again.finish(END)
    assert isinstance(claims.take("t", after=1), Ended)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["ask", "beat", "end", "back", "die", "wait"]))))
def test_two_never_work_at_one_time_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]]
) -> None:
    clock, folder = Clock(), tmp_path_factory.mktemp("store")
    workers = [worker(folder, f"w{number}", clock, most_losses=99) for number in range(4)]
    held: dict[int, Claim] = {}
    ends = 0
    for number, step in steps:
        claim = held.get(number)
        if step == "ask" and claim is None:
            found = workers[number].take("t")
            held |= {number: found} if isinstance(found, Claim) else {}
        elif step == "wait":
            clock.now += 20
        elif step == "die":
            held.pop(number, None)
        elif claim is not None and step == "beat" and not claim.renew():
            del held[number]
        elif claim is not None and step == "back":
            claim.release("no")
            del held[number]
        elif claim is not None and step == "end":
            ends += claim.finish(END)
            del held[number]
        held = {one: claim for one, claim in held.items() if not claim.is_due}  # these have stopped
        assert len(held) <= 1
    assert ends <= 1


def test_an_account_charges_a_call_under_way_with_what_it_may_come_to() -> None:
    account = Account().booked("a", 900).booked("b", 500).settled("a", 30)
    assert (account.tokens, account.calls, account.open, account.charged) == (30, 1, {"b": 500}, 530)
    assert Account.of(account.to_data()) == account
