"""Find and end the processes of one run, however they detached themselves.

Every process of a run carries the run's mark in its environment, so a child
that left its session or its parent is still found. Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.processes import all_pids, is_running

MARK = "TOOLKIT_TESTING_RUN"


@dataclass(frozen=True, slots=True)
class Process:
    """A running process: its id and its command line."""

    pid: int
    command: str


def marked(mark: str) -> list[Process]:
    """The processes that were started under this mark and still run; zombies are not counted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in all_pids():
        entry = Path("/proc") / str(pid)
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and is_running(pid):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(Process(pid, command))
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


def wait_until_gone(mark: str, seconds: float) -> list[Process]:
    """Wait for the run's processes to end; return those that did not."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def end(mark: str) -> None:
    """Kill what is left of a run."""
    for _ in range(50):  # a process may fork while we look
        for process in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
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
