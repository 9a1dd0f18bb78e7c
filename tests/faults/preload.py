"""Build the library that lets file-system calls go wrong, and name the faults it knows."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
_SOURCE = Path(__file__).with_name("preload.c")
_KILL, _SHORT = -1, -2


@dataclass(frozen=True)
class Fault:
    """One thing that can go wrong with a call."""

    code: int
    """An errno, or what preload.c calls KILL and SHORT."""
    sort: str
    """The letter of the calls it can happen to; empty for every call."""


FAULTS = {
    "kill": Fault(_KILL, "c"),
    "EIO": Fault(errno.EIO, ""),
    "ENOSPC": Fault(errno.ENOSPC, "a"),
    "EMFILE": Fault(errno.EMFILE, "h"),
    "EINTR": Fault(errno.EINTR, "i"),
    "short": Fault(_SHORT, "s"),
}
"""A kill is tried before every call that changes something: in between, what is on the disk stays the same."""


@dataclass(frozen=True)
class Call:
    """One counted call of an undisturbed operation."""

    sorts: str
    name: str
    path: str
    """Relative to the folder."""

    def suits(self, fault: str) -> bool:
        return FAULTS[fault].sort in self.sorts


def build(folder: Path) -> Path:
    """Compile the library into a folder."""
    if COMPILER is None:
        raise RuntimeError("there is no C compiler: install gcc")
    library = folder / "preload.so"
    command = [COMPILER, "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{_SOURCE.name} does not compile:\n{done.stderr}")
    return library


def arm(folder: Path, point: int, fault: str | None, trace: int) -> None:
    """Count this process's calls below `folder` from now on; at number `point` comes the fault.

    The call it comes to is written to the handle `trace`; without a fault, every call is.
    """
    code = FAULTS[fault].code if fault is not None else 0
    ctypes.CDLL(None).faults_arm(ctypes.c_char_p(os.fsencode(folder)), ctypes.c_long(point), code, trace)


def disarm() -> None:
    """Count no more."""
    ctypes.CDLL(None).faults_disarm()


def calls_in(trace: str) -> list[Call]:
    """The calls of a trace, in order."""
    return [Call(*line.split("\t", 2)) for line in trace.splitlines()]
