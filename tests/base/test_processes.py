"""A process is told apart from its number, its name and its remains."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from toolkit._base.processes import all_pids, is_running, started_at


def test_a_process_that_ended_is_not_running_even_before_anybody_asked_how() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid in all_pids()
    assert not is_running(process.pid)
    process.wait()
    assert started_at(process.pid) is None


def test_a_program_cannot_lie_about_itself_with_its_name(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 1"
    shutil.copyfile(shutil.which("sleep") or "/bin/sleep", program)
    program.chmod(0o700)
    with subprocess.Popen([str(program), "60"]) as process:
        told = is_running(process.pid), started_at(process.pid)
        process.kill()
    assert told[0]
    assert told[1] is not None
