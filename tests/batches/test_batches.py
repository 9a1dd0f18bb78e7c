"""A batch is worked off once: after a kill only what is not finished, and every run is charged once."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.jails import needs_jail
from toolkit.errors import RunError
from toolkit.runs import Limits, RunResult, RunSpec, load_run
from toolkit.runs.batches import Batch, Task, find_batch, read_tasks, work_off
from toolkit.testing import FakeCLI, Request, ScriptedAPI, Status, Turn, text

THOUSAND = {"input_tokens": 900, "output_tokens": 100}


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


def tasks(count: int) -> list[Task]:
    return [Task(f"t{number}", f"Task {number}") for number in range(count)]


def make(task: Task) -> RunSpec:
    return RunSpec(task.prompt, transport=FakeCLI(Turn([text(f"did {task.id}")], usage=THOUSAND)))


def write(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("lines", "says", "where"),
    [
        (['"a"', "{"], "a line is no JSON", ":2"),
        (["3"], "a task is a text, or an object", ":1"),
        (['{"promt": "a"}'], "did you mean", ":1"),
        (['{"id": "x"}'], "a task has no prompt", ":1"),
        (['{"prompt": ""}'], "the prompt of a task is a text", ":1"),
        (['{"id": "../x", "prompt": "a"}'], "cannot be the id of a task", ":1"),
        (['{"id": "x", "prompt": "a"}', '{"id": "x", "prompt": "b"}'], "two tasks have the id 'x'", ":2"),
        (['"a"', '"a"'], "two tasks have the id", ":2"),
        ([], "there is no task", ""),
    ],
)
def test_a_file_that_cannot_be_worked_off_is_told_with_its_line(
    tmp_path: Path, lines: list[str], says: str, where: str
) -> None:
    with pytest.raises(RunError) as caught:
        read_tasks(write(tmp_path, *lines))
    assert says in str(caught.value)
    assert where in str(caught.value)


def test_a_task_without_an_id_has_the_same_one_tomorrow(tmp_path: Path) -> None:
    first, again = (
        read_tasks(write(tmp_path, '"Write it."', '{"prompt": "Test it.", "model": "m"}')) for _ in range(2)
    )
    assert first == again
    assert len({task.id for task in first}) == 2


def test_a_prompt_with_odd_characters_is_one_task_and_stays_as_it_is(tmp_path: Path) -> None:
    odd = "one\u2028two\u0085three\x0bfour \udc80 five"
    lines = [json.dumps({"id": "a", "prompt": odd}), json.dumps({"id": "b", "prompt": odd[:13]}, ensure_ascii=False)]
    batch = Batch.begin("odd", read_tasks(write(tmp_path, *lines)))
    assert [standing.task.prompt for standing in batch.standings().values()] == [odd, odd[:13]]


async def test_every_task_is_done_once_and_a_second_time_nothing_is(toolkit_home: Path) -> None:
    batch = Batch.begin("nightly", tasks(5))
    told: list[str] = []
    standings = await work_off(batch, make, on_result=lambda task, result: told.append(task.id))
    assert {standing.state for standing in standings.values()} == {"ok"}
    assert sorted(told) == [f"t{number}" for number in range(5)]
    again = await work_off(find_batch("nightly"), make, on_result=lambda task, result: told.append(task.id))
    assert len(told) == 5
    assert {standing.tokens for standing in again.values()} == {1000}


async def test_a_task_that_failed_is_finished_and_not_done_again() -> None:
    batch = Batch.begin("b", tasks(1))
    standings = await work_off(batch, lambda task: RunSpec(task.prompt, transport=FakeCLI(Status(529))))
    code = standings["t0"].state
    assert code not in ("ok", "waiting", "lost")
    assert (await work_off(batch, make))["t0"].state == code


async def test_the_limit_holds_across_two_sessions_and_what_has_no_room_waits() -> None:
    batch = Batch.begin("b", tasks(5))
    first = await work_off(batch, make, parallel=1, tokens=2500)
    states = [standing.state for standing in first.values()]
    assert states.count("waiting") == 2
    assert await work_off(batch, make, parallel=1, tokens=2500) == first
    more = await work_off(batch, make, parallel=1, tokens=100_000)
    assert "waiting" not in [standing.state for standing in more.values()]


async def test_a_run_that_was_cut_off_counts_with_all_it_was_promised_until_it_is_known_what_it_used() -> None:
    batch = Batch.begin("b", tasks(3))
    with batch.worked_on():
        batch.promise("t0", Limits(tokens=1500))
        batch.began("t0", "b.t0.1")  # and then somebody was killed
    states = [one.state for one in (await work_off(batch, make, parallel=1, tokens=2400)).values()]
    assert states == ["ok", "waiting", "waiting"]
    standing = batch.standings()["t0"]
    assert (standing.charged("tokens"), standing.tokens) == (2500, 1000)
    with batch.worked_on():
        batch.say({**standing.ends["b.t0.1"], "tokens": 10, "unknown_calls": 0})
    assert batch.standings()["t0"].charged("tokens") == 1010
    assert (await work_off(batch, make, parallel=1, tokens=2400))["t1"].state == "ok"


async def test_somebody_else_who_works_on_it_is_refused_and_nothing_is_done() -> None:
    batch = Batch.begin("b", tasks(1))
    with batch.worked_on(), pytest.raises(RunError, match="somebody works on"):
        await work_off(find_batch("b"), make)
    assert batch.standings()["t0"].state == "waiting"


async def test_half_a_line_at_the_end_of_the_journal_was_never_said() -> None:
    batch = Batch.begin("b", tasks(2))
    await work_off(batch, make)
    journal = batch.folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"task": "t0", "ru')
    assert {standing.state for standing in batch.standings().values()} == {"ok"}
    await work_off(batch, make)
    assert journal.read_bytes() == whole


async def test_a_run_that_began_and_left_no_trace_is_done_again_and_the_third_time_set_aside() -> None:
    batch = Batch.begin("b", tasks(1))
    for number in (1, 2):
        with batch.worked_on():
            batch.began("t0", f"b.t0.{number}")
        if number == 1:
            assert batch.standings()["t0"].is_open
    standings = await work_off(batch, make)
    assert standings["t0"].state == "crashed"
    assert not standings["t0"].is_open


def test_a_name_that_is_taken_or_cannot_be_is_refused() -> None:
    Batch.begin("b", tasks(1))
    with pytest.raises(RunError, match="there is a batch 'b' already"):
        Batch.begin("b", tasks(1))
    with pytest.raises(RunError, match="cannot be the name"):
        Batch.begin("../b", tasks(1))


def model(request: Request) -> list[dict[str, Any]]:
    return [text("Done.")]


@needs_jail
def test_after_a_kill_the_rest_is_done_and_every_call_is_in_the_books(tmp_path: Path, toolkit_home: Path) -> None:
    file = write(tmp_path, *(json.dumps({"id": f"t{number}", "prompt": f"Task {number}"}) for number in range(3)))
    hold, asked = threading.Event(), threading.Event()

    def second(request: Request) -> bool:
        found = request.contains("Task 1") and not request.contains("You were interrupted")
        if found:
            asked.set()
        return found

    with ScriptedAPI(Turn([text("late")], when=second, hold=hold), otherwise=model, strict=False) as api:
        env = {**os.environ, "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "none"}
        command = [sys.executable, "-m", "toolkit", "batch", str(file), "--parallel", "1", "--deadline", "5m"]
        with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) as first:
            assert asked.wait(60)
            os.kill(first.pid, signal.SIGKILL)
        hold.set()
        states = {name: standing.state for name, standing in find_batch("tasks").standings().items()}
        assert states == {"t0": "ok", "t1": "running", "t2": "waiting"}
        refused = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert (refused.returncode, "--resume" in refused.stderr) == (2, True)
        done = subprocess.run(
            [*command, "--resume"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=170
        )
    assert done.returncode == 0, done.stdout + done.stderr
    standings = find_batch("tasks").standings()
    assert {standing.state for standing in standings.values()} == {"ok"}
    assert [len(standings[name].runs) for name in ("t0", "t1", "t2")] == [1, 2, 1]
    told = [load_run(run).result() for standing in standings.values() for run in standing.runs]
    assert sum(result.total.total for result in told) == sum(standing.tokens for standing in standings.values())
    assert all(isinstance(result, RunResult) for result in told)


async def test_a_task_whose_spec_cannot_be_is_told_and_the_others_go_on() -> None:
    def some(task: Task) -> RunSpec:
        return RunSpec("" if task.id == "t1" else task.prompt, transport=FakeCLI(Turn([text("x")], usage=THOUSAND)))

    standings = await work_off(Batch.begin("b", tasks(3)), some, parallel=1)
    assert [standing.state for standing in standings.values()] == ["ok", "bad_request", "ok"]


async def test_a_batch_with_runs_on_a_cluster_is_not_gone_on_with_here() -> None:
    batch = Batch.begin("b", tasks(1))
    with batch.worked_on():
        batch.say(
            {"task": "t0", "run": "b.t0.1", "claimed": 1.0, "worker": "tcp://elsewhere:1", "machine": "elsewhere"}
        )
    with pytest.raises(RunError, match="are on the workers of a cluster"):
        await work_off(batch, make)
    assert batch.standings()["t0"].state == "claimed"


async def test_a_journal_that_cannot_grow_ends_the_batch_with_its_name_and_resume_does_the_rest() -> None:
    batch = Batch.begin("full", tasks(3))
    (batch.folder / "journal.jsonl").write_text('{"cluster": "of long ago"}\n' * 4000, encoding="utf-8")
    full = (batch.folder / "journal.jsonl").stat().st_size + 200  # room for a beginning, not for an end
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        with pytest.raises(RunError, match="the journal of batch 'full' cannot be written: File too large") as caught:
            await work_off(batch, make, parallel=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.where == (str(batch.folder / "journal.jsonl"),)
    assert "--resume" in caught.value.fix
    assert [one.state for one in batch.standings().values()] == ["running", "waiting", "waiting"]
    done = await work_off(batch, make, parallel=1)
    assert [(one.state, len(one.runs)) for one in done.values()] == [("ok", 1)] * 3
    assert sum(one.tokens for one in done.values()) == 3000


async def test_a_result_is_told_when_the_journal_has_it_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, told, marks = Batch.begin("b", tasks(20)), list[str](), dict[str, int]()
    real = batch.ended

    def ended(task: str, result: RunResult[Any]) -> int:
        marks[task] = real(task, result)
        return marks[task]

    def hear(task: Task, result: RunResult[Any]) -> None:
        assert batch.is_synced(marks[task.id])
        told.append(task.id)

    monkeypatch.setattr(batch, "ended", ended)
    await work_off(batch, make, parallel=3, on_result=hear)
    assert sorted(told) == sorted(task.id for task in tasks(20))


async def test_runs_that_wait_for_the_disk_send_nothing_and_keep_no_thread_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = 40  # more than the loop has threads on any machine
    batch, may_sync = Batch.begin("b", tasks(places)), threading.Event()
    sent, syncs = list[str](), list[int]()

    def sync(handle: int) -> None:
        syncs.append(handle)
        assert may_sync.wait(60)

    def model(request: Request) -> Turn:
        sent.append(request.prompt)
        return Turn([text("done")], usage=THOUSAND)

    async def until_all_have_begun() -> None:
        while len(batch.lines()) < places:
            await asyncio.to_thread(os.getpid)  # others get a thread all the time

    monkeypatch.setattr(os, "fdatasync", sync)
    work = asyncio.ensure_future(
        work_off(batch, lambda task: RunSpec(task.prompt, transport=FakeCLI(model)), parallel=places)
    )
    try:
        await asyncio.wait_for(until_all_have_begun(), 60)
        assert (sent, len(syncs)) == ([], 1)
    finally:
        may_sync.set()
        done = await work
    assert {standing.state for standing in done.values()} == {"ok"}
    assert len(sent) == places
