"""A batch to look at: the rows are what the journal and the stored runs say, and nothing unknown is called 0."""

from __future__ import annotations

import asyncio
import platform
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.batches._batches import THOUSAND, began, ended, make, tasks, write_journal
from toolkit.fleets.looking import BatchTable, BatchView, failures_of
from toolkit.runs import RunSpec
from toolkit.runs.batches import Batch, Task, work_off
from toolkit.testing import FakeCLI, Turn, text, tool_use


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


async def test_a_batch_that_was_worked_off_has_its_sums_and_turns() -> None:
    batch = Batch.begin("b", tasks(3))
    await work_off(batch, make)
    table = BatchTable(batch)
    view = table.look()
    assert view.counts == {"running": 0, "waiting": 0, "ok": 3, "failed": 0}
    assert (view.tokens, view.is_worked_on, view.ended is not None) == (3000, False, True)
    assert {row.machine for row in view.rows} == {platform.node()}
    assert {row.turns for row in view.rows} == {None}
    assert [row.turns for row in table.with_turns(view.rows)] == [1, 1, 1]
    assert all(row.age(view.at) is not None for row in view.rows)


async def test_a_running_task_shows_what_it_has_used_so_far_and_what_it_does() -> None:
    go_on = threading.Event()
    script = (Turn([text("Looking."), tool_use("Read", file_path="a")], usage=THOUSAND), Turn([text("x")], hold=go_on))

    def held(task: Task) -> RunSpec:
        return RunSpec(task.prompt, transport=FakeCLI(*script))

    batch = Batch.begin("b", tasks(1))
    table = BatchTable(batch)
    work = asyncio.create_task(work_off(batch, held))
    try:
        async with asyncio.timeout(60):
            while (view := table.look()).tokens < 1000:  # noqa: ASYNC110  (a file sets no event)
                await asyncio.sleep(0.01)
        [row] = view.rows
        assert (row.state, row.group, row.turns, row.ended) == ("running", "running", 1, None)
        assert (row.cost, view.cost, view.is_worked_on) == (None, None, True)
    finally:
        go_on.set()
        await work
    assert table.look().rows[0].state == "ok"


def test_a_run_that_nobody_does_any_more_is_cut_off_and_its_cost_is_not_known() -> None:
    batch = Batch.begin("b", tasks(2))
    table = BatchTable(batch)
    write_journal(batch, began("t0"), began("t1"), ended("t1"))
    folder = table.runs / "b.t0.1"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").touch()
    view = table.look()
    assert [row.state for row in view.rows] == ["cut off", "ok"]
    assert (view.rows[0].group, view.cost, view.known_cost, view.ended) == ("waiting", None, 0.25, None)


def test_what_another_machine_does_is_named_and_its_tokens_are_not_known_yet() -> None:
    batch = Batch.begin("b", tasks(1))
    write_journal(batch, began("t0", machine="worker-7"))
    [row] = BatchTable(batch).look().rows
    assert (row.state, row.machine, row.tokens, row.turns, row.cost) == ("running", "worker-7", None, None, None)


def test_what_another_machine_has_used_so_far_is_what_it_told() -> None:
    batch = Batch.begin("b", tasks(1))
    used = {"tokens": 700, "calls": 2, "open": {"c3": 300}, "known_cost": 0.125}
    write_journal(batch, began("t0", machine="worker-7"), {"task": "t0", "run": "b.t0.1", "used": used})
    [row] = BatchTable(batch).look().rows
    assert (row.tokens, row.turns, row.cost, row.known_cost) == (700, 2, None, 0.125)


def test_a_task_that_is_claimed_counts_as_running() -> None:
    batch = Batch.begin("b", tasks(1))
    write_journal(batch, {"task": "t0", "run": "b.t0.1", "claimed": 1000.0, "machine": "worker-7"})
    [row] = BatchTable(batch).look().rows
    assert (row.state, row.group, row.began) == ("claimed", "running", None)


def test_a_damaged_run_under_way_has_unknown_tokens_and_does_not_stop_the_look() -> None:
    batch = Batch.begin("b", tasks(1))
    write_journal(batch, began("t0"))
    folder = BatchTable(batch).runs / "b.t0.1"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text('{"stream": "usage"}\nnonsense\n{}\n', encoding="utf-8")
    [row] = BatchTable(batch).look().rows
    assert row.tokens is None


def test_failures_of_one_cause_are_together_whatever_numbers_they_name() -> None:
    batch = Batch.begin("b", tasks(5))
    causes: list[dict[str, Any]] = [
        {"code": "api_error", "cause": "no answer on port 4711"},
        {"code": "unverified", "cause": "2 failed"},
        {"code": "api_error", "cause": "no answer on port 80"},
        {"code": "ok"},
        {"code": "deadline", "cause": None},
    ]
    for number, end in enumerate(causes):
        write_journal(batch, began(f"t{number}"), ended(f"t{number}", **end))
    groups = failures_of(BatchTable(batch).look().rows)
    assert [(group.state, len(group.rows)) for group in groups] == [
        ("api_error", 2),
        ("unverified", 1),
        ("deadline", 1),
    ]
    assert groups[0].cause == "no answer on port 4711"


def test_the_view_is_plain_json() -> None:
    batch = Batch.begin("b", tasks(2))
    write_journal(batch, began("t0"), ended("t0", "budget"))
    view: BatchView = BatchTable(batch).look()
    data = view.to_json()
    assert (data["batch"], data["counts"]["failed"], data["counts"]["waiting"]) == ("b", 1, 1)
    assert [one["group"] for one in data["tasks"]] == ["failed", "waiting"]
