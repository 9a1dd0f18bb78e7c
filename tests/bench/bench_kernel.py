"""Drawn streams to the kernel of stdio and to mcp: how often a client could tell them apart."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, settings

from tests.bench._common import Row
from tests.serving.parity._drawing import streams
from tests.serving.parity._pair import both
from tests.serving.parity._tools import BOX

_STREAMS = 5000


def main() -> Iterator[Row]:
    different: list[list[bytes]] = []

    @settings(
        max_examples=_STREAMS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(streams())
    def draw(stream: list[bytes]) -> None:
        kernel, judge = asyncio.run(both(BOX, stream))
        if kernel != judge:
            different.append(stream)
            print(stream, file=sys.stderr, flush=True)

    logging.disable(logging.CRITICAL)  # mcp tells of every message that it drops
    try:
        draw()
    finally:
        logging.disable(logging.NOTSET)
    yield Row(f"streams the kernel answers differently, of {_STREAMS:,}", len(different), None, 0, "")
