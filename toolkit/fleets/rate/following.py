"""The decisions on a shared rate as whoever called for the batch sees them, so that they are kept with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import Row, Store

_EVERY = 3.0


async def follow(store: Store, base: str, heard: Callable[[dict[str, Any]], None], *, after: int = 0) -> None:
    """Call `heard` with every decision after the one with this number, until cancelled; then once more for the rest."""
    row = Row(store, f"{base}/rate/decisions")
    row.last = after

    def look() -> None:
        with contextlib.suppress(RunError):  # it is there the next time
            for decision in row.read_on():
                heard(decision)

    try:
        while True:
            await asyncio.to_thread(look)
            await asyncio.sleep(_EVERY)
    finally:
        look()
