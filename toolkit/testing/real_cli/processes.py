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

MARK = "TOOLKIT_TESTING_RUN"


@dataclass(frozen=True, slots=True)
class Process:
    """A running process: its id and its command line."""

    pid: int
    command: str


def marked(mark: str) -> list[Process]:
    """The live processes that were started under this mark; zombies are not counted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0") or _is_zombie(entry):
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
        found.append(Process(int(entry.name), command))
    return found


def wait_until_gone(mark: str, seconds: float) -> list[Process]:
    """Wait for the run's processes to end; return those that did not."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def end(mark: str) -> list[Process]:
    """Kill what is left of a run; return what had to be killed."""
    killed: dict[int, Process] = {}
    for _ in range(50):  # a process may fork while we look
        left = marked(mark)
        if not left:
            break
        for process in left:
            killed.setdefault(process.pid, process)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        wait_until_gone(mark, 0.2)
    return list(killed.values())


def has_ended(pid_file: Path) -> bool:
    """Whether the process that wrote its id to this file is gone; False while nothing is written."""
    pid = _read_pid(pid_file)
    try:
        return pid is not None and _is_zombie(Path("/proc") / str(pid))
    except OSError:
        return True


def terminate(pid_file: Path) -> None:
    """Ask the process that wrote its id to this file to end, if it still runs."""
    pid = _read_pid(pid_file)
    if pid is not None and not has_ended(pid_file):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _read_pid(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _is_zombie(entry: Path) -> bool:
    return entry.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
