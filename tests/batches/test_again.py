"""A task that has ended is done once more when somebody wants it: one run a wish, from the start, costs kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.batches._batches import began, ended, make, tasks, write_journal
from toolkit.errors import RunError
from toolkit.runs import RunResult, RunSpec, load_run
from toolkit.runs.batches import Batch, Task, find_batch, work_off
from toolkit.testing import FakeCLI, Status


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


def failing(task: Task) -> RunSpec:
    return RunSpec(task.prompt, transport=FakeCLI(Status(529)))


async def test_a_task_that_failed_is_done_again_once_and_both_runs_are_in_the_books() -> None:
    batch = Batch.begin("b", tasks(2))
    write_journal(batch, began("t0"), ended("t0", "unverified"))
    assert batch.again("t0")
    assert batch.standings()["t0"].state == "waiting"
    standings = await work_off(batch, make)
    assert [standing.state for standing in standings.values()] == ["ok", "ok"]
    assert standings["t0"].runs == ["b.t0.1", "b.t0.2"]
    assert standings["t0"].tokens == 2000
    assert standings["t0"].cost[0] >= 0.25
    assert (await work_off(batch, make))["t0"].runs == ["b.t0.1", "b.t0.2"]


async def test_many_wishes_at_once_are_one_more_run() -> None:
    batch = Batch.begin("b", tasks(1))
    await work_off(batch, failing)
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: find_batch("b").again("t0"), range(16)))
    assert said.count(True) == 1
    standings = await work_off(batch, make)
    assert (standings["t0"].state, len(standings["t0"].runs)) == ("ok", 2)


async def test_a_wish_while_somebody_works_on_it_is_done_by_them() -> None:
    batch = Batch.begin("b", tasks(2))
    wished: list[bool] = []

    def on_result(task: Task, result: RunResult[Any]) -> None:
        if task.id == "t0" and not wished:
            wished.append(find_batch("b").again("t0"))

    standings = await work_off(batch, make, parallel=1, on_result=on_result)
    assert wished == [True]
    assert [len(standing.runs) for standing in standings.values()] == [2, 1]
    assert {standing.state for standing in standings.values()} == {"ok"}


async def test_the_limit_of_the_batch_holds_for_what_is_done_again() -> None:
    batch = Batch.begin("b", tasks(1))
    await work_off(batch, make, tokens=1000)
    assert batch.again("t0")
    standings = await work_off(batch, make, tokens=1000)
    assert (standings["t0"].state, standings["t0"].runs) == ("waiting", ["b.t0.1"])


async def test_it_begins_from_the_start_and_not_in_the_conversation_before() -> None:
    batch = Batch.begin("b", tasks(1))
    await work_off(batch, make)
    batch.again("t0")
    standings = await work_off(batch, make)
    first, second = (load_run(run) for run in standings["t0"].runs)
    assert first.session != second.session
    assert second.facts["prompt"] == "Task 0"


async def test_what_was_set_aside_gets_two_more_chances() -> None:
    batch = Batch.begin("b", tasks(1))
    for number in (1, 2):
        write_journal(batch, began("t0", number), ended("t0", "crashed", number, lost=True))
    assert batch.standings()["t0"].state == "crashed"
    assert batch.again("t0")
    with batch.worked_on():
        batch.began("t0", "b.t0.3")
    standings = await work_off(batch, make)
    assert (standings["t0"].state, len(standings["t0"].runs)) == ("ok", 4)


def test_only_what_has_ended_can_be_wanted_again() -> None:
    batch = Batch.begin("b", tasks(2))
    write_journal(batch, began("t1"))
    for task, says in (("t0", "it is waiting"), ("t1", "it is running"), ("t9", "has no task 't9'")):
        with pytest.raises(RunError, match=says):
            batch.again(task)
    assert not (batch.folder / "again").exists()


def test_a_wish_that_was_not_carried_out_is_still_there_for_the_next() -> None:
    batch = Batch.begin("b", tasks(1))
    write_journal(batch, began("t0"), ended("t0", "ok"))
    assert batch.again("t0")
    assert not batch.again("t0")
    assert [file.name for file in (batch.folder / "again").iterdir()] == ["b.t0.1"]
    assert find_batch("b").standings()["t0"].is_open
