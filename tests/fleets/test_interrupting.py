"""`i` in `toolkit batch top` ends a run on a worker that shares nothing with whoever looks: the real CLI in a real jail."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli._running import Desk
from tests.fleets.conftest import Processes, until
from tests.sandbox.jails import needs_jail
from toolkit.errors import RunError
from toolkit.fleets.engine import stop_there
from toolkit.runs import load_run
from toolkit.runs.batches import find_batch
from toolkit.testing import ScriptedAPI, Turn, text

pytestmark = [pytest.mark.filterwarnings("default"), needs_jail]
USAGE = {"input_tokens": 70, "output_tokens": 30}


@pytest.fixture
def api() -> Iterator[ScriptedAPI]:
    hold = threading.Event()
    late = Turn([text("late")], when=lambda request: request.contains("Wait."), hold=hold, usage=USAGE)
    with ScriptedAPI(late, otherwise=Turn([text("Done.")], usage=USAGE), strict=False) as api:
        try:
            yield api
        finally:
            hold.set()


@pytest.fixture
def worker(tmp_path: Path, toolkit_home: Path, api: ScriptedAPI) -> Iterator[Processes]:
    processes = Processes(tmp_path, {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url})
    processes.scheduler()
    processes.worker("w1", hides=tmp_path)
    try:
        yield processes
    finally:
        processes.close()


def test_a_run_on_a_worker_is_interrupted_by_a_key_and_the_others_go_on(
    worker: Processes, api: ScriptedAPI, tmp_path: Path
) -> None:
    desk = Desk(tmp_path)
    lines = [json.dumps({"id": f"t{number}", "prompt": prompt}) for number, prompt in enumerate(["Wait.", "Work."])]
    (tmp_path / "b.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with desk.piped("batch", "b.jsonl", "--cluster", worker.address) as batch:
        until(lambda: any(request.contains("Wait.") for request in api.requests))
        with desk.terminal("batch", "top", "b") as terminal:
            terminal.see("\x1b[7mrunning")
            terminal.type("iy")
            terminal.see("b.t0.1 was told to stop, on")
            said, told = batch.communicate(timeout=120)
            terminal.type("q")
            assert terminal.end() == 0
    standings = find_batch("b").standings()
    assert [(one.state, one.runs) for one in standings.values()] == [("aborted", ["b.t0.1"]), ("ok", ["b.t1.1"])], told
    assert batch.returncode == 1
    assert "1 ok" in said
    assert load_run("b.t0.1").result().code == "aborted"


def test_what_cannot_be_told_to_stop_says_why(worker: Processes) -> None:
    until(lambda: "Registered to" in worker.log("w1"))
    own = next(line for line in worker.log("w1").splitlines() if "Start worker at:" in line).split()[-1]
    with pytest.raises(RunError, match=r"there is no run b\.t0\.1 on this machine") as caught:
        asyncio.run(stop_there(worker.address, own, "b.t0.1"))
    assert caught.value.where == (f"worker {own}",)
    with pytest.raises(RunError, match=r"the worker tcp://127\.0\.0\.1:1 that does run b\.t0\.1 is gone"):
        asyncio.run(stop_there(worker.address, "tcp://127.0.0.1:1", "b.t0.1"))
    with pytest.raises(RunError, match="there is no cluster at"):
        asyncio.run(stop_there("tcp://127.0.0.1:1", own, "b.t0.1"))
