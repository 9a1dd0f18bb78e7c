"""Work a batch off: each task once, under one limit, and after anything only what is not finished.

A run that was cut off by a kill is gone on with in its own conversation and workspace, where it had one; what it used
is charged once. A run that ended, however it ended, is not done again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from toolkit.errors import RunError, ToolkitError
from toolkit.runs.batches.committing import GroupCommit
from toolkit.runs.batches.journal import Batch
from toolkit.runs.batches.order import Wish, in_order
from toolkit.runs.batches.standing import Standing
from toolkit.runs.batches.tasks import Task
from toolkit.runs.many.purse import Purse
from toolkit.runs.many.workers import run_here
from toolkit.runs.outcome.fold import never_began
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.spec import Limits, RunSpec
from toolkit.runs.storage.run_folder import runs_home
from toolkit.runs.storage.stored_run import StoredRun

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
    wishes: Sequence[Wish] = (),
) -> dict[str, Standing]:
    """Do what is not finished, and say how every task stands then. `make` gives the spec for a task.

    `usd` and `tokens` limit the batch as a whole, from its first run on. Tasks that the limit leaves no room for wait.
    `wishes` are priorities in place of the tasks' own.

    Raises:
        RunError: somebody else works on the batch, or it cannot be read.
    """
    with batch.worked_on():
        batch.check_store(None)
        settle(batch)
        standings = batch.standings()
        todo = [standing for standing in standings.values() if standing.is_open]
        while todo:
            left = left_of(standings.values(), usd, tokens)
            if left is None:
                break
            todo = in_order(todo, wishes)
            purse = Purse(left, places=parallel, runs=len(todo))
            with ungrouped():
                async with asyncio.TaskGroup() as group:
                    work = _Work(batch, make, on_result, purse, iter(todo), group)
                    for _ in range(min(parallel, len(todo))):
                        group.create_task(work.one_after_the_other())
            before = {standing.task.id: len(standing.runs) for standing in todo}
            standings = batch.standings()  # somebody may want tasks again meanwhile
            todo = [one for one in standings.values() if one.is_open and len(one.runs) > before.get(one.task.id, 0)]
        return batch.standings()


@contextmanager
def ungrouped() -> Iterator[None]:
    """Let an error out as it is, one of ours before others, and not as one of a group."""
    try:
        yield
    except BaseExceptionGroup as errors:
        raise _first(errors.subgroup(ToolkitError) or errors) from None


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    one: BaseException = errors.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one


class _Work:
    """The tasks that are left, and what is done about them. A spec is made when its turn has come."""

    def __init__(
        self,
        batch: Batch,
        make: Make,
        on_result: OnResult | None,
        purse: Purse,
        todo: Iterator[Standing],
        group: asyncio.TaskGroup,
    ) -> None:
        self._batch = batch
        self._make = make
        self._on_result = on_result
        self._purse = purse
        self._todo = todo
        self._group = group
        self._disk = GroupCommit(batch)

    async def one_after_the_other(self) -> None:
        """Do one task after the other until there are no more: there is one of these for every place."""
        for standing in self._todo:
            task, run_id = standing.task, f"{self._batch.name}.{standing.task.id}.{standing.number + 1}"
            try:
                spec = self._make(task)
            except ToolkitError as error:  # a model that cannot be, say: the others go on
                self._ended(task, never_began(run_id, error))
                continue
            limits = await self._purse.take(run_id, spec.limits)
            if limits is None:
                return  # what the limit leaves no room for waits
            if self._purse.is_limited:
                self._batch.promise(task.id, limits)
            more = {} if standing.begins_anew else going_on(standing.runs[-1], task.prompt)
            options = {"run_id": run_id, "limits": limits, "before_run": self._begins(task, run_id), **more}
            result = await run_here(dataclasses.replace(spec, **options))
            await self._purse.give_back(run_id, result, is_known=True)
            self._ended(task, result)

    def _begins(self, task: Task, run_id: str) -> Callable[[RunSpec], Awaitable[None]]:
        """The journal knows of a run before its prompt is sent; the others go on while the disk is waited for."""

        async def begins(spec: RunSpec) -> None:
            await self._disk.synced(self._batch.began(task.id, run_id))

        return begins

    def _ended(self, task: Task, result: RunResult[Any]) -> None:
        """Write down what a run came to; one that the limit left no room for waits."""
        if result.code == "budget" and not result.calls:
            return
        mark = self._batch.ended(task.id, result)
        self._group.create_task(self._tell(task, result, mark))

    async def _tell(self, task: Task, result: RunResult[Any], mark: int) -> None:
        """Tell of a result as soon as it is on the disk."""
        await self._disk.synced(mark)
        if self._on_result is not None:
            self._on_result(task, result)


def left_of(standings: Iterable[Standing], usd: float | None, tokens: int | None) -> Limits | None:
    """What a limit for the whole batch leaves after what was used, or may have been; None where that is nothing."""
    known = list(standings)
    left_usd = _left(usd, sum(standing.charged("usd") for standing in known))
    left_tokens = _left(tokens, sum(standing.charged("tokens") for standing in known))
    if left_usd == 0 or left_tokens == 0:
        return None
    return Limits(usd=left_usd, tokens=None if left_tokens is None else int(left_tokens))


def settle(batch: Batch) -> None:
    """Write down what became of runs whose end the journal does not know: whoever worked on the batch was killed.

    Raises:
        RunError: one of them is on a cluster, where it may still go on.
    """
    elsewhere = [run for one in batch.standings().values() for run in one.runs if one.is_elsewhere(run)]
    if elsewhere:
        raise RunError(
            f"runs of the batch '{batch.name}' are on the workers of a cluster",
            where=elsewhere[:5],
            fix="Go on there: --resume --cluster ADDRESS",
        )
    for standing in batch.standings().values():
        for run in standing.runs:
            if run not in standing.ends:
                result, lost = found(run)
                batch.sync(batch.ended(standing.task.id, result, lost=lost))


def found(run: str) -> tuple[RunResult[Any], bool]:
    """What became of a run, as far as this machine knows, and whether it was cut off."""
    try:
        stored = _stored(run)
        return stored.result(), stored.state == "crashed"
    except ToolkitError:
        return never_began(run, "crashed"), True


def _left(limit: float | None, used: float) -> float | None:
    return None if limit is None else max(0.0, limit - used)


def going_on(run: str, prompt: str) -> dict[str, Any]:
    """How to go on after a run that was cut off: in its conversation and workspace, where it had any."""
    try:
        stored = _stored(run)
        session = stored.session if stored.so_far().calls else None
    except ToolkitError:
        session = None
    return {} if session is None else {"resume": session, "workspace": None, "prompt": f"{_GO_ON} {prompt}"}


def _stored(run: str) -> StoredRun:
    """The run of just this id; raises RunError where there is none."""
    stored = StoredRun(runs_home() / run)
    stored.facts  # noqa: B018  (what cannot be read is said here, not later)
    return stored
