"""What batches do in the tests of fleets: tasks for a FakeCLI whose model writes down what it bills."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from toolkit.runs import RunSpec
from toolkit.runs.batches import Task
from toolkit.testing import FakeCLI, Request, Turn, text

BILLS = "FLEET_BILLS"
"""The variable that names the file with the bills."""
SLOW = "FLEET_SLOW"
"""The variable that names a folder: a task waits until there is a file of its name, if it is told to be slow."""
USAGE = {"input_tokens": 900, "output_tokens": 100}


def usage_of(prompt: str) -> dict[str, int]:
    """What a call about this costs: the same, but for those whose prompt says that it varies."""
    if not prompt.startswith("Vary"):
        return USAGE
    number = int(prompt.split()[1].strip("."))
    return {"input_tokens": 100 + number * 7 % 900, "output_tokens": 1 + number % 50}


def tasks(count: int, prompt: str = "Task") -> list[Task]:
    return [Task(f"t{number}", f"{prompt} {number}.") for number in range(count)]


def bill(request: Request) -> Turn:
    """Say something, and write down whom it was said to before it is."""
    prompt = request.prompt
    handle = os.open(os.environ[BILLS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{prompt}|{sum(usage_of(prompt).values())}|{os.getpid()}\n".encode())
    os.close(handle)
    if "Deadly" in prompt:
        os.kill(os.getpid(), signal.SIGKILL)
    if "Slow" in prompt:
        gate, until = Path(os.environ[SLOW]), time.monotonic() + 60
        while not (gate / "go").exists() and time.monotonic() < until:
            time.sleep(0.02)
    return Turn([text("done")], usage=usage_of(prompt))


def make(task: Task) -> RunSpec:
    return RunSpec(task.prompt, transport=FakeCLI(otherwise=bill, strict=False))


def bills(file: Path) -> Iterator[tuple[str, int, int]]:
    """Every call that was billed: its prompt, its tokens, and the process."""
    for line in file.read_text(encoding="utf-8").splitlines():
        prompt, tokens, pid = line.split("|")
        yield prompt, int(tokens), int(pid)


def billed(file: Path) -> int:
    return sum(tokens for _, tokens, _ in bills(file))
