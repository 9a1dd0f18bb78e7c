"""Batches: what the machinery costs beside bare runs, what waiting tasks cost, and whether the books balance.

The two proofs at scale are measured as rows, too: forty confined runs on four workers that share nothing with the
caller, and two thousand runs while workers, the scheduler and the caller are killed. `ours` of these is what the books
are off, in tokens.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench._common import Row, child_env, interleave
from tests.fleets.chaos import wreak
from tests.fleets.conftest import PATH, Processes, until
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.runs import RunSpec, load_run, run
from toolkit.runs.batches import Batch, Task, work_off
from toolkit.testing import FakeCLI, Request, ScriptedAPI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

_RUNS = 250
_ROUNDS = 4
_PARALLEL = 8
_WAITING = 10_000
_CONFINED = 40
_CHAOS = 2_000
_USAGE = {"input_tokens": 70, "output_tokens": 30}


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="fleets-") as folder:
        os.environ["TOOLKIT_HOME"] = str(Path(folder) / "home")
        yield from _overhead()
        yield _memory()
        yield _apart(Path(folder) / "apart")
        yield _killed(Path(folder) / "killed")


def _spec(prompt: str) -> RunSpec:
    return RunSpec(prompt, transport=FakeCLI(Turn([text("done")], usage=_USAGE)))


def _overhead() -> Iterator[Row]:
    """The same runs, as many at a time: as a batch with its journal, and bare."""
    numbers = itertools.count()

    async def ours() -> None:
        tasks = [Task(f"t{number}", f"Task {number}") for number in range(_RUNS)]
        batch = Batch.begin(f"b{next(numbers)}", tasks)
        standings = await work_off(batch, lambda task: _spec(task.prompt), parallel=_PARALLEL)
        assert {standing.state for standing in standings.values()} == {"ok"}

    async def theirs() -> None:
        places = asyncio.Semaphore(_PARALLEL)

        async def one(number: int) -> None:
            async with places:
                assert (await run(_spec(f"Task {number}"))).ok

        await asyncio.gather(*(one(number) for number in range(_RUNS)))

    for clock, name in ((time.perf_counter, ""), (time.process_time, ", processor time")):
        pair = interleave(lambda: asyncio.run(ours()), lambda: asyncio.run(theirs()), rounds=_ROUNDS, clock=clock)
        yield pair.row(f"{_RUNS * _ROUNDS:,} runs as a batch against asyncio.gather of run{name}", 1.2)


_HOLD = """
import asyncio, sys
from toolkit.fleets.caller import Fleet, JournalStore, work_off_on
from toolkit.runs.batches import Batch, Task, work_off
import claude_agent_sdk, distributed
def rss():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS:")) / 1024
before = rss()
batch = Batch.begin("waiting", [Task(f"t{n}", f"Make the failing test of module {n} pass, and say what was wrong.")
                                for n in range(int(sys.argv[1]))])
with batch.worked_on():
    store = JournalStore(batch, "batches/waiting")
    assert all(one.is_open for one in store.standings.values())
    print(rss() - before)
"""


def _memory() -> Row:
    """What a caller needs for tasks that wait, over the same interpreter without any."""
    env = child_env({"PYTHONPATH": PATH, "TOOLKIT_HOME": os.environ["TOOLKIT_HOME"]})
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _HOLD, str(_WAITING)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return Row(f"a caller's memory for {_WAITING:,} waiting tasks", float(said.stdout), None, 50.0, "MB")


def _apart(folder: Path) -> Row:
    """Real CLIs in real jails on workers that see nothing of the caller's disk; every change comes back."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "prices.py").write_text("RATE = 1\n", encoding="utf-8")

    def model(request: Request) -> Turn:
        if request.tool_results():
            return Turn([text("Done.")], usage=_USAGE)
        return Turn([tool_use("Write", file_path=str(project / "new.txt"), content="made\n")], usage=_USAGE)

    def make(task: Task) -> RunSpec:
        section = WorkspaceSection([HostMount(project)], allowed_host_roots=[folder])
        return RunSpec(task.prompt, workspace=section, api_url=api.url)

    processes = Processes(folder, {"ANTHROPIC_API_KEY": "of-the-worker"})
    with ScriptedAPI(otherwise=model, strict=False) as api:
        processes.scheduler()
        try:
            for number in range(4):
                processes.worker(f"w{number}", hides=folder)
                until(lambda name=f"w{number}": "Registered to" in processes.log(name))
            batch = Batch.begin("apart", [Task(f"t{number}", f"Write {number}.") for number in range(_CONFINED)])
            began = time.monotonic()
            standings = asyncio.run(work_off_on(batch, make, Fleet(processes.address, on_word=_say)))
            seconds = time.monotonic() - began
        finally:
            processes.close()
        billed = sum(_USAGE.values()) * sum(not _is_side(request) for request in api.requests)
    assert {standing.state for standing in standings.values()} == {"ok"}
    assert all(b"+made" in load_run(f"apart.t{number}.1").diff() for number in range(_CONFINED))
    told = sum(standing.tokens for standing in standings.values())
    machines = {end["worker"] for standing in standings.values() for end in standing.ends.values()}
    _say(
        f"{_CONFINED} confined runs on {len(machines)} workers: {seconds:.0f} s, {told:,} tokens told, {billed:,} billed"
    )
    return Row(f"{_CONFINED} confined runs on 4 workers apart: tokens off the books", abs(told - billed), None, 0.0, "")


def _is_side(request: Any) -> bool:
    return bool(request.path.endswith("count_tokens"))


def _killed(folder: Path) -> Row:
    folder.mkdir()
    home = folder / "home"
    home.mkdir()
    found = wreak(folder, home, runs=_CHAOS, workers=8, every=5.0, most=1500.0)
    assert {standing.state for standing in found.standings.values()} == {"ok"}
    _say(
        f"{_CHAOS:,} runs on 8 workers: {found.seconds:.0f} s, {found.kills} kills, {found.lost} runs cut off; "
        f"{found.billed:,} tokens billed, {found.told:,} told, {found.unknown:,} known to be unknown"
    )
    return Row(f"{_CHAOS:,} runs while all is killed: tokens off the books", abs(found.off), None, 0.0, "")


def _say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)
