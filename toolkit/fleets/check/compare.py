"""Two machines compared: what differs is named, and refused where the results of runs would differ."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.fleets.check.about import About

_SILENT = "it says nothing of itself: is the toolkit installed there?"


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether a worker may do runs of a batch, and what was found."""

    refused: tuple[str, ...] = ()
    """Why it may not."""
    remarks: tuple[str, ...] = ()
    """What is different and does not matter."""

    @property
    def ok(self) -> bool:
        """Whether it may."""
        return not self.refused

    def line(self, worker: str) -> str:
        """One line about a worker."""
        said = "; ".join((*self.refused, *self.remarks))
        return f"{worker}: {'refused: ' if self.refused else ''}{said or 'ok'}"


def compare(mine: About, theirs: About | None, *, confined: bool = True, needs_key: bool = True) -> Fitness:
    """Whether a worker would do a run as this machine would. `needs_key`: it has to have a credential of its own."""
    if theirs is None:
        return Fitness((_SILENT,))
    refused: list[str] = []
    remarks: list[str] = []
    for name, word in (("toolkit", "toolkit"), ("cli", "CLI"), ("sdk", "claude-agent-sdk")):
        here, there = getattr(mine, name), getattr(theirs, name)
        if here != there:
            refused.append(f"{word} {there}, here {here}")
    if mine.python != theirs.python:
        is_near = mine.python.split(".")[:2] == theirs.python.split(".")[:2]
        (remarks if is_near else refused).append(f"Python {theirs.python}, here {mine.python}")
    if confined and theirs.jail is not None:
        refused.append(f"no run can be confined there: {theirs.jail}")
    if confined and needs_key and not theirs.key:
        refused.append("there is no key for the model API in its environment")
    if theirs.home is not None:
        refused.append(f"no run can be stored there: {theirs.home}")
    return Fitness(tuple(refused), tuple(remarks))
