"""How many small mistakes in the modules that safety and money rest on are noticed by no test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.bench._common import Row
from tests.bench.mutants import ROOMS, Tried, shares, try_all

UNNOTICED = 15
"""Percent of a room's mutants that may stay unnoticed."""


def main() -> Iterator[Row]:
    for room, noticed, count in shares(try_all(list(ROOMS), tell=_tell_survivor)):
        yield Row(
            f"mutants of {room} that no test notices, of {count}", 100 * (1 - noticed / count), None, UNNOTICED, "%"
        )


def _tell_survivor(one: Tried) -> None:
    if not one.is_noticed and not one.is_explained:
        print(f"survived: {one}", file=sys.stderr, flush=True)
