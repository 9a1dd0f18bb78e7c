"""Find and end the processes of one run, however they detached themselves.

Every process of a run carries the run's mark in its environment, so a child
that left its session or its parent is still found. Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from toolkit._base.processes import all_pids, is_running

MARK = "TOOLKIT_TESTING_RUN"


def marked(mark: str) -> dict[int, str]:
    """The ids and command lines of what was started under this mark and still runs; zombies are not counted."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for pid in all_pids():
        entry = Path("/proc") / str(pid)
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and is_running(pid):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[pid] = command.decode(errors="replace").strip()
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


def wait_until_gone(mark: str, seconds: float) -> dict[int, str]:
    """Wait for the run's processes to end; return those that did not."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def end(mark: str) -> None:
    """Kill what is left of a run."""
    for _ in range(50):  # a process may fork while we look
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not wait_until_gone(mark, 0.2):
            break


def has_ended(pid_file: Path) -> bool:
    """Whether the process that wrote its id to this file is gone; False while nothing is written."""
    pid = _read_pid(pid_file)
    return pid is not None and not is_running(pid)


def terminate(pid_file: Path) -> None:
    """Ask the process that wrote its id to this file to end, if it still runs."""
    pid = _read_pid(pid_file)
    if pid is not None and is_running(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _read_pid(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
