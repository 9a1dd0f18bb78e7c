"""One spend limit for the runs of a batch on several machines, and for those who go on with it later.

purse = SharedPurse(store, "batches/nightly", who="worker-3", usd=40.0, places=4, sharing=32)
limits = await purse.take(spec.run_id, spec.limits)       # as soon as there is enough for it; None: all is used up
await purse.give_back(spec.run_id, result, is_known=True)
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from toolkit.fleets.purse.ledger import NAMES, Amount, Ledger
from toolkit.fleets.purse.share import Share, SpentError
from toolkit.fleets.store import Store
from toolkit.runs import Limits, RunResult
from toolkit.runs.many import as_limits, used_of

_EVERY = 2.0
"""Seconds after which a run that waits for what others hold looks again."""
_T = TypeVar("_T")


class SharedPurse:
    """A `Purse` whose limit is shared through a store. `places` are this process's, `sharing` those of all.

    Raises:
        RunError: the store cannot be reached.
    """

    def __init__(
        self,
        store: Store,
        base: str,
        who: str,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        places: int,
        sharing: int,
    ) -> None:
        self._ledger = Ledger(store, base, who)
        given = {"usd": usd, "tokens": tokens}
        self._ledger.open({name: float(value) for name, value in given.items() if value is not None})
        self._share = Share(self._ledger, places=places, sharing=sharing)
        self._line = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def sharing(self) -> int:
        """The places of the whole batch."""
        return self._share.sharing

    @sharing.setter
    def sharing(self, places: int) -> None:
        self._share.sharing = places

    async def take(self, run: str, own: Limits) -> Limits | None:
        """The limits a run may start with, as soon as there is enough for it; None when everything is used up.

        Raises:
            RunError: the store cannot be reached.
        """
        while True:
            self._changed.clear()
            try:
                part = await self._asked(lambda: self._share.take(run, {name: getattr(own, name) for name in NAMES}))
            except SpentError:
                return None
            if part is not None:
                return dataclasses.replace(own, **as_limits(part))
            try:
                async with asyncio.timeout(_EVERY):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def give_back(self, run: str, result: RunResult[Any], *, is_known: bool) -> None:
        """A run is over. Where nobody knows what it used, it counts as having used its whole part."""
        async with self._line:
            self._share.give_back(run, used_of(result, self._share.promised(run), is_known=is_known))
            self._changed.set()

    async def rest(self) -> None:
        """No run waits here any more: others may have what is not promised.

        Raises:
            RunError: the store cannot be reached.
        """
        await self._asked(self._share.rest)

    async def settle(self, who: str, used: Amount) -> None:
        """Somebody who took part is gone for certain: charge what it used in place of what it held.

        Raises:
            RunError: the store cannot be reached.
        """
        await self._asked(lambda: self._ledger.settle(who, used))

    async def _asked(self, ask: Callable[[], _T]) -> _T:
        async with self._line:
            return await asyncio.to_thread(ask)
