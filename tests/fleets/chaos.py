"""A batch while everything is killed again and again: workers at random, the scheduler once, the caller once.

Whoever started a process starts it again, as systemd or Kubernetes would. What is left to prove is ours: every task is
finished once, and what the journal says was used is what was billed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fleets.conftest import ROOT, Processes
from tests.fleets.play import BILLS, SLOW, bills, tasks
from toolkit.runs.batches import Batch, Standing

_TICK = 0.05
_LOSSES = 20
"""Chance may hit one task several times; what kills its worker by itself is another test's matter."""


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    seconds: float
    kills: int
    lost: int
    """Runs that were cut off."""
    billed: int
    told: int
    """The tokens that the journal has."""
    unknown: int
    """The tokens of calls that were cut off, and that the journal says it does not know."""
    unknown_calls: int
    standings: dict[str, Standing]

    @property
    def off(self) -> int:
        """The tokens that nobody can explain."""
        return self.billed - self.told - self.unknown


def wreak(folder: Path, home: Path, *, runs: int, workers: int, every: float, most: float, seed: int = 1) -> Outcome:
    """Work a batch off on workers that are killed `every` so many seconds, within `most` seconds.

    Raises:
        AssertionError: it did not come to its end in time.
    """
    (folder / "slow").mkdir()
    env = {BILLS: str(folder / "bills"), SLOW: str(folder / "slow"), "TOOLKIT_HOME": str(home)}
    os.environ["TOOLKIT_HOME"] = str(home)
    batch = Batch.begin("chaos", tasks(runs, "Vary"), most_losses=_LOSSES)
    fleet, chance, began = Processes(folder, env), random.Random(seed), time.monotonic()
    names = [f"w{number}" for number in range(workers)]
    fleet.scheduler()
    for name in names:
        fleet.worker(name)
    calling, kills, done_once = _call(batch, fleet, folder), 0, set[str]()
    next_kill = time.monotonic() + 3 * every
    try:
        while calling.poll() is None:
            assert time.monotonic() - began < most, f"not done in {most:g} s: {_states(batch)}"
            time.sleep(_TICK)
            for name in [*names, "scheduler"]:
                if fleet.running[name].poll() is not None:  # it ended by itself: its scheduler was lost
                    fleet.scheduler() if name == "scheduler" else fleet.worker(name)
            if time.monotonic() < next_kill:
                continue
            next_kill = time.monotonic() + every
            kills += 1
            victim = _next_victim(batch, runs, done_once)
            if victim == "caller":
                os.kill(calling.pid, signal.SIGKILL)
                calling.wait(30)
                calling = _call(batch, fleet, folder)
            elif victim == "scheduler":
                fleet.kill("scheduler")
                fleet.scheduler()
            else:
                name = chance.choice(names)
                fleet.kill(name)
                fleet.worker(name)
        assert calling.returncode == 0, (folder / "caller.log").read_text(encoding="utf-8")[-3000:]
    finally:
        if calling.poll() is None:
            calling.kill()
        calling.wait(30)
        fleet.close()
    return _outcome(batch, folder / "bills", time.monotonic() - began, kills)


def _next_victim(batch: Batch, runs: int, done_once: set[str]) -> str:
    """The scheduler after a third of the tasks, the caller after two, each once; else a worker."""
    done = sum(not standing.is_open for standing in batch.standings().values())
    for name, part in (("scheduler", 1 / 3), ("caller", 2 / 3)):
        if done >= runs * part and name not in done_once:
            done_once.add(name)
            return name
    return "worker"


def _call(batch: Batch, fleet: Processes, folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-W", "ignore", "-m", "tests.fleets.calling", batch.name, fleet.address, "6"]
    with (folder / "caller.log").open("ab") as log:
        return subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


def _states(batch: Batch) -> dict[str, int]:
    found: dict[str, int] = {}
    for standing in batch.standings().values():
        found[standing.state] = found.get(standing.state, 0) + 1
    return found


def _outcome(batch: Batch, file: Path, seconds: float, kills: int) -> Outcome:
    """The journal against the bills, task by task: a difference counts as known to be unknown only where calls of that
    task were cut off, and only as whole calls."""
    standings, by_task = batch.standings(), dict[str, list[int]]()
    for prompt, tokens, _ in bills(file):
        by_task.setdefault(f"t{prompt.split()[1].strip('.')}", []).append(tokens)
    unknown = 0
    for name, standing in standings.items():
        calls = by_task.get(name, [0])
        missing = sum(calls) - standing.tokens
        if 0 < missing <= calls[0] * standing.unknown_calls and missing % calls[0] == 0:
            unknown += missing
    told = sum(standing.tokens for standing in standings.values())
    return Outcome(
        seconds,
        kills,
        sum(bool(end.get("lost")) for standing in standings.values() for end in standing.ends.values()),
        sum(map(sum, by_task.values())),
        told,
        unknown,
        sum(standing.unknown_calls for standing in standings.values()),
        standings,
    )
