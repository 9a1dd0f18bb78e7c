"""A run that ends while its caller is gone outlives its worker, where a store is named: it is taken in, not done again."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleets.conftest import ROOT, Processes, two_workers, until
from tests.fleets.play import billed, bills, tasks
from toolkit.fleets.store import MemoryStore
from toolkit.fleets.workers import Answer, left_in
from toolkit.runs import load_run
from toolkit.runs.batches import Batch


@pytest.fixture
def fleet(tmp_path: Path, toolkit_home: Path) -> Iterator[Processes]:
    """Two workers, each with runs of its own."""
    with two_workers(tmp_path) as processes:
        yield processes


def caller(batch: Batch, fleet: Processes, store: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-W", "ignore", "-m", "tests.fleets.calling", batch.name, fleet.address, "4", str(store)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_ended_while_nobody_called_is_paid_once_also_when_its_worker_is_lost(
    fleet: Processes, tmp_path: Path
) -> None:
    batch, store = Batch.begin("b", tasks(2, "Slow")), tmp_path / "store"
    with caller(batch, fleet, store) as first:
        until(lambda: (tmp_path / "bills").exists() and len(list(bills(tmp_path / "bills"))) == 2)
        os.kill(first.pid, signal.SIGKILL)
    (tmp_path / "slow" / "go").touch()
    until(lambda: len(list(store.glob("batches/*/left/*/1"))) == 2)
    for name in ("w1", "w2"):
        fleet.kill(name)
    fleet.worker("w3", env={"TOOLKIT_HOME": str(tmp_path / "w3")})
    with caller(batch, fleet, store) as second:
        out, err = second.communicate(timeout=170)
    assert (second.returncode, out) == (0, "ok\n"), err
    standings = batch.standings()
    assert [one.runs for one in standings.values()] == [["b.t0.1"], ["b.t1.1"]]
    assert billed(tmp_path / "bills") == sum(one.tokens for one in standings.values()) == 2000
    assert all(one.cost[1] for one in standings.values())
    assert [load_run(f"b.t{number}.1").result().text for number in range(2)] == ["done"] * 2
    kept = {file.relative_to(store).parts[2] for file in (store / "batches").rglob("*") if file.is_file()}
    assert kept - {"beats"} == {"claims", "lost", "released", "journal"}  # of the callers; what was left is taken in


def test_a_second_caller_on_another_machine_is_refused(
    fleet: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    with caller(Batch.begin("b", tasks(2)), fleet, store) as first:
        out, err = first.communicate(timeout=170)
        assert out == "ok\n", err
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "elsewhere"))  # where nobody knows of the journal
    with caller(Batch.begin("b", tasks(2)), fleet, store) as second:
        _, err = second.communicate(timeout=170)
    assert f"the store has a batch 'b' already, begun on {platform.node()}" in err
    assert billed(tmp_path / "bills") == 2000


def test_what_was_left_is_not_believed_where_it_is_about_something_else() -> None:
    fine = Answer("unsaid", {"run": "b.t0.1"}, "w1").to_bytes()
    records = {"base/left/t0/1": fine, "base/left/t0/2": fine, "base/left/t1/1": b"\xff" * 20}
    records |= {"base/left/t2/1": Answer("held", {"run": "b.t2.1"}).to_bytes(), "base/ends/t0/1": fine}
    assert list(left_in(MemoryStore(records), "base")) == ["base/left/t0/1"]
