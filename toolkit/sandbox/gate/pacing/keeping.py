"""Who keeps the books of a run beside its gate: told of each model call before it leaves, and when it has ended.

So what a call may have cost is known elsewhere also when the gate's own process is killed while it is under way.
"""

from __future__ import annotations

from typing import Protocol


class Bookkeeper(Protocol):
    """Whoever is told what the model calls of one run use."""

    async def leaves(self, call: int, tokens: int) -> None:
        """A call is about to leave and may come to so many tokens; it leaves when this is done. Must not raise."""

    def ended(self, call: int, tokens: int | None) -> None:
        """A call has come to so many tokens, none if it was refused; None where that is not known. Must not raise."""
