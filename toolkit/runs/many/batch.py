"""`run_many`: many runs side by side, in order, under one spend limit.

Runs do not disturb one another: whatever becomes of one is in its result. They
share this process, or the workers of an executor: a process pool, or any engine
with the interface of `concurrent.futures`, such as a Dask client's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from typing import Any, ParamSpec, TypeVar

from toolkit.errors import RunError, ToolkitError
from toolkit.runs.kinds import called_with, check_names, wrong
from toolkit.runs.listeners import answer_of
from toolkit.runs.many.lifeline import Lifeline
from toolkit.runs.many.purse import Purse
from toolkit.runs.many.workers import Workers, has_started, run_here
from toolkit.runs.outcome.fold import never_began
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.prompts import Prompt
from toolkit.runs.spec import Limits, RunSpec, make_spec

_log = logging.getLogger("toolkit.runs")

OnResult = Callable[[RunResult[Any]], Awaitable[None] | None]


P = ParamSpec("P")
T = TypeVar("T")


def _names_in_words(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same function; an option's name that it does not have is answered with the right one."""
    known = list(inspect.signature(function).parameters)
    of_a_run = {one.name: f"RunSpec(prompt, {one.name}=…) for each run" for one in dataclasses.fields(RunSpec)}
    of_a_run |= {
        one.name: f"RunSpec(prompt, limits=Limits({one.name}=…)) for each run" for one in dataclasses.fields(Limits)
    }
    at_once = dict.fromkeys(("workers", "max_workers", "parallel", "jobs"), "concurrency=…")
    meant = {
        **of_a_run,
        **at_once,
        "limits": "usd=… or tokens=… for all runs together, or RunSpec(prompt, limits=…) for each",
    }

    @functools.wraps(function)
    async def checked(*args: P.args, **options: P.kwargs) -> T:
        check_names("run_many", options, known, {name: meant[name] for name in meant if name not in known})
        return await function(*args, **options)

    return checked


@_names_in_words
async def run_many(
    specs: Iterable[RunSpec | Prompt | str],
    *,
    concurrency: int = 4,
    on_result: OnResult | None = None,
    usd: float | None = None,
    tokens: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
) -> list[RunResult[Any]]:
    """Run all the specs, `concurrency` at a time, and give their results in the same order.

    A run that fails, also before it starts, is a result like any other. `on_result`
    gets each result as it comes; what it raises is logged. Cancelling ends all runs.

    `usd` and `tokens` limit all runs together. Each run gets a fair part of what is
    left as its own limit, and what it does not use goes back; when all is used up,
    the runs that have not started get the code `budget`. Each run ends after the
    model call that passes its part, so that call is the most it can be over.

    With an `executor` each run is done by a worker. With a function that makes an
    executor each of the `concurrency` places has one of its own, and gets a fresh one
    when it breaks: `functools.partial(ProcessPoolExecutor, 1)` loses one run when a
    worker is killed. In one pool for all, the runs under way are lost together.

    Raises:
        RunError: a list, a limit, a concurrency or an executor that cannot be; nothing was started.
    """
    _check(specs, concurrency, on_result, executor)
    limit = Limits(usd=usd, tokens=tokens)
    asked = _read_all(specs)
    runs = sum(isinstance(spec, RunSpec) for spec in asked)
    batch = _Batch(asked, Purse(limit, places=concurrency, runs=runs), on_result)
    async with AsyncExitStack() as stack:
        line = None if executor is None else (await stack.enter_async_context(Lifeline())).line
        places: list[Workers | None] = [None] * min(concurrency, len(asked))
        if line is not None and executor is not None and places:
            shared = Workers(executor, line)
            shared.open()  # outside the group, which would wrap what it raises
            others = [shared if isinstance(executor, Executor) else Workers(executor, line) for _ in places[1:]]
            places = [shared, *others]
        async with asyncio.TaskGroup() as group:
            for place in places:
                group.create_task(batch.work_off(place))
    return [batch.results[index] for index in range(len(asked))]


class _Batch:
    """The runs there are to do, and what has become of them."""

    def __init__(self, asked: list[RunSpec | RunResult[Any]], purse: Purse, on_result: OnResult | None) -> None:
        self.results: dict[int, RunResult[Any]] = {}
        self._todo = iter(enumerate(asked))
        self._purse = purse
        self._on_result = on_result

    async def work_off(self, workers: Workers | None) -> None:
        """Do one run after the other until there are no more: there is one of these for every place."""
        try:
            for index, spec in self._todo:
                result = spec if isinstance(spec, RunResult) else await self._one(spec, workers)
                self.results[index] = result
                await self._tell(result)
        except asyncio.CancelledError:
            if workers is not None:
                await workers.close(wait=False)  # the end of the lifeline ends what they do
            raise
        if workers is not None:
            await workers.close(wait=True)

    async def _one(self, spec: RunSpec, workers: Workers | None) -> RunResult[Any]:
        limits = await self._purse.take(spec.run_id, spec.limits)
        if limits is None:
            why = "the limit of all runs together was used up before it started"
            return never_began(spec.run_id, "budget", why)
        bounded = dataclasses.replace(spec, limits=limits)
        result, is_known = (await run_here(bounded), True) if workers is None else await workers.run(bounded)
        await self._purse.give_back(spec.run_id, result, is_known=is_known)
        return result

    async def _tell(self, result: RunResult[Any]) -> None:
        if self._on_result is None:
            return
        try:
            await answer_of(self._on_result, result)
        except Exception:
            _log.exception("on_result failed on run %s", result.run)


def _check(specs: Any, concurrency: Any, on_result: Any, executor: Any) -> None:
    if isinstance(specs, str | bytes | RunSpec | Prompt | Mapping) or not isinstance(specs, Iterable):
        fix = "Write run_many([first, second]), or run(…) for one"
        raise wrong("specs", specs, "it is a list of prompts or specs", fix)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise wrong("concurrency", concurrency, "it is a whole number above zero")
    if on_result is not None:
        called_with("the result", "on_result=lambda result: print(result.code)")("on_result", on_result)
    if executor is not None and not isinstance(executor, Executor) and not callable(executor):
        fix = "Write for example: functools.partial(ProcessPoolExecutor, 1)"
        raise wrong("executor", executor, "it is an executor, or a function that makes one", fix)


def _read_all(specs: Iterable[RunSpec | Prompt | str]) -> list[RunSpec | RunResult[Any]]:
    """The specs; in place of one that cannot be, its result."""
    asked: list[RunSpec | RunResult[Any]] = []
    taken: set[str] = set()
    for number, given in enumerate(specs, 1):
        try:
            spec = make_spec(given, {})
            if spec.run_id in taken or has_started(spec):
                raise RunError(f"there is a run '{spec.run_id}' already", fix="Leave run_id out, or choose another")
        except ToolkitError as error:
            asked.append(never_began(getattr(given, "run_id", f"spec-{number}"), error))
            continue
        taken.add(spec.run_id)
        asked.append(spec)
    return asked
