"""HTTP against mcp's MCPServer behind the same uvicorn: one call, 200 calls in parallel, idle sessions."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench._common import Pair, Row
from tests.bench._http import HANDSHAKE, MODERN, OURS, THEIRS, Caller, served

PARALLEL = 200
SESSIONS = 1000


def main() -> Iterator[Row]:
    with served(OURS) as (ours, _), served(THEIRS) as (theirs, _):
        for era in (HANDSHAKE, MODERN):
            yield _one_by_one(ours, theirs, era).row(f"HTTP small call, {era}, p50", 0.7, unit="us")
            yield _in_parallel(ours, theirs, era)
    yield Row(
        f"memory of {SESSIONS:,} idle sessions", _growth(OURS) / 2**20, _growth(THEIRS) / 2**20, must_be=1.0, unit="MiB"
    )


def _one_by_one(ours: int, theirs: int, era: str) -> Pair:
    pair = Pair([], [])
    callers = [(Caller(ours, era), pair.ours), (Caller(theirs, era), pair.theirs)]
    for caller, _ in callers:
        assert b'"3"' in caller.call() or b"3" in caller.call()
    for turn in range(20):
        for caller, times in callers if turn % 2 == 0 else reversed(callers):
            for _ in range(50):
                start = time.perf_counter()
                caller.call()
                times.append(time.perf_counter() - start)
    for caller, _ in callers:
        caller.close()
    return pair


def _in_parallel(ours: int, theirs: int, era: str) -> Row:
    """The slowest of a hundred, when 200 clients send one call each at the same time."""
    sides = [([Caller(port, era) for _ in range(PARALLEL)], list[float]()) for port in (ours, theirs)]
    for turn in range(-1, 8):
        for callers, times in sides if turn % 2 == 0 else reversed(sides):
            taken = _burst(callers)
            if turn >= 0:
                times.extend(taken)
    for callers, _ in sides:
        for caller in callers:
            caller.close()
    high = [sorted(times)[int(len(times) * 0.99)] * 1e3 for _, times in sides]
    return Row(f"HTTP {PARALLEL} calls in parallel, {era}, p99", high[0], high[1], 0.7)


def _burst(callers: list[Caller]) -> list[float]:
    with selectors.DefaultSelector() as waiting:
        for caller in callers:
            waiting.register(caller, selectors.EVENT_READ, caller)
        start = time.perf_counter()
        for caller in callers:
            caller.send()
        taken: list[float] = []
        while len(taken) < len(callers):
            for key, _ in waiting.select(30):
                caller = key.data
                if caller.receive():
                    waiting.unregister(caller)
                    taken.append(time.perf_counter() - start)
        return taken


def _growth(argv: list[str]) -> int:
    """Resident bytes that the sessions add, once the first few have warmed the server up."""
    with served(argv) as (port, pid):
        callers = [Caller(port, HANDSHAKE) for _ in range(20)]
        before = _resident(pid)
        for _ in range(SESSIONS):
            Caller(port, HANDSHAKE).close()
        grown = _resident(pid) - before
        for caller in callers:
            caller.close()
        return grown


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
