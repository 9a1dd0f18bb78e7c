"""Where TOOLKIT_HOME is a folder that its user may not enter, every command says so in words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli._command import TOOLKIT
from tests.escape.users import PLAIN_USER, as_plain_user, can_become_plain
from tests.needs import needs

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
    needs(can_become_plain(), "setpriv and unshare are needed"),
]
COMMANDS = [
    *(
        "runs list",
        "runs show last",
        "runs apply last",
        "runs diff last",
        "runs clean",
        "runs stop last",
        "runs remove x",
    ),
    *("approvals list", "setups list", "report last", "batch top x", "workspace clean", "run Go. --mount src"),
]


def _says(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    home, closed = folder / "home", folder / "closed"
    home.mkdir()
    (closed / "toolkit").mkdir(parents=True)
    closed.chmod(0o700)
    (home / "src").mkdir()
    os.chown(home / "src", PLAIN_USER, PLAIN_USER)
    env = {"PATH": os.environ["PATH"], "TOOLKIT_HOME": str(closed / "toolkit"), "LANG": "C.UTF-8"}
    env |= {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "made-up"}
    words = as_plain_user([str(TOOLKIT), *command.split()], home)
    return subprocess.run(words, cwd=home, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_which_place_is_closed_and_what_to_do(anyones_folder: Path, command: str) -> None:
    done = _says(anyones_folder, command)
    what, where, fix = done.stderr.splitlines()
    assert (done.returncode, done.stdout, what) == (1, "", "the command could not go on")
    assert where.startswith(f"  {anyones_folder}/closed/toolkit/")
    assert where.endswith(": Permission denied")
    assert fix == "  Give this user access to it, or set TOOLKIT_HOME to a folder of yours."


def test_the_doctor_names_it_among_what_stops_a_run(anyones_folder: Path) -> None:
    done = _says(anyones_folder, "doctor")
    [row] = [line for line in done.stdout.splitlines() if "stored runs" in line]
    assert (done.returncode, done.stderr) == (1, "")
    assert row.startswith("stops")
    assert row.endswith("/closed/toolkit/runs: Permission denied")
