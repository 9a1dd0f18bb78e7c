"""Many runs in other processes: the real CLI in its jail, a scripted model, and workers that get killed."""

from __future__ import annotations

import asyncio
import functools
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolkit import Toolbox, tool
from toolkit.runs import RunSpec, load_run, run_many
from toolkit.testing import Request, ScriptedAPI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

HELD = "hold this one"


@tool
def whoami() -> int:
    """The process this tool runs in."""
    return os.getpid()


BOX = Toolbox("worker", [whoami])
pool = functools.partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))


def spec(api: ScriptedAPI, prompt: str, **options: Any) -> RunSpec:
    return RunSpec(prompt, api_url=api.url, api_key="k", native=["Read"], **options)


def pid_of(home: Path, run: str) -> int:
    return int(json.loads((home / "runs" / run / "run.json").read_text(encoding="utf-8"))["pid"])


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (other processes do it: there is no event to wait for)
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def model(request: Request) -> list[dict[str, Any]]:
    """Ask for the pid, then say it."""
    told = request.tool_results()
    return [text(f"I am {told[-1]['content']}")] if told else [tool_use("mcp__worker__whoami")]


@contextmanager
def holding_api() -> Iterator[ScriptedAPI]:
    """A model that keeps one of its callers waiting."""
    release = threading.Event()
    with ScriptedAPI(Turn([text("late")], when=HELD, hold=release), otherwise=[text("ok")], strict=False) as api:
        try:
            yield api
        finally:
            release.set()


def is_held(api: ScriptedAPI) -> bool:
    return any(request.contains(HELD) for request in api.requests)


async def kill_worker(api: ScriptedAPI, home: Path, run: str) -> None:
    """End the process a run works in, in the middle of a model call, without a warning."""
    await until(lambda: is_held(api) and load_run(run, home).session is not None)
    os.kill(pid_of(home, run), signal.SIGKILL)


def in_the_folder_of(home: Path, run: str) -> list[str]:
    """The processes that still have to do with a run."""
    mine = str(home / "runs" / run).encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mine in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


async def test_runs_in_a_process_pool_are_real_and_come_back_whole(toolkit_home: Path, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    section = WorkspaceSection([HostMount(str(tmp_path / "src"))], allowed_host_roots=[tmp_path])
    with ScriptedAPI(otherwise=model) as api, pool(2) as executor:
        specs = [spec(api, task, tools=[BOX], workspace=section) for task in ("first", "second")]
        results = await run_many(specs, executor=executor, usd=5)
    assert [result.code for result in results] == ["ok", "ok"]
    assert [result.run for result in results] == [given.run_id for given in specs]
    workers = [pid_of(toolkit_home, result.run) for result in results]
    assert all(str(worker) in result.text for worker, result in zip(workers, results, strict=True))
    assert os.getpid() not in workers
    assert [result.changes is not None and len(result.changes) for result in results] == [0, 0]
    assert all(len(result.calls) == 2 and (result.cost or 0) > 0 for result in results)


async def test_a_killed_worker_loses_its_own_run_and_no_other(toolkit_home: Path) -> None:
    with holding_api() as api:
        specs = [spec(api, HELD), spec(api, "a"), spec(api, "b")]
        killer = asyncio.create_task(kill_worker(api, toolkit_home, specs[0].run_id))
        results = await run_many(specs, concurrency=2, executor=functools.partial(pool, 1))
        await killer
    assert [result.code for result in results] == ["crashed", "ok", "ok"]
    assert results[0].session is not None
    assert "BrokenProcessPool" in results[0].debug["detail"]
    await until(lambda: not in_the_folder_of(toolkit_home, specs[0].run_id))


async def test_in_a_shared_pool_what_was_lost_and_what_never_started_is_told_apart(toolkit_home: Path) -> None:
    with holding_api() as api, pool(1) as executor:
        specs = [spec(api, HELD), spec(api, "next")]
        killer = asyncio.create_task(kill_worker(api, toolkit_home, specs[0].run_id))
        results = await run_many(specs, concurrency=1, executor=executor)
        await killer
    assert [result.code for result in results] == ["crashed", "crashed"]
    assert ["never started" in result.debug["detail"] for result in results] == [False, True]


async def test_cancelling_ends_the_run_in_a_worker(toolkit_home: Path) -> None:
    with holding_api() as api:
        given = spec(api, HELD)
        many = asyncio.create_task(run_many([given], executor=functools.partial(pool, 1)))
        await until(lambda: is_held(api))
        worker = pid_of(toolkit_home, given.run_id)
        many.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(many, 60)
        stored = json.loads((toolkit_home / "runs" / given.run_id / "result.json").read_text(encoding="utf-8"))
        assert stored["code"] == "aborted"
        await until(lambda: not is_alive(worker))


async def test_a_run_in_a_worker_ends_when_its_caller_is_killed(toolkit_home: Path) -> None:
    program = f"""
import asyncio, sys
from concurrent.futures import ProcessPoolExecutor
from toolkit.runs import RunSpec, run_many
spec = RunSpec({HELD!r}, api_url=sys.argv[1], api_key="k", native=["Read"], run_id="run-orphan")
with ProcessPoolExecutor(1) as pool:
    asyncio.run(run_many([spec], executor=pool))
"""
    with holding_api() as api:
        caller = await asyncio.create_subprocess_exec(sys.executable, "-c", program, api.url)
        await until(lambda: is_held(api))
        worker = pid_of(toolkit_home, "run-orphan")
        caller.kill()
        await caller.wait()
        result = toolkit_home / "runs" / "run-orphan" / "result.json"
        await until(lambda: result.exists())
        assert json.loads(result.read_text(encoding="utf-8"))["code"] == "aborted"
        await until(lambda: not is_alive(worker))


async def test_a_spec_that_cannot_be_sent_is_a_bad_request() -> None:
    with pool(1) as executor:
        [result] = await run_many([RunSpec("Go.", before_run=lambda spec: None)], executor=executor)
    assert result.code == "bad_request"
    assert "cannot be sent" in result.debug["detail"]


@pytest.mark.filterwarnings("default")
async def test_a_dask_cluster_loses_only_the_run_whose_worker_was_killed(toolkit_home: Path) -> None:
    distributed: Any = import_module("distributed")
    with holding_api() as api:
        specs = [spec(api, HELD), spec(api, "a"), spec(api, "b")]
        cluster = await asyncio.to_thread(
            distributed.LocalCluster, n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        with cluster, distributed.Client(cluster) as client:
            executor: Executor = client.get_executor()
            killer = asyncio.create_task(kill_worker(api, toolkit_home, specs[0].run_id))
            results = await run_many(specs, concurrency=2, executor=executor)
            await killer
    assert [result.code for result in results] == ["crashed", "ok", "ok"]
    assert sum(request.contains(HELD) for request in api.requests) == 1
