"""The queue and the rate of a batch as metrics, while it is worked on, where somebody wants them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.runs.batches import Batch
    from toolkit.telemetry import BatchFigures, Telemetry


@contextlib.contextmanager
def collected(batch: Batch, telemetry: Telemetry | None) -> Iterator[None]:
    """Have the figures of the batch collected until the end, and everything sent then."""
    if telemetry is None:
        yield
        return
    telemetry.watch_batch(batch.name, _Figures(batch).look)
    try:
        yield
    finally:
        telemetry.close()


class _Figures:
    """The figures of a batch as they were at the last look that it could be read."""

    def __init__(self, batch: Batch) -> None:
        from toolkit.fleets.looking import BatchTable
        from toolkit.telemetry import BatchFigures

        self._table = BatchTable(batch)
        self._last = BatchFigures({})

    def look(self) -> BatchFigures:
        from toolkit.telemetry import BatchFigures

        with contextlib.suppress(ToolkitError, OSError):
            history = self._table.batch.rate_history
            base = history[-1].get("base") if history else None
            rate = float(base) if isinstance(base, int | float) else None
            lowered = sum(said.get("why") == "lowered" for said in history)
            self._last = BatchFigures(self._table.look().counts, rate, lowered)
        return self._last
