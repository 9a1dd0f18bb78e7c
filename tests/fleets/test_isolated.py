"""Workers that share nothing with their caller: own mounts, own home, own temp folder; the real CLI in real jails."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.conftest import Processes, until
from tests.sandbox.jails import needs_jail
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.runs import RunSpec, load_run
from toolkit.runs.batches import Batch, Task
from toolkit.testing import Request, ScriptedAPI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = [pytest.mark.filterwarnings("default"), needs_jail]
USAGE = {"input_tokens": 70, "output_tokens": 30}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "prices.py").write_text("RATE = 1\n", encoding="utf-8")
    return folder


@pytest.fixture
def api(project: Path) -> Iterator[ScriptedAPI]:
    def model(request: Request) -> Turn:
        if request.tool_results():
            return Turn([text("Done.")], usage=USAGE)
        made = tool_use("Write", file_path=str(project / "new.txt"), content=request.prompt.partition("\n")[0] + "\n")
        return Turn([made], usage=USAGE)

    with ScriptedAPI(otherwise=model, strict=False) as api:
        yield api


@pytest.fixture
def apart(tmp_path: Path, toolkit_home: Path) -> Iterator[Processes]:
    """A scheduler and two workers that see neither the caller's folders nor each other's."""
    processes = Processes(tmp_path, {})
    processes.scheduler()
    for name in ("w1", "w2"):
        processes.worker(name, hides=tmp_path, env={"ANTHROPIC_API_KEY": "of-the-worker"})
        until(lambda name=name: "Registered to" in processes.log(name))
    try:
        yield processes
    finally:
        processes.close()


def make(project: Path, api: ScriptedAPI) -> Any:
    def spec(task: Task) -> RunSpec:
        section = WorkspaceSection([HostMount(project)], allowed_host_roots=[project.parent])
        return RunSpec(task.prompt, workspace=section, api_url=api.url)

    return spec


def look(path: str) -> tuple[bool, str]:
    return os.path.exists(path), os.environ["HOME"]  # noqa: PTH110  (it is run elsewhere, by its name)


@pytest.mark.parametrize("through_store", [False, True], ids=["through the engine", "through a store"])
async def test_runs_come_back_from_workers_that_never_saw_the_project(
    apart: Processes,
    api: ScriptedAPI,
    project: Path,
    toolkit_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    through_store: bool,
) -> None:
    store = tmp_path_factory.mktemp("store")
    batch = Batch.begin("b", [Task(f"t{number}", f"Write {number}.") for number in range(4)])
    words: list[str] = []
    through = str(store) if through_store else None
    fleet = Fleet(apart.address, patience=60, on_word=words.append, store=through)
    standings = await asyncio.wait_for(work_off_on(batch, make(project, api), fleet), 240)
    left = {file.relative_to(store).parts[0] for file in store.rglob("*") if file.is_file()}
    assert [file for file in store.glob("batches/*/runs/**/*") if file.is_file()] == []
    assert left == (
        {"batches", "names", "packs"} if through_store else set()
    )  # a run is taken out of the store when it is here
    assert {standing.state for standing in standings.values()} == {"ok"}, (
        words,
        [one.ends for one in standings.values()],
    )
    dask: Any = import_module("distributed")
    async with dask.Client(apart.address, asynchronous=True) as client:
        seen = await client.run(look, str(project))
        assert len(seen) == 2
        assert {there for there, _ in seen.values()} == {False}
    for number in range(4):
        run = load_run(f"b.t{number}.1")
        assert run.folder.is_relative_to(toolkit_home)
        assert f"+Write {number}." in run.diff().decode()
        assert run.result().session is not None
    load_run("b.t2.1").apply()
    assert (project / "new.txt").read_text(encoding="utf-8") == "Write 2.\n"
    assert len({standing.ends[standing.runs[0]]["worker"] for standing in standings.values()}) == 2
    billed = len(api.requests) * sum(USAGE.values())
    assert sum(standing.tokens for standing in standings.values()) == billed == 800
    assert {request.headers.get("x-api-key") for request in api.requests} == {"of-the-worker"}


async def test_with_the_caller_s_key_no_worker_ever_has_it(
    apart: Processes, api: ScriptedAPI, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-caller")
    batch = Batch.begin("b", [Task("t0", "Write 0.")])
    fleet = Fleet(apart.address, patience=60, key_from="caller")
    standings = await asyncio.wait_for(work_off_on(batch, lambda task: RunSpec(task.prompt), fleet), 200)
    assert standings["t0"].state == "ok", standings["t0"].ends
    assert {request.headers.get("x-api-key") for request in api.requests} == {"of-the-caller"}
    told = (load_run("b.t0.1").folder / "events.jsonl").read_text(encoding="utf-8")
    assert "of-the-caller" not in told + apart.log("w1") + apart.log("w2") + apart.log("scheduler")


async def test_a_call_that_was_cut_off_with_its_machine_is_charged_as_it_was_booked(
    tmp_path: Path, toolkit_home: Path
) -> None:
    hold, processes = threading.Event(), Processes(tmp_path, {"ANTHROPIC_API_KEY": "k"})

    def first(request: Request) -> bool:
        return not hold.is_set()

    late = Turn([text("late")], when=first, hold=hold, usage=USAGE)
    with ScriptedAPI(late, otherwise=Turn([text("Done.")], usage=USAGE), strict=False) as api:
        try:
            processes.scheduler()
            processes.worker("w1", hides=tmp_path)
            batch = Batch.begin("b", [Task("t0", "Wait.")])
            fleet = Fleet(processes.address, lease=4.0, patience=90)
            working = asyncio.create_task(work_off_on(batch, lambda task: RunSpec(task.prompt, api_url=api.url), fleet))
            await asyncio.to_thread(until, lambda: api.requests)
            booked = batch.standings()["t0"].tokens
            processes.kill("w1")  # and with it its disk: nobody can tell any more
            hold.set()
            processes.worker("w2", hides=tmp_path)
            standings = await asyncio.wait_for(working, 200)
        finally:
            hold.set()
            processes.close()
    standing = standings["t0"]
    assert (standing.state, standing.runs) == ("ok", ["b.t0.1", "b.t0.2"])
    lost, done = standing.ends["b.t0.1"], standing.ends["b.t0.2"]
    assert booked > 1000  # it was known before the call was answered
    assert (lost["tokens"], lost["estimated"], lost["unknown_calls"], lost["cost"]) == (booked, booked, 1, None)
    assert done["tokens"] == 100 * (len(api.requests) - 1)
    assert standing.cost[1] is False


async def test_another_worker_of_the_machine_goes_on_in_the_conversation_of_a_killed_one(
    tmp_path: Path, toolkit_home: Path
) -> None:
    hold = threading.Event()

    def second(request: Request) -> bool:
        return bool(request.tool_results()) and not request.contains("You were interrupted")

    late = Turn([text("late")], when=second, hold=hold, usage=USAGE)
    begin = Turn([tool_use("Bash", command="echo begun > begun.txt")], usage=USAGE)
    processes = Processes(tmp_path, {"ANTHROPIC_API_KEY": "k", "TOOLKIT_HOME": str(toolkit_home)})
    with ScriptedAPI(begin, late, otherwise=Turn([text("Done.")], usage=USAGE), strict=False) as api:
        try:
            processes.scheduler()
            processes.worker("w1")
            batch = Batch.begin("b", [Task("t0", "Begin it.")])
            fleet = Fleet(processes.address, lease=60.0, patience=90)
            working = asyncio.create_task(work_off_on(batch, lambda task: RunSpec(task.prompt, api_url=api.url), fleet))
            await asyncio.to_thread(until, lambda: any(map(second, api.requests)))
            processes.kill("w1")
            hold.set()
            processes.worker("w2")
            standings = await asyncio.wait_for(working, 100)  # its folder tells that it is dead: no lease is waited for
        finally:
            hold.set()
            processes.close()
    assert (standings["t0"].state, standings["t0"].runs) == ("ok", ["b.t0.1", "b.t0.2"])
    again = next(request for request in api.requests if request.contains("You were interrupted"))
    assert again.contains("Begin it.")
    assert again.tool_results()  # the conversation until then
    assert load_run("b.t0.2").result().session == load_run("b.t0.1").so_far().session
    assert standings["t0"].ends["b.t0.1"]["unknown_calls"] == 1


async def test_a_worker_with_a_full_disk_is_named_and_its_tasks_go_elsewhere(
    tmp_path: Path, toolkit_home: Path, project: Path
) -> None:
    (project / "large.bin").write_bytes(os.urandom(30_000_000))
    processes, words, is_named = Processes(tmp_path, {"ANTHROPIC_API_KEY": "k"}), list[str](), threading.Event()

    def hear(word: str) -> None:
        words.append(word)
        if "No space left on device" in word:
            is_named.set()

    # The other worker is busy until then, so that it cannot do everything before the full one is asked.
    held = Turn([text("Done.")], hold=is_named, usage=USAGE)
    api = ScriptedAPI(held, otherwise=Turn([text("Done.")], usage=USAGE), strict=False)
    try:
        processes.scheduler()
        for name, disk in (("full", "20m"), ("able", "500m")):
            processes.worker(name, hides=tmp_path, disk=disk)
            until(lambda name=name: "Registered to" in processes.log(name))
        batch = Batch.begin("b", [Task(f"t{number}", f"Write {number}.") for number in range(2)])
        fleet = Fleet(processes.address, patience=60, on_word=hear)
        with api:
            standings = await asyncio.wait_for(work_off_on(batch, make(project, api), fleet), 200)
    finally:
        is_named.set()
        processes.close()
    assert {standing.state for standing in standings.values()} == {"ok"}, (
        words,
        [one.ends for one in standings.values()],
    )
    assert len({standing.ends[standing.runs[-1]]["worker"] for standing in standings.values()}) == 1
    assert is_named.is_set()
