"""Every fault at every file-system call of every operation: how often a promise is broken that is not known to be."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.bench._common import Row
from tests.faults.known import KNOWN
from tests.faults.player import Played, faults_of, playable, player


def main() -> Iterator[Row]:
    kept = set(KNOWN)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        operations = playable()
        for operation, rounds in zip(operations, pool.map(_played, operations), strict=True):
            unknown = [one for one in rounds if one.breaks - KNOWN.keys()]
            for one in unknown:
                print(one, file=sys.stderr, flush=True)
            kept -= {broken for one in rounds for broken in one.breaks}
            yield Row(f"faults in {operation}, of {len(rounds):,}: promises broken", len(unknown), None, 0, "times")
    for known in sorted(kept):
        print(f"kept at every point, and still in tests/faults/known.py: {', '.join(known)}", file=sys.stderr)
    yield Row("promises known as broken that are kept", len(kept), None, 0, "")


def _played(operation: str) -> list[Played]:
    with player() as playing:
        return [
            playing.play(operation, fault, point)
            for fault in faults_of(operation)
            for point in playing.points(operation, fault)
        ]
