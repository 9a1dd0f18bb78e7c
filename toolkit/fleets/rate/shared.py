"""One rate for the runs of a batch in several processes, on one machine or many, which share a store.

    with SharedRate(store, base="batches/nightly", who="worker-3") as rate:
        spec = replace(spec, pace=rate.of_run())

A thread looks into the store every few seconds and tells what was decided here. A store that cannot be reached stops
nobody: the part of the rate that was agreed on last goes on, and falls like any other when the API refuses.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from toolkit.errors import RunError
from toolkit.fleets.rate.agreement import Agreement
from toolkit.fleets.rate.decisions import Decision
from toolkit.fleets.rate.rate import Clock, Rate
from toolkit.fleets.store import Store

EVERY = 3.0
_OLDEST_OURS = 30.0
"""Seconds after which what was decided here is no news any more."""
_FIRST_PAUSE = 0.25
"""Seconds until the second look: those who begin together see one another soon."""
_PATIENCE = 10.0
"""Seconds that leaving waits for the store."""
_log = logging.getLogger("toolkit.fleets")


class SharedRate(Rate):
    """A rate that others share through a store. As a context manager it takes part as long as the block.

    Raises:
        RunError: the store cannot be reached at the beginning.
    """

    def __init__(
        self,
        store: Store,
        base: str,
        who: str,
        *,
        every: float = EVERY,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
        on_decision: Callable[[Decision], None] | None = None,
    ) -> None:
        super().__init__(clock=clock, on_decision=on_decision)
        self._agreement = Agreement(store, base, who, every=every)
        self._every = every
        self._wall = wall
        self.pacer.begin_empty()
        self._ours: Decision | None = None
        """What was decided here and the others do not know yet."""
        self._ours_at = 0.0
        self._stir = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._keep_on, name="toolkit-rate", daemon=True)
        self.trouble: str | None = None
        """Why the store could not be reached the last time; None since it could."""

    def __enter__(self) -> Self:
        self.exchange()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._stir.set()
        self._thread.join(_PATIENCE)

    @property
    def has_news(self) -> bool:
        """Whether something was decided here that the others do not know yet."""
        return self._ours is not None

    def exchange(self) -> None:
        """Tell and hear once.

        Raises:
            RunError: the store cannot be reached.
        """
        with self._lock:
            now, runs = self._clock(), self.pacer.runs(self._clock())
            if self._ours is not None and now - self._ours_at > _OLDEST_OURS:
                self._ours = None
            ours = self._ours
        heard = self._agreement.exchange(ours, runs, now, self._wall())
        with self._lock:
            if self._ours is ours:
                self._ours = None
            self.pacer.share = heard.share
            for decision in heard.news:
                self._keep(decision)
            if heard.is_ours:
                self.pacer.decision = heard.news[-1]
            elif heard.news and self._ours is None:
                self.pacer.adopt(heard.news[-1], self._clock(), elapsed=heard.elapsed)
            self._wake_watcher()

    def _decided(self, decision: Decision) -> None:
        """Decided here: it holds here at once, and for all when the store has it."""
        self._ours, self._ours_at = decision, self._clock()
        self._stir.set()

    def _begin(self) -> None:
        """The first decision is in the store."""

    def _keep_on(self) -> None:
        pause = _FIRST_PAUSE
        while not self._is_over:
            self._stir.wait(pause)
            self._stir.clear()
            pause = min(pause * 2, self._every)
            try:
                self.exchange()
                self.trouble = None
            except RunError as error:
                if self.trouble is None:
                    _log.warning("the rate of the batch is not agreed on for now: %s", error)
                self.trouble = str(error)
        with contextlib.suppress(RunError):  # the others leave us out after a while
            self._agreement.leave()
