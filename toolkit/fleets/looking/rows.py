"""What is shown of a batch: one row a task, and the sums over them. What is not known is None, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Group = Literal["running", "waiting", "ok", "failed"]
GROUPS: tuple[Group, ...] = ("running", "waiting", "ok", "failed")
_WAITING = ("waiting", "lost", "cut off")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task as it stands."""

    task: str
    prompt: str
    state: str
    """`waiting`, `claimed`, `running`, `cut off` (nobody does it any more), `lost` (to be done again) or its end."""
    runs: tuple[str, ...] = ()
    """The runs that were begun for it, the latest last."""
    machine: str | None = None
    """Where its latest run is done, or was."""
    worker: str | None = None
    """The worker of a cluster that does its latest run, or did; None where that is no worker."""
    turns: int | None = None
    """Model calls of its latest run; None where that is not known, or was not looked up."""
    tokens: int | None = 0
    """Tokens of all its runs so far."""
    cost: float | None = None
    """Dollars of all its runs; None where not all is known."""
    known_cost: float = 0.0
    """The part of the dollars that is known."""
    began: float | None = None
    """When its latest run began, in seconds since the epoch."""
    ended: float | None = None
    cause: str | None = None
    verified: bool | None = None
    doing: str | None = None
    """What its run does right now: the tool under way."""

    @property
    def run(self) -> str | None:
        """Its latest run."""
        return self.runs[-1] if self.runs else None

    @property
    def group(self) -> Group:
        """Whether it is running, waits for a run, is done well, or is done and failed."""
        if self.state in ("running", "claimed"):
            return "running"
        if self.state in _WAITING:
            return "waiting"
        return "ok" if self.state == "ok" else "failed"

    def age(self, now: float) -> float | None:
        """Seconds since its latest run began, until that ended."""
        return None if self.began is None else max(0.0, (self.ended or now) - self.began)

    def to_json(self) -> dict[str, Any]:
        """The row as plain values."""
        return {**asdict(self), "runs": list(self.runs), "group": self.group}


@dataclass(frozen=True, slots=True)
class BatchView:
    """A whole batch at one moment."""

    name: str
    rows: tuple[TaskRow, ...]
    is_worked_on: bool
    """Whether somebody works on it now."""
    at: float
    """When it was looked at."""

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks there are in each group."""
        found = Counter(row.group for row in self.rows)
        return {group: found[group] for group in GROUPS}

    @property
    def states(self) -> dict[str, int]:
        """How many tasks there are in each state, the most first."""
        return dict(Counter(row.state for row in self.rows).most_common())

    @property
    def cost(self) -> float | None:
        """Dollars of all runs; None where not all is known."""
        return self.known_cost if all(row.cost is not None for row in self._begun()) else None

    @property
    def known_cost(self) -> float:
        """The dollars that are known."""
        return sum(row.known_cost for row in self.rows)

    @property
    def tokens(self) -> int:
        """The tokens that are known."""
        return sum(row.tokens or 0 for row in self.rows)

    @property
    def began(self) -> float | None:
        """When the first run that is known began."""
        return min((row.began for row in self.rows if row.began is not None), default=None)

    @property
    def ended(self) -> float | None:
        """When the last run ended; None while something is left to do."""
        if any(row.group in ("running", "waiting") for row in self.rows):
            return None
        return max((row.ended for row in self.rows if row.ended is not None), default=None)

    def _begun(self) -> Iterable[TaskRow]:
        return (row for row in self.rows if row.runs)

    def to_json(self) -> dict[str, Any]:
        """The view as plain values."""
        return {
            "batch": self.name,
            "at": self.at,
            "worked_on": self.is_worked_on,
            **{name: getattr(self, name) for name in ("counts", "states", "cost", "known_cost", "tokens")},
            **{name: getattr(self, name) for name in ("began", "ended")},
            "tasks": [row.to_json() for row in self.rows],
        }
