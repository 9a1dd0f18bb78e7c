"""A batch on a Dask cluster: each task once, whatever is killed, and every call in the books."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.batches._batches import write_journal
from tests.fleets.conftest import ROOT, Processes, until
from tests.fleets.play import BILLS, billed, bills, make, tasks
from toolkit.errors import RunError
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.runs import load_run
from toolkit.runs.batches import Batch, Standing

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


async def work(batch: Batch, fleet: Processes, **options: object) -> dict[str, Standing]:
    return await asyncio.wait_for(
        work_off_on(batch, make, Fleet(fleet.address, lease=3.0, patience=60, on_word=print)), 170
    )


def slow_calls(tmp_path: Path) -> list[int]:
    """The processes that were billed for a task that waits."""
    file = tmp_path / "bills"
    return [pid for prompt, _, pid in bills(file) if "Slow" in prompt] if file.exists() else []


def caller(batch: Batch, fleet: Processes) -> subprocess.Popen[str]:
    """Somebody who calls for a batch, and can be killed."""
    words = [sys.executable, "-W", "ignore", "-m", "tests.fleets.calling", batch.name, fleet.address, "3"]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=170)
    assert process.returncode == 0, out + err
    return out.strip()


async def test_every_task_is_done_once_on_some_worker_and_nothing_the_second_time(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", tasks(6))
    standings = await work(batch, fleet)
    assert {standing.state for standing in standings.values()} == {"ok"}, fleet.log("w1")
    assert [standing.runs for standing in standings.values()] == [[f"b.t{number}.1"] for number in range(6)]
    assert {pid for _, _, pid in bills(tmp_path / "bills")} <= {one.pid for one in fleet.running.values()}
    assert billed(tmp_path / "bills") == sum(standing.tokens for standing in standings.values()) == 6000
    assert load_run("b.t3.1").result().text == "done"
    assert {name: one.ends for name, one in (await work(batch, fleet)).items()} == {
        name: one.ends for name, one in standings.items()
    }
    assert billed(tmp_path / "bills") == 6000
    assert batch.again("t2")
    once_more = await work(batch, fleet)
    assert [len(standing.runs) for standing in once_more.values()] == [1, 1, 2, 1, 1, 1]
    assert billed(tmp_path / "bills") == sum(standing.tokens for standing in once_more.values()) == 7000


async def test_a_cluster_that_is_not_there_is_said_in_seconds() -> None:
    batch = Batch.begin("b", tasks(1))
    with pytest.raises(RunError, match="there is no cluster at"):
        await asyncio.wait_for(work_off_on(batch, make, Fleet("tcp://127.0.0.1:1")), 20)
    assert batch.standings()["t0"].state == "waiting"


async def test_a_killed_worker_s_task_is_taken_over_once_and_what_it_used_is_charged(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", [*tasks(1, "Slow"), *tasks(4)[1:]])
    working = asyncio.create_task(work(batch, fleet))
    await asyncio.to_thread(until, lambda: slow_calls(tmp_path))
    fleet.kill(fleet.name_of(slow_calls(tmp_path)[0]))
    (tmp_path / "slow" / "go").touch()
    standings = await working
    assert {standing.state for standing in standings.values()} == {"ok"}
    assert standings["t0"].runs == ["b.t0.1", "b.t0.2"]
    assert standings["t0"].ends["b.t0.1"]["lost"]
    assert sum("Slow" in prompt for prompt, _, _ in bills(tmp_path / "bills")) == 2
    # The call that was cut off is known to be unknown, not free.
    assert standings["t0"].unknown_calls == 1
    assert standings["t0"].cost[1] is False
    assert sum(standing.tokens for standing in standings.values()) == billed(tmp_path / "bills") - 1000


def test_a_run_goes_on_when_its_caller_is_killed_and_is_collected_instead_of_done_again(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", [*tasks(1, "Slow"), *tasks(3)[1:]])
    with caller(batch, fleet) as first:
        until(lambda: slow_calls(tmp_path))
        until(lambda: sum(not one.is_open for one in batch.standings().values()) == 2)
        os.kill(first.pid, signal.SIGKILL)
    assert batch.standings()["t0"].state == "running"
    (tmp_path / "slow" / "go").touch()
    until(lambda: load_run("b.t0.1").state == "finished")
    with caller(batch, fleet) as second:
        assert ended(second) == "ok"
    standings = batch.standings()
    assert [len(standing.runs) for standing in standings.values()] == [1, 1, 1]
    assert billed(tmp_path / "bills") == sum(standing.tokens for standing in standings.values()) == 3000
    assert all(standing.cost[1] for standing in standings.values())


def test_a_second_caller_waits_for_a_run_that_still_goes_on(fleet: Processes, tmp_path: Path) -> None:
    batch = Batch.begin("b", tasks(1, "Slow"))
    with caller(batch, fleet) as first:
        until(lambda: slow_calls(tmp_path))
        os.kill(first.pid, signal.SIGKILL)
    with caller(batch, fleet) as second:
        until(lambda: batch.is_worked_on)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(8)  # more than two leases: the run says that it lives
        (tmp_path / "slow" / "go").touch()
        assert ended(second) == "ok"
    assert len(slow_calls(tmp_path)) == 1
    assert batch.standings()["t0"].runs == ["b.t0.1"]


def test_when_the_scheduler_is_killed_the_caller_waits_for_another_and_every_task_is_done(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", [*tasks(1, "Slow"), *tasks(4)[1:]])
    with caller(batch, fleet) as process:
        until(lambda: slow_calls(tmp_path))
        until(lambda: sum(not one.is_open for one in batch.standings().values()) == 3)
        fleet.kill("scheduler")
        (tmp_path / "slow" / "go").touch()
        for name in ("w1", "w2"):  # Dask ends a worker that lost its scheduler; whoever started it starts it again
            fleet.running.pop(name).wait(60)
        fleet.scheduler()
        fleet.worker("w3")
        assert ended(process) == "ok"
    standings = batch.standings()
    assert billed(tmp_path / "bills") == sum(standing.tokens for standing in standings.values())
    assert not any(standing.unknown_calls for standing in standings.values())


def test_after_all_were_killed_at_once_every_task_is_finished_once_and_the_books_balance(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", [*tasks(1, "Slow"), *tasks(5)[1:]])
    with caller(batch, fleet) as first:
        until(lambda: slow_calls(tmp_path))
        os.kill(first.pid, signal.SIGKILL)
    for name in ("w1", "scheduler", "w2"):
        fleet.kill(name)
    (tmp_path / "slow" / "go").touch()
    fleet.scheduler()
    fleet.worker("w3")
    with caller(batch, fleet) as second:
        assert ended(second) == "ok"
    standings = batch.standings()
    cut_off = sum(standing.unknown_calls for standing in standings.values())
    assert cut_off >= 1
    told = sum(standing.tokens for standing in standings.values())
    # A call that was cut off may have been killed before the API had written its bill; the slow one was not.
    assert told + 1000 <= billed(tmp_path / "bills") <= told + 1000 * cut_off
    per_task = {
        name: sum(f" {name[1:]}." in prompt for prompt, _, _ in bills(tmp_path / "bills")) for name in standings
    }
    assert all(1 <= per_task[name] <= len(standing.runs) for name, standing in standings.items())


async def test_a_task_that_kills_its_worker_twice_is_set_aside_with_its_reason_and_the_rest_goes_on(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", [*tasks(1, "Deadly"), *tasks(4)[1:]])
    fleet.worker("w3")
    standings = await work(batch, fleet)
    assert [standing.state for standing in standings.values()] == ["crashed", "ok", "ok", "ok"]
    aside = standings["t0"].ends["b.t0.2"]
    assert aside["cause"].startswith("set aside: its worker was lost 2 times")
    assert not standings["t0"].is_open
    assert standings["t0"].cost[1] is False
    again = await work(batch, fleet)
    assert again["t0"].runs == ["b.t0.1", "b.t0.2"]


async def test_the_limit_is_charged_for_a_run_that_was_lost_on_another_machine(
    fleet: Processes, tmp_path: Path
) -> None:
    batch = Batch.begin("b", [*tasks(1, "Slow"), *tasks(4)[1:]])
    options = Fleet(fleet.address, parallel=1, lease=3.0, patience=60)
    working = asyncio.create_task(work_off_on(batch, make, options, tokens=4000))
    await asyncio.to_thread(until, lambda: slow_calls(tmp_path))
    fleet.kill(fleet.name_of(slow_calls(tmp_path)[0]))
    (tmp_path / "slow" / "go").touch()
    standings = await asyncio.wait_for(working, 170)
    # Nobody knows what the lost run used, so its whole part of the limit is gone: all, as nothing else was under way.
    assert [standing.state for standing in standings.values()] == ["ok", "waiting", "waiting", "waiting"]
    assert billed(tmp_path / "bills") == 2000


async def test_a_local_cluster_of_dask_s_own_does_a_batch_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolkit_home: Path
) -> None:
    monkeypatch.setenv(BILLS, str(tmp_path / "bills"))
    dask: Any = import_module("distributed")
    local = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    cluster = await asyncio.to_thread(dask.LocalCluster, **local)
    batch = Batch.begin("b", tasks(4))
    try:
        standings = await asyncio.wait_for(work_off_on(batch, make, Fleet(cluster.scheduler_address)), 170)
    finally:
        await asyncio.to_thread(cluster.close)
    assert {standing.state for standing in standings.values()} == {"ok"}
    assert billed(tmp_path / "bills") == sum(standing.tokens for standing in standings.values()) == 4000


async def test_a_task_that_was_wanted_again_and_cut_off_is_gone_on_with(fleet: Processes, tmp_path: Path) -> None:
    batch = Batch.begin("b", tasks(1))
    await work(batch, fleet)
    assert batch.again("t0")
    lost = {"task": "t0", "run": "b.t0.2", "claimed": 1.0, "began": 2.0, "worker": "tcp://gone:1", "machine": "gone"}
    write_journal(batch, lost)  # and then the caller and this worker were killed
    standing = (await work(batch, fleet))["t0"]
    assert (standing.state, standing.runs) == ("ok", ["b.t0.1", "b.t0.2", "b.t0.3"])
    assert len(list(bills(tmp_path / "bills"))) == 2
