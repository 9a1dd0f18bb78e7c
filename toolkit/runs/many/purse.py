"""One spend limit for many runs: each is promised a part before it starts, and what it does not use goes back.

A run may start when its fair share of what is left, or its own limit if that is
smaller, is not promised to others. So the promises never add up to more than the
limit; a run ends after the model call that passes its part, as with any limit.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from toolkit.runs.outcome.result import RunResult
from toolkit.runs.spec import Limits

_CRUMB = {"usd": 1e-9, "tokens": 1.0}
"""Less than this is nothing."""


class Purse:
    """What is left of a shared limit. `places` runs may be under way at once; `runs` is how many there are in all."""

    def __init__(self, limit: Limits, *, places: int, runs: int) -> None:
        given = {name: getattr(limit, name) for name in _CRUMB}
        self._left: dict[str, float] = {name: float(value) for name, value in given.items() if value is not None}
        self._promised: dict[str, dict[str, float]] = {}
        self._places = places
        self._waiting = runs
        self._changed = asyncio.Condition()

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return bool(self._left)

    async def take(self, run: str, own: Limits) -> Limits | None:
        """The limits a run may start with, as soon as there is enough for it; None when everything is used up."""
        async with self._changed:
            while not self._is_empty():
                part = self._part(own)
                if all(part[name] <= self._free(name) + _CRUMB[name] / 2 for name in part):
                    self._promised[run] = part
                    self._waiting -= 1
                    return dataclasses.replace(own, **as_limits(part))
                await self._changed.wait()
            self._waiting -= 1
            return None

    async def give_back(self, run: str, result: RunResult[Any], *, is_known: bool) -> None:
        """A run is over. Where nobody knows what it used, it counts as having used its whole part."""
        async with self._changed:
            used = used_of(result, self._promised.pop(run, {}), is_known=is_known)
            for name in self._left:
                self._left[name] -= used[name]
            self._changed.notify_all()

    def _is_empty(self) -> bool:
        return any(left < _CRUMB[name] for name, left in self._left.items())

    def _part(self, own: Limits) -> dict[str, float]:
        sharing = max(1, min(self._places, len(self._promised) + self._waiting))
        parts = {}
        for name, left in self._left.items():
            limit = getattr(own, name)
            share = max(left / sharing, _CRUMB[name])
            parts[name] = share if limit is None else min(share, float(limit))
        return parts

    def _free(self, name: str) -> float:
        return self._left[name] - sum(part[name] for part in self._promised.values())


def used_of(result: RunResult[Any], part: Mapping[str, float], *, is_known: bool) -> dict[str, float]:
    """What a run used of a limit in dollars and one in tokens; its whole part where nobody knows.

    Tokens that only the gate saw (the agent's own programs, calls that were cut off) count too; the CLI does not
    know what they cost, so each is taken to cost what the others did.
    """
    by_cli = float(result.total.total)
    tokens = max(by_cli, float(result.gate_tokens or 0))
    used = {"tokens": tokens, "usd": (result.cost or result.known_cost) * (tokens / by_cli if by_cli else 1)}
    known = {"tokens": is_known, "usd": is_known and result.cost is not None and bool(by_cli or not tokens)}
    return {name: value if known[name] else max(value, part.get(name, 0.0)) for name, value in used.items()}


def as_limits(part: Mapping[str, float]) -> dict[str, Any]:
    """A part as fields of `Limits`."""
    return {name: int(value) if name == "tokens" else value for name, value in part.items()}
