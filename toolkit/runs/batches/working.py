"""Work a batch off: each task once, under one limit, and after anything only what is not finished.

A run that was cut off by a kill is gone on with in its own conversation and workspace, where it had one; what it used
is charged once. A run that ended, however it ended, is not done again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.runs.batches.journal import Batch, Standing
from toolkit.runs.batches.tasks import Task
from toolkit.runs.many.batch import run_many
from toolkit.runs.outcome.fold import never_began
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.stored_runs import load_run

Make = Callable[[Task], RunSpec]
OnResult = Callable[[Task, RunResult[Any]], None]
_GO_ON = "You were interrupted. Look at what you have done so far, and go on. The task was:"


async def work_off(
    batch: Batch,
    make: Make,
    *,
    parallel: int = 4,
    usd: float | None = None,
    tokens: int | None = None,
    on_result: OnResult | None = None,
) -> dict[str, Standing]:
    """Do what is not finished, and say how every task stands then. `make` gives the spec for a task.

    `usd` and `tokens` limit the batch as a whole, from its first run on. Tasks that the limit leaves no room for wait.

    Raises:
        RunError: somebody else works on the batch, or it cannot be read.
    """
    with batch.worked_on():
        _settle(batch)
        standings = batch.standings()
        work = _Work(batch, make, on_result)
        specs = [work.spec(standing) for standing in standings.values() if standing.is_open]
        left_usd = _left(usd, sum(standing.cost[0] for standing in standings.values()))
        left_tokens = _left(tokens, sum(standing.tokens for standing in standings.values()))
        if specs and left_usd != 0 and left_tokens != 0:
            whole = None if left_tokens is None else int(left_tokens)
            await run_many(specs, concurrency=parallel, usd=left_usd, tokens=whole, on_result=work.ended)
        return batch.standings()


class _Work:
    """The runs of a batch, each with the task it is for."""

    def __init__(self, batch: Batch, make: Make, on_result: OnResult | None) -> None:
        self._batch = batch
        self._make = make
        self._on_result = on_result
        self._tasks: dict[str, Task] = {}

    def spec(self, standing: Standing) -> RunSpec:
        """The next run for a task; the journal knows of it before its prompt is sent."""
        task = standing.task
        run_id = f"{self._batch.name}.{task.id}.{len(standing.runs) + 1}"
        self._tasks[run_id] = task

        def begins(spec: RunSpec) -> None:
            self._batch.began(task.id, run_id)

        more = _going_on(standing) if standing.runs else {}
        return dataclasses.replace(self._make(task), run_id=run_id, before_run=begins, **more)

    def ended(self, result: RunResult[Any]) -> None:
        """Write down what a run came to; one that the limit left no room for waits."""
        task = self._tasks[result.run]
        if result.code == "budget" and not result.calls:
            return
        self._batch.ended(task.id, result)
        if self._on_result is not None:
            self._on_result(task, result)


def _settle(batch: Batch) -> None:
    """Write down what became of runs whose end the journal does not know: whoever worked on the batch was killed."""
    for standing in batch.standings().values():
        for run in standing.runs:
            if run not in standing.ends:
                result, lost = _found(run)
                batch.ended(standing.task.id, result, lost=lost)


def _found(run: str) -> tuple[RunResult[Any], bool]:
    try:
        stored = load_run(run)
        return stored.result(), stored.state == "crashed"
    except ToolkitError:
        return never_began(run, "crashed"), True


def _left(limit: float | None, used: float) -> float | None:
    return None if limit is None else max(0.0, limit - used)


def _going_on(standing: Standing) -> dict[str, Any]:
    """How to go on after a run that was cut off: in its conversation and workspace, where it had any."""
    try:
        stored = load_run(standing.runs[-1])
        session = stored.session if stored.so_far().calls else None
    except ToolkitError:
        session = None
    return (
        {} if session is None else {"resume": session, "workspace": None, "prompt": f"{_GO_ON} {standing.task.prompt}"}
    )
