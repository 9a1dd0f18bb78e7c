"""A caller on another machine goes on with a batch: it has nothing of the first one but the store."""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.conftest import PATH, ROOT, Processes, two_workers, until
from tests.fleets.following import LEASE
from tests.fleets.play import billed, bills
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, Turn, text

_SECONDS = 170
OWN = {"HOME": "/var/tmp", "TMPDIR": "/var/tmp", "TOOLKIT_HOME": "/var/tmp/state"}
"""What a caller with mounts of its own has there."""
USAGE = {"input_tokens": 70, "output_tokens": 30}
APART = """
mount -t tmpfs -o mode=0755 tmpfs "$1" && mount -t tmpfs -o mode=0755 tmpfs /var/tmp || exit 1
shift
exec "$@"
"""


@pytest.fixture
def fleet(tmp_path: Path, toolkit_home: Path) -> Iterator[Processes]:
    """Two workers, each with runs of its own."""
    for name in ("store", "first"):
        (tmp_path / name).mkdir()
    with two_workers(tmp_path) as processes:
        yield processes


def hidden(folder: Path, words: list[str]) -> list[str]:
    """A command for a process with mounts of its own, where a folder is empty, and so is /var/tmp."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", APART, "sh", str(folder), *words]


class Callers:
    """Callers for one batch, each with a home of its own below `first`."""

    def __init__(self, fleet: Processes, tmp_path: Path, count: int, prompt: str) -> None:
        self._top = tmp_path
        self._words = [sys.executable, "-W", "ignore", "-m", "tests.fleets.following", "b", fleet.address]
        self._words += [str(tmp_path / "store"), str(count), prompt]

    def start(self, home: str, *more: str, apart: bool = False) -> subprocess.Popen[str]:
        """Start one; `apart` gives it mounts of its own, where the homes of the others are not there."""
        env, words = {**os.environ, "TOOLKIT_HOME": str(self._top / "first" / home)}, [*self._words, *more]
        if apart:
            words = hidden(self._top / "first", words)
            env |= OWN
        return subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def do(self, home: str, *more: str, apart: bool = False) -> dict[str, tuple[str, list[str], int]]:
        """How the tasks stand after a caller that has come to its end."""
        return ended(self.start(home, *more, apart=apart))


def ended(caller: subprocess.Popen[str]) -> dict[str, tuple[str, list[str], int]]:
    with caller:
        out, err = caller.communicate(timeout=_SECONDS)
    assert caller.returncode == 0, err
    sys.stderr.write(err)  # pytest shows it where an assertion fails
    found: dict[str, Any] = json.loads(out)
    return found


def refused(caller: subprocess.Popen[str]) -> str:
    with caller:
        out, err = caller.communicate(timeout=_SECONDS)
    assert (caller.returncode, out) == (1, ""), out
    return err


def has_billed(tmp_path: Path, count: int) -> bool:
    file = tmp_path / "bills"
    return file.exists() and len(list(bills(file))) >= count


def test_a_killed_caller_is_followed_by_one_that_shares_nothing_but_the_store(fleet: Processes, tmp_path: Path) -> None:
    callers = Callers(fleet, tmp_path, 5, "Slow")
    with callers.start("a") as first:
        until(lambda: has_billed(tmp_path, 2))
        first.kill()
    (tmp_path / "slow" / "go").touch()
    stand = callers.do("b", apart=True)
    assert {task: (state, runs) for task, (state, runs, _) in stand.items()} == {
        f"t{number}": ("ok", [f"b.t{number}.1"]) for number in range(5)
    }
    assert billed(tmp_path / "bills") == sum(tokens for *_, tokens in stand.values()) == 5000
    assert callers.do("a") == stand  # the first one, back again, learns what was done meanwhile
    assert billed(tmp_path / "bills") == 5000


def test_a_caller_that_lives_keeps_its_batch_and_is_named(
    fleet: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE, "40")  # no busy machine is silent for so long
    callers = Callers(fleet, tmp_path, 2, "Slow")
    with callers.start("a") as first:
        until(lambda: has_billed(tmp_path, 2))
        said = refused(callers.start("b"))
        assert f"somebody works on the batch 'b' already, on {platform.node()}" in said
        assert f"process {first.pid}" in said
        (tmp_path / "slow" / "go").touch()
        stand = ended(first)
    assert billed(tmp_path / "bills") == sum(tokens for *_, tokens in stand.values()) == 2000
    assert callers.do("b") == stand


def test_a_caller_that_slept_for_a_lease_says_nothing_more(fleet: Processes, tmp_path: Path) -> None:
    callers = Callers(fleet, tmp_path, 4, "Slow")
    with callers.start("a") as first:
        until(lambda: has_billed(tmp_path, 2))
        os.kill(first.pid, signal.SIGSTOP)
        try:
            second = callers.start("b")
            until(lambda: list((tmp_path / "store").glob("batches/*/claims/caller/2")))
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert "another caller has taken the batch over" in refused(first)
    (tmp_path / "slow" / "go").touch()
    stand = ended(second)
    assert {state for state, *_ in stand.values()} == {"ok"}
    assert billed(tmp_path / "bills") == sum(tokens for *_, tokens in stand.values()) == 4000


def test_the_books_balance_whoever_is_killed(fleet: Processes, tmp_path: Path) -> None:
    callers, chance = Callers(fleet, tmp_path, 60, "Vary"), random.Random(18)
    for home in ("a", "b", "a"):
        before = billed(tmp_path / "bills") if has_billed(tmp_path, 1) else 0
        with callers.start(home) as caller:
            wanted = before + chance.randrange(1, 4000)
            until(lambda wanted=wanted: has_billed(tmp_path, 1) and billed(tmp_path / "bills") >= wanted)
            caller.kill()
    stand = callers.do("c", apart=True)
    assert {state for state, *_ in stand.values()} == {"ok"}
    assert sum(tokens for *_, tokens in stand.values()) == billed(tmp_path / "bills")


def test_what_the_first_caller_spent_counts_for_the_second(fleet: Processes, tmp_path: Path) -> None:
    callers = Callers(fleet, tmp_path, 5, "Task")
    first = callers.do("a", "2500")
    done = billed(tmp_path / "bills")
    assert "waiting" in {state for state, *_ in first.values()}
    assert callers.do("b", "2500") == first
    assert billed(tmp_path / "bills") == done
    assert "waiting" not in {state for state, *_ in callers.do("b", "100000").values()}


@needs_jail
@pytest.mark.filterwarnings("default")
def test_toolkit_batch_resume_goes_on_on_another_machine(tmp_path: Path) -> None:
    hold = threading.Event()
    held = Turn([text("Two.")], when=lambda request: "Second" in request.prompt, hold=hold, usage=USAGE)
    (tmp_path / "first").mkdir()
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "First."}\n{"id": "b", "prompt": "Second."}\n')
    processes = Processes(tmp_path, {"ANTHROPIC_API_KEY": "of-the-worker", "TOOLKIT_HOME": str(tmp_path / "w1")})
    words = [sys.executable, "-m", "toolkit", "batch", str(tmp_path / "tasks.jsonl"), "--cluster", processes.address]
    words += ["--name", "nightly", "--store", str(tmp_path / "store"), "--lease", "4s", "--json"]
    env = {**os.environ, "PYTHONPATH": PATH, "TOOLKIT_HOME": str(tmp_path / "first" / "state")}
    with ScriptedAPI(held, otherwise=Turn([text("One.")], usage=USAGE), strict=False) as api:
        words += ["--api-url", api.url]
        try:
            processes.scheduler()
            processes.worker("w1")
            with subprocess.Popen(
                words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as first:
                until(lambda: any("Second" in request.prompt for request in api.requests))
                first.kill()
            hold.set()
            second = subprocess.run(
                hidden(tmp_path / "first", [*words, "--resume"]),
                cwd=tmp_path,
                env=env | OWN,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        finally:
            hold.set()
            processes.close()
        assert second.returncode == 0, second.stderr
        stand = {one["task"]: one for one in json.loads(second.stdout)["tasks"]}
        assert {name: (one["state"], len(one["runs"])) for name, one in stand.items()} == {
            "a": ("ok", 1),
            "b": ("ok", 1),
        }
        assert sum(one["tokens"] for one in stand.values()) == len(api.requests) * 100 == 200
