"""The rate of a batch in this process: opened by the first run that needs it, closed by the last."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from toolkit.errors import RunError
from toolkit.fleets.rate.shared import SharedRate
from toolkit.fleets.rate.specs import project_of
from toolkit.fleets.store import Store
from toolkit.runs import RunSpec

_lock = threading.Lock()
_open: dict[tuple[str, str], tuple[SharedRate, int]] = {}
"""The rates that are open, each with how many use it."""


@contextmanager
def rate_here(store: Store, base: str, who: str) -> Iterator[SharedRate]:
    """The rate that all runs of a batch in this process share with those elsewhere. `who` is this process.

    Raises:
        RunError: the store cannot be reached.
    """
    key = (base, who)
    with _lock:
        found, users = _open.get(key, (None, 0))
        rate = found or SharedRate(store, base, who).__enter__()
        _open[key] = (rate, users + 1)
    try:
        yield rate
    finally:
        with _lock:
            rate, users = _open.pop(key)
            if users > 1:
                _open[key] = (rate, users - 1)
        if users == 1:
            rate.__exit__(None, None, None)


@asynccontextmanager
async def paced_here(spec: RunSpec, store: Store, base: str, who: str, priority: int = 0) -> AsyncIterator[RunSpec]:
    """A run's spec with a pace of the batch's rate, as long as the block.

    Where the store cannot be reached it has none, and the CLI itself tries again what the API refuses. A run without a
    gate needs none.
    """
    if spec.transport is not None:
        yield spec
        return
    stack = ExitStack()
    try:
        rate = await asyncio.to_thread(stack.enter_context, rate_here(store, base, who))
    except RunError:
        yield spec
        return
    try:
        yield dataclasses.replace(spec, pace=rate.of_run(project=project_of(spec), priority=priority))
    finally:
        await asyncio.to_thread(stack.close)
