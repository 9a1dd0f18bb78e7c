"""What every bench shares: a row of the printed table, and fair ways to time two contenders.

A bench is a module `tests/bench/bench_NAME.py` with `def main() -> Iterable[Row]`. It measures
both sides in one run, turn by turn, so that a busy machine slows both: only ratios are judged. The quartiles of
the ratio over the rounds are printed beside its median. A row fails when its best quarter is over the bound too; else
it is noise. A contender that is not installed leaves its row open.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table: a measured value and the bound it must keep."""

    what: str
    ours: float
    theirs: float | None
    """The other side, measured in the same run; None when the bound is absolute."""
    must_be: float
    """Most that `ours / theirs` may be, or `ours` itself when there is no other side."""
    unit: str = "ms"
    spread: tuple[float, float] | None = None
    """The quartiles of the judged number over the rounds; None where it was measured once."""
    missing: str = ""
    """The contender that is not installed here, where the row is left open."""

    @property
    def judged(self) -> float:
        """The number that is held against the bound."""
        return self.ours if self.theirs is None else self.ours / self.theirs

    @property
    def verdict(self) -> str:
        """`ok`, `OVER`, `noise` where only the spread reaches the bound, or `open`."""
        if self.missing:
            return "open"
        if self.judged <= self.must_be:
            return "ok"
        return "noise" if self.spread is not None and self.spread[0] <= self.must_be else "OVER"

    @property
    def ok(self) -> bool:
        return self.verdict != "OVER"


def left_open(what: str, must_be: float, missing: str, *, unit: str = "ms") -> Row:
    """The row of a comparison with something that is not installed."""
    return Row(what, 0.0, None, must_be, unit, missing=missing)


def first_missing(*programs: str) -> str:
    """The first of these that is not on PATH; empty when all are."""
    return next((program for program in programs if shutil.which(program) is None), "")


@dataclass(frozen=True)
class Pair:
    """Seconds (or megabytes) of both contenders, in the order they were taken."""

    ours: list[float]
    theirs: list[float]

    def row(self, what: str, must_be: float, *, unit: str = "ms") -> Row:
        """The medians as a row, with the quartiles of the ratio over the rounds; `unit` is s, ms, us or MB."""
        scale = {"s": 1.0, "ms": 1e3, "us": 1e6, "MB": 1.0}[unit]
        ours, theirs = statistics.median(self.ours) * scale, statistics.median(self.theirs) * scale
        return Row(what, ours, theirs, must_be, unit, self._spread())

    def _spread(self) -> tuple[float, float] | None:
        ratios = [mine / other for mine, other in zip(self.ours, self.theirs, strict=False)]
        if len(ratios) < 2:
            return None
        low, _, high = statistics.quantiles(ratios, n=4)
        return max(low, min(ratios)), min(high, max(ratios))


def interleave(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Pair:
    """Time both, alternating and swapping who goes first, `rounds` times each."""
    pair = Pair([], [])
    sides = [(ours, pair.ours), (theirs, pair.theirs)]
    for turn in range(-warmup, rounds):
        for run, times in sides if turn % 2 == 0 else reversed(sides):
            gc.collect()
            start = clock()
            run()
            taken = clock() - start
            if turn >= 0:
                times.append(taken)
    return pair


async def interleave_calls(
    ours: Callable[[], Awaitable[object]],
    theirs: Callable[[], Awaitable[object]],
    *,
    batches: int,
    calls: int,
    warmup: int = 50,
) -> Pair:
    """Time single awaited calls: batches of `calls` alternate between the two; every call is one sample."""
    pair = Pair([], [])
    sides = [(ours, pair.ours), (theirs, pair.theirs)]
    for call, _ in sides:
        for _ in range(warmup):
            await call()
    for turn in range(batches):
        for call, times in sides if turn % 2 == 0 else reversed(sides):
            gc.collect()
            for _ in range(calls):
                start = time.perf_counter()
                await call()
                times.append(time.perf_counter() - start)
    return pair


def child_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a measured process: bytecode is cached and output buffered, as users have it."""
    slow = (
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "PYTHONDEVMODE",
        "PYTHONTRACEMALLOC",
        "COVERAGE_PROCESS_START",
    )
    return {**{key: value for key, value in os.environ.items() if key not in slow}, **(extra or {})}


@contextmanager
def killed_after(process: subprocess.Popen[Any], seconds: float) -> Iterator[None]:
    """Bound what waits for a process without a timeout of its own.

    `Popen.wait(timeout)` polls with growing pauses of up to 50 ms, which would be most of what a start takes.

    Raises:
        TimeoutExpired: it was killed.
    """
    late = threading.Event()

    def end_it() -> None:
        late.set()
        process.kill()

    watchdog = threading.Timer(seconds, end_it)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()
    if late.is_set():
        raise subprocess.TimeoutExpired(process.args, seconds)


def end_of(process: subprocess.Popen[Any], seconds: float) -> int:
    """The exit code of a process, at the moment it ends; raises as `killed_after` does."""
    with killed_after(process, seconds):
        return process.wait()


def run_to_end(
    command: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], check: bool = True, seconds: float = 60.0
) -> None:
    """Run a command to its end, with nothing to read and nobody to read it.

    Raises:
        CalledProcessError: it failed, where that is checked.
        TimeoutExpired: it was killed.
    """
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=nothing, stdout=nothing, stderr=nothing)
    code = end_of(process, seconds)
    if check and code != 0:
        raise subprocess.CalledProcessError(code, command)
