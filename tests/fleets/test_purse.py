"""A limit that several share through a store: parts are held before they are spent, and what is lost counts as spent."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolkit.errors import RunError
from toolkit.fleets.purse import Holding, Ledger, Share, SharedPurse, SpentError
from toolkit.fleets.store import FolderStore, Row
from toolkit.runs import Limits, RunResult
from toolkit.testing import FakeCLI, Turn, text

WAIT = 60.0
NONE: dict[str, float | None] = {}


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def create(self, name: str, data: bytes) -> bool:
        return self.records.setdefault(name, data) is data

    def read(self, name: str) -> bytes | None:
        return self.records.get(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self.records if name.startswith(f"{folder}/"))

    def remove(self, name: str) -> None:
        self.records.pop(name, None)


def share(store: Any, who: str, usd: float = 12.0, *, places: int = 2, sharing: int = 4) -> Share:
    ledger = Ledger(store, "b", who)
    ledger.open({"usd": usd})
    return Share(ledger, places=places, sharing=sharing)


def test_parts_are_fair_and_what_others_hold_is_waited_for() -> None:
    store = MemoryStore()
    one, other = share(store, "one"), share(store, "other")
    assert one.take("1", NONE) == {"usd": 3.0}
    assert one.take("2", {"usd": 1.0}) == {"usd": 1.0}
    assert other.take("3", NONE) == {"usd": 3.0}
    assert other.take("4", NONE) == {"usd": 3.0}
    third = share(store, "third")
    assert third.take("5", NONE) is None
    one.give_back("1", {"usd": 0.5})
    one.rest()
    assert third.take("5", {"usd": 4.0}) == {"usd": 3.0}


def test_what_a_run_does_not_use_stays_for_the_next_without_a_record() -> None:
    store = MemoryStore()
    one = share(store, "one")
    one.take("1", NONE)
    before = len(store.records)
    for number in range(20):
        one.give_back(str(number + 1), {"usd": 0.01})
        assert one.take(str(number + 2), NONE) is not None
    assert len(store.records) == before


def test_when_it_is_used_up_nothing_more_begins() -> None:
    one = share(MemoryStore(), "one", 2.0, places=1, sharing=1)
    one.take("1", NONE)
    one.give_back("1", {"usd": 2.5})
    with pytest.raises(SpentError):
        one.take("2", NONE)


def test_what_somebody_lost_holds_counts_as_spent_until_it_is_known() -> None:
    store = MemoryStore()
    lost = share(store, "lost", places=2, sharing=2)
    assert lost.take("1", NONE) == {"usd": 6.0}
    later = Ledger(store, "b", "later")
    later.open({"usd": 12.0})
    assert later.balance.free("usd") == 0.0
    assert later.holdings()["lost"].held == {"usd": 12.0}
    later.settle("lost", {"usd": 1.5})
    later.settle("lost", {"usd": 1.5})
    assert (later.balance.free("usd"), later.balance.left("usd")) == (10.5, 10.5)
    lost.give_back("1", {"usd": 2.0})  # it was not dead after all: the difference is charged, nothing twice
    lost.rest()
    again = Ledger(store, "b", "again")
    again.open({"usd": 12.0})
    assert again.balance.left("usd") == 10.0


def test_another_limit_holds_from_then_on() -> None:
    store = MemoryStore()
    share(store, "one", 1.0, sharing=1).take("1", NONE)
    more = Ledger(store, "b", "more")
    more.open({"usd": 5.0, "tokens": 100.0})
    assert (more.balance.free("usd"), more.balance.free("tokens")) == (4.0, 100.0)


def test_an_answer_that_was_lost_is_not_entered_twice() -> None:
    store = MemoryStore()
    ledger = Ledger(store, "b", "one")
    ledger.open({"usd": 10.0})
    create = store.create

    def forgetful(name: str, data: bytes) -> bool:
        create(name, data)
        raise RunError("the answer was lost")

    store.create = forgetful  # type: ignore[method-assign]
    with pytest.raises(RunError):
        ledger.enter(Holding({"usd": 1.0}, {"usd": 4.0}))
    store.create = create  # type: ignore[method-assign]
    assert ledger.enter(Holding({"usd": 1.0}, {"usd": 4.0}))
    assert (ledger.balance.left("usd"), ledger.balance.free("usd")) == (9.0, 5.0)


def test_a_damaged_record_is_refused() -> None:
    store = MemoryStore()
    Row(store, "b/purse").append({"who": "one", "limit": 3})
    with pytest.raises(RunError, match="damaged"):
        Ledger(store, "b", "two").open({"usd": 1.0})


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["take", "end", "rest", "lose"]), st.floats(0.0, 3.0)), max_size=60
)


@given(steps, st.integers(1, 8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_promises_never_add_up_to_more_than_the_limit(steps: list[tuple[int, str, float]], sharing: int) -> None:
    store, limit = MemoryStore(), 20.0
    shares = [share(store, f"m{number}", limit, sharing=sharing) for number in range(4)]
    open_parts: dict[tuple[int, str], float] = {}
    spent, count = 0.0, 0
    for number, what, used in steps:
        mine = [run for run in open_parts if run[0] == number]
        if what == "take":
            try:
                part = shares[number].take(f"r{count}", NONE)
            except SpentError:
                continue
            if part is not None:
                open_parts[number, f"r{count}"] = part["usd"]
            count += 1
        elif what == "end" and mine:
            really = min(used, open_parts.pop(mine[0]))
            spent += really
            shares[number].give_back(mine[0][1], {"usd": really})
        elif what == "rest":
            shares[number].rest()
        elif what == "lose":  # its runs are never heard of again: what they were promised is gone
            spent += sum(open_parts.pop(run) for run in mine)
            shares[number] = share(store, f"m{number}-{count}-{spent}".replace(".", "-"), limit, sharing=sharing)
        assert spent + sum(open_parts.values()) <= limit + 1e-6


def result(tokens: int, cost: float | None = 1.0) -> RunResult[Any]:
    from toolkit.runs import run_sync

    made = run_sync("Go.", transport=FakeCLI(Turn([text("x")], usage={"input_tokens": tokens, "output_tokens": 0})))
    return dataclasses.replace(made, cost=cost)


async def test_two_processes_share_a_purse_and_the_second_waits_for_the_first(toolkit_home: Path) -> None:
    store = FolderStore(toolkit_home / "store")
    one = SharedPurse(store, "b", "one", tokens=1000, places=1, sharing=1)
    other = SharedPurse(store, "b", "other", tokens=1000, places=1, sharing=1)
    async with asyncio.timeout(WAIT):
        limits = await one.take("1", Limits(seconds=5))
        assert limits == Limits(seconds=5, tokens=1000)
        waiting = asyncio.ensure_future(other.take("2", Limits()))
        ended = await asyncio.to_thread(result, 400)
        await one.give_back("1", ended, is_known=True)
        await one.rest()
        assert await waiting == Limits(tokens=1000 - ended.total.total)
        await other.give_back("2", ended, is_known=False)
        await other.rest()
        assert await one.take("3", Limits()) is None
