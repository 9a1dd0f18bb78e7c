"""In which order the tasks of a batch are begun.

The higher priority first. Among equals, tasks that share the beginning of their prompt (model, system text) one after
the other, because the model API keeps that in its cache for minutes only. Among these, as they stand in the file.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from toolkit.errors import RunError
from toolkit.runs.batches.standing import Standing
from toolkit.runs.batches.tasks import HIGHEST_PRIORITY, Task

Wish = tuple[str, int]
"""Tasks by a pattern of their ids, and the priority they are to have."""


def in_order(standings: Iterable[Standing], wishes: Sequence[Wish] = ()) -> list[Standing]:
    """The tasks in the order in which they are begun."""
    kinds: dict[tuple[str | None, str | None], int] = {}
    placed = []
    for number, standing in enumerate(standings):
        task = standing.task
        kind = kinds.setdefault((task.model, task.system), len(kinds))
        placed.append((-priority_of(task, wishes), kind, number, standing))
    return [standing for *_, standing in sorted(placed, key=lambda place: place[:3])]


def priority_of(task: Task, wishes: Sequence[Wish] = ()) -> int:
    """The priority of a task: the last wish that is about it, or its own."""
    found = [priority for pattern, priority in wishes if fnmatch.fnmatchcase(task.id, pattern)]
    return found[-1] if found else task.priority


def read_wishes(texts: Iterable[str], tasks: Sequence[Task]) -> list[Wish]:
    """What people write as a priority: `ID=5`, a pattern of ids in place of the id, or `5` for all tasks.

    Raises:
        RunError: it is no such text, or about no task.
    """
    wishes = []
    for text in texts:
        pattern, equals, number = text.rpartition("=")
        pattern = pattern if equals else "*"
        try:
            priority = int(number)
        except ValueError:
            priority = HIGHEST_PRIORITY + 1
        if not pattern or abs(priority) > HIGHEST_PRIORITY:
            raise RunError(
                f"'{text}' is no priority",
                fix=f"Write ID=5, 'docs-*=5', or 5 for all tasks; from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}",
            )
        if not any(fnmatch.fnmatchcase(task.id, pattern) for task in tasks):
            raise RunError(f"the priority '{text}' is about no task", fix="See the ids: toolkit batch show NAME --json")
        wishes.append((pattern, priority))
    return wishes
