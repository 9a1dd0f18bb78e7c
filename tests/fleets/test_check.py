"""A worker that would do runs otherwise than the caller's machine is named, refused, and its tasks go elsewhere."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleets.conftest import Processes, until
from tests.sandbox.jails import needs_jail
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.fleets.check import About, about_me, compare
from toolkit.runs import RunSpec
from toolkit.runs.batches import Batch, Task
from toolkit.testing import ScriptedAPI, text

MINE = About("here", "0.1.0 (abc)", "2.1.0", "0.2.0", "3.11.7", key=True)


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        ({"toolkit": "0.1.0 (abd)"}, "toolkit 0.1.0 (abd), here 0.1.0 (abc)"),
        ({"cli": "2.1.1"}, "CLI 2.1.1, here 2.1.0"),
        ({"sdk": "none"}, "claude-agent-sdk none, here 0.2.0"),
        ({"python": "3.12.7"}, "Python 3.12.7, here 3.11.7"),
        ({"jail": "bubblewrap was not found"}, "no run can be confined there: bubblewrap was not found"),
        ({"key": False}, "there is no key"),
        ({"home": "/x: Read-only file system"}, "no run can be stored there"),
    ],
)
def test_what_would_change_results_is_refused_and_named_in_one_line(theirs: dict[str, object], says: str) -> None:
    found = compare(MINE, dataclasses.replace(MINE, **theirs))  # type: ignore[arg-type]
    assert not found.ok
    assert says in found.line("w1")
    assert "\n" not in found.line("w1")


def test_what_does_not_matter_is_named_only() -> None:
    near = compare(MINE, dataclasses.replace(MINE, python="3.11.9", machine="there"))
    assert (near.ok, near.line("w1")) == (True, "w1: Python 3.11.9, here 3.11.7")
    assert compare(MINE, dataclasses.replace(MINE, jail="no", key=False), confined=False).ok
    assert compare(MINE, dataclasses.replace(MINE, key=False), needs_key=False).ok
    assert compare(MINE, MINE).line("w1") == "w1: ok"


@pytest.mark.parametrize("said", [None, "x", {"machine": "m"}, {**dataclasses.asdict(MINE), "more": 1}])
def test_a_worker_that_says_nothing_it_understands_is_refused(said: object) -> None:
    assert "is the toolkit installed there?" in compare(MINE, About.of(said)).line("w1")


def test_a_machine_is_like_itself() -> None:
    assert compare(about_me(confined=False), about_me(confined=False), confined=False).ok


@pytest.fixture
def mixed(tmp_path: Path, toolkit_home: Path) -> Iterator[Processes]:
    """A worker that can confine runs, and one that has no bubblewrap."""
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to(sys.executable)
    processes = Processes(tmp_path, {"TOOLKIT_HOME": str(toolkit_home), "ANTHROPIC_API_KEY": "k"})
    processes.scheduler()
    processes.worker("able")
    processes.worker("bare", env={"PATH": str(bare)})
    for name in ("able", "bare"):
        until(lambda name=name: "Registered to" in processes.log(name))
    try:
        yield processes
    finally:
        processes.close()


@needs_jail
@pytest.mark.filterwarnings("default")
async def test_a_worker_without_bubblewrap_is_named_before_the_first_run_and_its_tasks_go_elsewhere(
    mixed: Processes, toolkit_home: Path
) -> None:
    words: list[str] = []
    with ScriptedAPI(otherwise=[text("ok")], strict=False) as api:
        batch = Batch.begin("b", [Task(f"t{number}", f"Task {number}") for number in range(2)])
        fleet = Fleet(mixed.address, patience=60, on_word=words.append)
        work = work_off_on(batch, lambda task: RunSpec(task.prompt, api_url=api.url), fleet)
        standings = await asyncio.wait_for(work, 200)
    assert {standing.state for standing in standings.values()} == {"ok"}
    assert len({standing.ends[standing.runs[0]]["worker"] for standing in standings.values()}) == 1
    [word] = words
    assert "refused: no run can be confined there" in word
    assert "bwrap" in word or "bubblewrap" in word
    command = [sys.executable, "-W", "ignore", "-m", "toolkit", "batch", "check", "--cluster", mixed.address, "--json"]
    said = await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ANTHROPIC_API_KEY": "k"},
    )
    assert said.returncode == 1, said.stderr
    rows = json.loads(said.stdout)["workers"]
    assert sorted(row["ok"] for row in rows.values()) == [False, True]


def test_a_cluster_that_is_not_there_is_said_by_the_command_and_nothing_is_begun(
    tmp_path: Path, toolkit_home: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text('"Do it."\n', encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-m", "toolkit", "batch"]
    for words in (["tasks.jsonl", "--cluster", "tcp://127.0.0.1:1"], ["check", "--cluster", "tcp://127.0.0.1:1"]):
        said = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert said.returncode == 1
        assert "there is no cluster at tcp://127.0.0.1:1" in said.stderr
        assert "Traceback" not in said.stderr
    assert not (toolkit_home / "batches" / "tasks").exists()
    loud = [sys.executable, "-m", "toolkit", "batch", "tasks.jsonl", "--cluster"]
    typo = subprocess.run([*loud, "scheduler"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert typo.stderr == "'scheduler' is no address of a cluster\n  Write it as: tcp://HOST:8786\n"
    wrong = subprocess.run([*command, "tasks.jsonl", "--lease", "5s"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "--cluster" in wrong.stderr
