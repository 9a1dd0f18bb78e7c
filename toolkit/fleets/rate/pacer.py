"""The rate on one machine: lets requests go one after the other, and decides anew when the API refuses.

Nothing here waits, and no clock is read: every call says what time it is. So the same code paces real gates and
those of a simulation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from toolkit.fleets.rate.decisions import HIGHEST_RATE, LOWEST_RATE, Decision
from toolkit.fleets.rate.line import Line, Ticket

_WINDOWS = (1.0, 3.0, 10.0)
"""Seconds over which it is counted what really left; the highest rate counts."""
_MOST_COUNTED = 4096
_SLACK = 0.1
"""Seconds' worth of requests that may leave at once after a delay."""
_LOOK_AGAIN = 1.0
"""Seconds after which a rate that changes is looked at anew."""

_QUIET = 60.0
"""Seconds without a request after which a run does not count."""

OnDecision = Callable[[Decision], None]


class Pacer:
    """What may leave, and when. `share` is the part of the whole rate that this machine has."""

    def __init__(self, now: float, decision: Decision | None = None, *, on_decision: OnDecision | None = None) -> None:
        self.decision = decision or Decision()
        self.share = 1.0
        self.line = Line()
        self._on_decision = on_decision
        self._began = now
        self._credit = 1.0
        self._counted = now
        self._left: deque[float] = deque(maxlen=_MOST_COUNTED)
        self._runs: dict[str, float] = {}
        """When each run asked last."""

    def begin_empty(self) -> None:
        """Let the first request wait, too: many who begin at one time would send one each."""
        self._credit = 0.0

    def rate(self, now: float) -> float:
        """Requests a second that may leave here now."""
        whole = self.decision.rate(now - self._began)
        return whole * self.share if whole == 0.0 else max(whole * self.share, LOWEST_RATE / 10)

    def enter(self, ticket: Ticket, now: float) -> None:
        """A request wants to leave."""
        ticket.since, ticket.left = now, None
        self._runs[ticket.run] = now
        self.line.enter(ticket)

    def runs(self, now: float) -> int:
        """How many runs there are: those that asked in the last minute, or wait."""
        waiting = self.line.runs()
        self._runs = {run: at for run, at in self._runs.items() if now - at < _QUIET or run in waiting}
        return len(self._runs)

    def due(self, now: float) -> tuple[list[Ticket], float | None]:
        """The requests that leave now, and when to ask again; None when nobody waits."""
        rate = self.rate(now)
        most = max(1.0, rate * _SLACK)
        self._credit = min(self._credit + rate * (now - self._counted), most)
        self._counted = now
        gone: list[Ticket] = []
        while self._credit >= 1.0 and (ticket := self.line.take(now)) is not None:
            self._credit -= 1.0
            self._left.append(now)
            gone.append(ticket)
        if not len(self.line):
            return gone, None
        if self.decision.has_grown_out(now - self._began):
            self.decide(self.decision.raised(now - self._began), now)
        return gone, now + self._soon(rate, now)

    def answered(self, ticket: Ticket, status: int, retry_after: float | None, now: float) -> None:
        """The API answered a request that had left. Refusals of what left before the last decision are known."""
        if not _is_refusal(status, retry_after):
            return
        elapsed = now - self._began
        if ticket.left is not None and ticket.left >= self._began:
            used = self._used(now)
            self.decide(self.decision.lowered(elapsed, used, self._passed(now), status, retry_after), now)
        elif retry_after is not None and (longer := self.decision.paused(elapsed, status, retry_after)) is not None:
            self.decide(longer, now)

    def decide(self, decision: Decision, now: float) -> None:
        """A decision of this machine: it holds here at once."""
        self.adopt(decision, now)
        if self._on_decision is not None:
            self._on_decision(decision)

    def adopt(self, decision: Decision, now: float, *, elapsed: float = 0.0) -> None:
        """A decision that was made here or elsewhere, `elapsed` seconds ago, holds from now on."""
        self.decision = decision
        self._began = now - elapsed
        self._counted = now
        self._credit = min(self._credit, 1.0) if decision.pause <= elapsed else 0.0

    def _soon(self, rate: float, now: float) -> float:
        """Seconds until the next one may leave, or until that is worth another look."""
        pause = self._began + self.decision.pause - now
        if pause > 0:
            return pause
        if (ready := self.line.ready_at()) > now:
            return ready - now
        lacking = 1.0 - self._credit
        return _LOOK_AGAIN if rate <= 0 else min(max(lacking / rate, 0.0005), _LOOK_AGAIN)

    def _used(self, now: float) -> float:
        """The highest rate of what left lately, here and (as far as one can tell from it) elsewhere."""
        return max(1.0, *(self._left_since(now - seconds) / seconds for seconds in _WINDOWS))

    def _passed(self, now: float) -> float:
        """The rate of all that left since the last decision: what the API can take in the long run, or less."""
        return self._left_since(self._began) / max(now - self._began, 1.0)

    def _left_since(self, since: float) -> float:
        """How many left since then, everywhere.

        Guessed from our part, and then on the high side where that is little, so that chance does not slow all down.
        """
        if len(self._left) == _MOST_COUNTED and self._left[0] >= since:
            return HIGHEST_RATE * 60
        count = 0
        for left in reversed(self._left):
            if left < since:
                break
            count += 1
        return count if self.share == 1.0 else (count + 2.0 * count**0.5 + 1.0) / self.share


def _is_refusal(status: int, retry_after: float | None) -> bool:
    return status in (429, 529) or (status == 503 and retry_after is not None)
