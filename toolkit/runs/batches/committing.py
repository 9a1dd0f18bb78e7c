"""Lines of a journal that reach the disk together: one sync at a time, for all who wait.

Whoever waits holds no thread, so that runs which begin while the disk is busy do not keep others from theirs.
"""

from __future__ import annotations

import asyncio

from toolkit.runs.batches.journal import Batch

_PAUSE = 0.005
"""Seconds from the beginning of a sync to that of the next: lines that come meanwhile share one."""


class GroupCommit:
    """The syncs of a batch that is held."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._under_way: asyncio.Future[None] | None = None
        self._next = 0.0
        """When the next sync may begin, by the clock of the loop."""

    async def synced(self, mark: int) -> None:
        """Have what `Batch.note` gave this mark for on the disk. Raises as `Batch.sync`."""
        while not self._batch.is_synced(mark):  # one that is under way may have begun before the line was written
            if self._under_way is None or self._under_way.done():
                self._under_way = asyncio.ensure_future(self._sync(mark))
            await asyncio.shield(self._under_way)

    async def _sync(self, mark: int) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next - loop.time())
        self._next = loop.time() + _PAUSE
        await asyncio.to_thread(self._batch.sync, mark)
