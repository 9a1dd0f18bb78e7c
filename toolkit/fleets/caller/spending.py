"""One spend limit for all runs of a batch, wherever they are done; what was lost with a worker is charged, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from toolkit.runs import Limits, RunResult, Tokens
from toolkit.runs.batches import Purse, Standing, left_of
from toolkit.runs.outcome import never_began


class Spending:
    """What is left of the limit of a batch."""

    def __init__(
        self, standings: Mapping[str, Standing], usd: float | None, tokens: int | None, *, places: int, runs: int
    ) -> None:
        self.is_limited = usd is not None or tokens is not None
        left = left_of(standings.values(), usd, tokens)
        self._purse = None if left is None else Purse(left, places=places, runs=runs)
        self._before: dict[str, tuple[int, float]] = {}

    async def take(self, standing: Standing, own: Limits) -> Limits | None:
        """The limits that the next run of a task may have; None when everything is used up."""
        if self._purse is None:
            return None
        self._before[standing.task.id] = (standing.tokens, standing.cost[0])
        return await self._purse.take(standing.task.id, own)

    async def give_back(self, standing: Standing, result: RunResult[Any] | None) -> None:
        """A task has ended: all its runs since are charged, also those that were lost."""
        assert self._purse is not None, "nothing was taken"
        tokens, cost = self._before.pop(standing.task.id)
        known, is_whole = standing.cost
        used = result or never_began(standing.task.id, "crashed")
        used = dataclasses.replace(
            used,
            total=Tokens(input=max(0, standing.tokens - tokens)),
            cost=known - cost if is_whole else None,
            known_cost=max(0.0, known - cost),
        )
        await self._purse.give_back(standing.task.id, used, is_known=not standing.unknown_calls)
