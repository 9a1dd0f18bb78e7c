"""However a run ends, nothing of its jail is left and the workspace is whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.jails import needs_jail, soon
from toolkit.sandbox.jail import JailFolder, sweep

ROOT = Path(__file__).parents[2]
_SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "kill": signal.SIGKILL}


@pytest.fixture
def jails() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)


def _marked(marker: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


@needs_jail
@pytest.mark.parametrize("way", ["normal", "error", "deadline", "cli-killed", "interrupt", "terminate", "kill"])
def test_nothing_survives(tmp_path: Path, jails: Path, way: str) -> None:
    workspace, marker = tmp_path / "workspace", f"0.{random.randrange(10**12)}"
    workspace.mkdir()
    (workspace / "given").write_text("whole", encoding="ascii")
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.ends_driver", str(workspace), marker, way],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(jails)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n", driver.stderr.read() if driver.stderr else ""
        if way in _SIGNALS:
            assert soon(lambda: len(_marked(marker)) >= 4)
            driver.send_signal(_SIGNALS[way])
        driver.communicate(timeout=90)
    finally:
        driver.kill()

    assert soon(lambda: _marked(f"300\0{marker}") == [] and _marked(marker) == [])
    assert soon(lambda: list(jails.iterdir()) == []), list(jails.rglob("*"))
    assert (workspace / "given").read_text(encoding="ascii") == "whole"
    assert {path.stat().st_uid for path in (workspace, *workspace.iterdir())} == {os.geteuid()}


@needs_jail
@pytest.mark.parametrize("way", ["exit", "seconds", "terminate", "kill"])
def test_a_confined_command_leaves_nothing_either(tmp_path: Path, jails: Path, way: str) -> None:
    marker = f"0.{random.randrange(10**12)}"
    script = f"setsid sleep 300 {marker} & echo ready; " + ("exit 5" if way == "exit" else f"sleep 300 {marker}")
    limit = ["--seconds", "2"] if way == "seconds" else []
    command = ["sandbox", "exec", "--workspace", str(tmp_path), *limit, "--", "bash", "-c", script]
    process = subprocess.Popen(
        [sys.executable, "-m", "toolkit", *command],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(jails), "TMPDIR": str(jails)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if way in _SIGNALS:
            process.send_signal(_SIGNALS[way])
        process.wait(timeout=90)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == {"exit": 5, "seconds": 137, "terminate": 137, "kill": -9}[way]
    assert soon(lambda: _marked(marker) == [])
    assert soon(lambda: list(jails.iterdir()) == [])


def test_a_state_is_swept_only_when_its_owner_is_gone(jails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(jails))
    held = JailFolder()
    left = jails / "toolkit-jail-left"
    left.mkdir()
    (left / "owner").touch()
    (left / "home").mkdir(mode=0)
    fresh = jails / "toolkit-jail-fresh"
    fresh.mkdir()

    assert sweep() == [left]
    assert held.path.is_dir()
    assert fresh.is_dir()
    held.close()
    fresh.rmdir()


_KILLED_WHILE_IT_LOOKS = """
import os, signal, sys
from pathlib import Path
from toolkit.sandbox.jail import canary
from toolkit.sandbox import check

def killed(*_):
    print(*[path for path in Path(sys.argv[1]).iterdir()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

canary._script = killed
check(sys.argv[1])
"""


@needs_jail
def test_no_bait_is_left_by_a_check_that_was_killed(tmp_path: Path, jails: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_WHILE_IT_LOOKS, str(workspace)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(jails)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert "-note" in done.stdout
    assert soon(lambda: not list(workspace.iterdir()) and not list(jails.iterdir()))
