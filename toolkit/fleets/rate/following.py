"""The decisions on a shared rate as whoever calls for the batch sees them: kept with it, and taken up from another."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import Any

from toolkit._base.words import safe_line
from toolkit.errors import RunError
from toolkit.fleets.rate.agreement import read_decision
from toolkit.fleets.store import Row, Store

_EVERY = 3.0


def take_up(shared: Store, store: Store, base: str) -> dict[str, Any] | None:
    """Go on from the latest decision that another caller left in a shared store; None where there is none.

    Raises:
        RunError: it cannot be read.
    """
    row = Row(shared, f"{base}/rate/decisions")
    latest = row.latest()
    if latest is None:
        return None
    found = read_decision({name: latest.get(name, 0.0) for name in ("base", "ceiling", "pause", "at")})
    machine = safe_line(str(latest.get("machine") or "another machine"), 80)
    said = dataclasses.asdict(dataclasses.replace(found, number=row.last, machine=machine))
    store.create(f"{row.folder}/{row.last:08d}", json.dumps(said).encode())
    return said


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
