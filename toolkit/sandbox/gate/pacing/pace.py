"""What the gate of a run asks before a request leaves, and tells after its answer.

The gate knows no more than this of the rate that many runs share. `toolkit.fleets.rate` makes such objects.
"""

from __future__ import annotations

from typing import Protocol


class Permit(Protocol):
    """One request that may leave now."""

    def answered(self, status: int, retry_after: float | None) -> None:
        """The model API answered: with this status, and asking to wait so many seconds, where it said so."""


class Pace(Protocol):
    """How quickly the requests of one run may leave."""

    async def admit(self, within: float, *, again: bool = False, after: float = 0.0) -> Permit | None:
        """Wait for the turn of one request, `within` seconds at most; None where it did not come.

        `again` is a request that was sent and met the limit: it goes before others, `after` the seconds that the API
        asked it to wait. Cancelling gives the turn up.
        """
