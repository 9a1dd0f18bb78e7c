"""How a task stands: the runs that were begun for it, what each came to, and what is left to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolkit.runs.batches.tasks import Task
from toolkit.runs.outcome.result import RunResult

MOST_LOSSES = 2
"""Runs that a task may lose with whoever did them: it may be the cause."""


@dataclass(slots=True)
class Standing:
    """How a task stands."""

    task: Task
    most_losses: int = MOST_LOSSES
    runs: list[str] = field(default_factory=list)
    """The runs that were begun for it, the latest last."""
    begins: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the journal says of their beginnings: who claimed the task, when it began, and where."""
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each of them came to, as far as it is known."""
    used: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each of them had used when that was told last."""
    again: frozenset[str] = frozenset()
    """The runs of the batch after which somebody wants another."""

    promised: dict[str, float] = field(default_factory=dict)
    """The part of the batch's limit that its next run may use."""
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each of its runs was promised."""

    def hear(self, said: dict[str, Any]) -> None:
        """Take a line of the journal in."""
        if "promised" in said:
            self.promised = dict(said["promised"])
            return
        run = str(said["run"])
        self.parts.setdefault(run, self.promised)
        if run not in self.runs:
            self.runs.append(run)
        if "claimed" in said or "began" in said:
            self.begins[run] = {**said, **self.begins.get(run, {})}
        if "again" in said:
            self.again |= {run}
        if "used" in said:
            self.used[run] = said["used"]
        if "released" in said:  # nothing was done
            self.runs.remove(run)
            self.begins.pop(run, None)
            self.used.pop(run, None)
        if "ended" in said:
            self.ends[run] = said

    @property
    def number(self) -> int:
        """The number of its latest run; 0 where there is none."""
        last = self.runs[-1].rpartition(".")[2] if self.runs else "0"
        return int(last) if last.isdigit() else len(self.runs)

    @property
    def after(self) -> int:
        """The number of the last of its runs after which somebody wanted another: they count no longer; 0 for none."""
        wanted = (run.rpartition(".")[2] for run in self.runs if run in self.again)
        return max((int(last) for last in wanted if last.isdigit()), default=0)

    def is_elsewhere(self, run: str) -> bool:
        """Whether a run was begun by a worker of a cluster, and nobody knows of its end."""
        return run not in self.ends and "worker" in self.begins.get(run, {})

    @property
    def losses(self) -> int:
        """How many of them were cut off, with whoever did them, since it was last wanted again."""
        count = 0
        for run in self.runs:
            count = 0 if run in self.again else count + bool(self.ends.get(run, {}).get("lost"))
        return count

    @property
    def begins_anew(self) -> bool:
        """Whether its next run begins from the start: it has had none, or has ended and somebody wants it again."""
        return not self.runs or (self.runs[-1] in self.again and self.runs[-1] in self.ends)

    @property
    def is_open(self) -> bool:
        """Whether something is left to do. What was cut off too often is set aside: it may be the cause."""
        if self.begins_anew:
            return True
        end = self.ends.get(self.runs[-1])
        return end is None or (bool(end.get("lost")) and self.losses < self.most_losses)

    @property
    def state(self) -> str:
        """`waiting`, `claimed`, `running`, `lost` (to be done again), or how it ended."""
        if self.begins_anew:
            return "waiting"
        end = self.ends.get(self.runs[-1])
        if end is None:
            return "running" if "began" in self.begins.get(self.runs[-1], {}) else "claimed"
        return "lost" if self.is_open else str(end["code"])

    @property
    def cost(self) -> tuple[float, bool]:
        """The dollars that are known of all its runs, and whether that is all."""
        ends = list(self.ends.values())
        whole = all(end["cost"] is not None for end in ends) and len(ends) == len(self.runs)
        known = sum(end["known_cost"] if end["cost"] is None else end["cost"] for end in ends)
        return known + sum(used.get("known_cost", 0.0) for used in self._under_way()), whole

    @property
    def tokens(self) -> int:
        """The tokens of all its runs; calls under way, and those cut off, with what they may have come to."""
        return sum(int(end["tokens"]) for end in self.ends.values()) + sum(map(charged, self._under_way()))

    def charged(self, name: str) -> float:
        """What its runs are charged with, in `usd` or `tokens`: where that is not known, all they were promised."""
        whole = 0.0
        for run in self.runs:
            part, end = self.parts.get(run, {}).get(name, 0.0), self.ends.get(run)
            if end is None:
                told = self.used.get(run, {})
                used, is_known = (charged(told) if name == "tokens" else told.get("known_cost", 0.0)), False
            elif name == "tokens":
                used, is_known = end["tokens"], not end.get("lost") or not end.get("unknown_calls", 1)
            else:
                used, is_known = end["known_cost"] if end["cost"] is None else end["cost"], end["cost"] is not None
            whole += used if is_known else max(used, part)
        return whole

    @property
    def estimated(self) -> int:
        """The part of the tokens that nobody told: of calls that were cut off."""
        return sum(end.get("estimated", 0) for end in self.ends.values())

    @property
    def unknown_calls(self) -> int:
        """Model calls that were cut off, so that what they cost is not known."""
        return sum(end.get("unknown_calls", 0) for end in self.ends.values())

    def _under_way(self) -> list[dict[str, Any]]:
        return [used for run, used in self.used.items() if run not in self.ends]


def charged(used: dict[str, Any]) -> int:
    """The tokens that a run is charged with: calls under way with what they may come to."""
    return int(used.get("tokens", 0)) + sum(most or 0 for most in used.get("open", {}).values())


def end_of(result: RunResult[Any]) -> dict[str, Any]:
    """What the journal keeps of a result."""
    facts: dict[str, Any] = {"code": result.code, "tokens": result.total.total, "cost": result.cost}
    facts |= {"known_cost": result.known_cost, "cause": result.cause, "verified": result.verified}
    return facts | {"calls": len(result.calls)}


def lost_end(used: dict[str, Any] | None, told: dict[str, Any] | None = None) -> dict[str, Any]:
    """The end of a run that was cut off: what is not known is not 0.

    `used` is what was told of it last, `told` what its own folder says, where that was found. A call that neither knows
    the end of is charged with what it may have come to.
    """
    known, found = used or {}, told or {}
    settled = max(0, int(found.get("calls", 0)) - int(known.get("calls", 0)))  # ended, and nobody heard of it
    under_way = list(known.get("open", {}).values())[settled:]
    estimated = sum(most or 0 for most in under_way)
    facts: dict[str, Any] = {"code": "crashed", "cost": None, "verified": None, "lost": True}
    facts |= {"cause": found.get("cause") or "Its worker was lost before it came to its end."}
    facts["tokens"] = max(int(known.get("tokens", 0)), int(found.get("tokens", 0))) + estimated
    facts["known_cost"] = max(float(known.get("known_cost", 0.0)), float(found.get("known_cost", 0.0)))
    return facts | {"estimated": estimated, "unknown_calls": len(under_way)}
