"""Start a process that plays rounds, and ask it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import OPERATIONS, overlays
from tests.faults.preload import FAULTS, Call, build
from toolkit._base.layered import why_no_layers

ROOT = Path(__file__).parents[2]
FEW_HANDLES = (48, 40, 32, 24)
"""Most handles a process may have, where an operation is tried with few."""


@dataclass(frozen=True)
class Played:
    """One round and what came of it."""

    operation: str
    fault: str
    point: int
    hit: str
    """The call that went wrong."""
    end: str
    error: str
    broken: tuple[tuple[str, str], ...]
    """Each promise that was broken, with what was seen."""

    @property
    def breaks(self) -> set[tuple[str, str, str]]:
        """The same as operation, fault and promise."""
        return {(self.operation, self.fault, promise) for promise, _ in self.broken}

    def __str__(self) -> str:
        said = " ".join(self.error.split())
        wrong = "".join(f"\n    {promise}: {seen}" for promise, seen in self.broken)
        return f"{self.operation}, {self.fault} at {self.hit} → {self.end} {said}{wrong}"


class Player:
    """A process that plays rounds; one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._calls: dict[str, list[Call]] = {}

    def calls(self, operation: str) -> list[Call]:
        """Every counted call of the undisturbed operation; the first is point 1."""
        if operation not in self._calls:
            self._calls[operation] = [Call(**one) for one in self._ask({"operation": operation})]
        return self._calls[operation]

    def points(self, operation: str, fault: str) -> list[int]:
        """Where a fault can happen in an operation."""
        if fault == "few handles":
            return list(FEW_HANDLES)
        return [number for number, call in enumerate(self.calls(operation), 1) if call.suits(fault)]

    def sample(self, operation: str, fault: str, most: int) -> list[int]:
        """Some of the points, always the same ones."""
        points = self.points(operation, fault)
        return sorted(random.Random(f"{operation} {fault}").sample(points, min(most, len(points))))

    def play(self, operation: str, fault: str, point: int) -> Played:
        answer = self._ask({"operation": operation, "fault": fault, "point": point})
        broken = tuple((one["promise"], one["seen"]) for one in answer["broken"])
        return Played(operation, fault, point, answer["hit"], answer["end"], answer["error"], broken)

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the player ended with {self._process.wait()}, asked for {request}")
        return json.loads(line)


def faults_of(operation: str) -> list[str]:
    """What can go wrong with an operation."""
    return [*FAULTS, *(["few handles"] if operation in ("changes", "apply", "snapshot") else [])]


def playable() -> list[str]:
    """The operations that can be played on this machine: not those of overlays where none can be mounted."""
    has_overlays = _takes_overlays(_place())
    return [one for one in OPERATIONS if has_overlays or one not in overlays.OPERATIONS]


def _place() -> str:
    """Where to play: in memory where that will do, as there are many syncs."""
    memory, usual = "/dev/shm", tempfile.gettempdir()
    return memory if _keeps_attributes(memory) and _takes_overlays(memory) >= _takes_overlays(usual) else usual


def _takes_overlays(folder: str) -> bool:
    return why_no_layers(Path(folder)) is None


def _keeps_attributes(folder: str) -> bool:
    """Whether files there can have attributes; in memory only newer kernels keep them."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            os.setxattr(file.name, "user.origin", b"kept")
    except OSError:
        return False
    return True


@contextmanager
def player() -> Iterator[Player]:
    """A player in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir=_place()) as folder:
        library = build(Path(folder))
        command = [sys.executable, "-m", "tests.faults.play", folder]
        environment = {**os.environ, "LD_PRELOAD": str(library), "TMPDIR": folder}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield Player(process)
            finally:
                process.communicate(timeout=60)  # nobody asks any more: it ends by itself
