"""`run`, `run_sync` and `start`: the three ways to begin a run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from toolkit.runs.live_run import LiveRun
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.prompts import PromptLike
from toolkit.runs.spec import RunSpec, make_spec
from toolkit.runs.storage.going_on import has_copy_of

OutputT = TypeVar("OutputT")
T = TypeVar("T")


@overload
def start(prompt: PromptLike, *, output: type[OutputT], **options: Any) -> LiveRun[OutputT]: ...
@overload
def start(prompt: PromptLike | RunSpec, **options: Any) -> LiveRun[Any]: ...
def start(prompt: PromptLike | RunSpec, **options: Any) -> LiveRun[Any]:
    """A live run: `async with start("…", …) as live: async for event in live: …`.

    The options are the fields of `RunSpec`.

    Raises:
        RunError: an option that does not exist or cannot be; nothing was started.
    """
    return LiveRun(make_spec(prompt, options))


@overload
async def run(prompt: PromptLike, *, output: type[OutputT], **options: Any) -> RunResult[OutputT]: ...
@overload
async def run(prompt: PromptLike | RunSpec, **options: Any) -> RunResult[Any]: ...
async def run(prompt: PromptLike | RunSpec, **options: Any) -> RunResult[Any]:
    """Run an agent unattended and confined, and give its result; everything it started is gone then.

    The options are the fields of `RunSpec`.

    Raises:
        ToolkitError: the run cannot be as asked; nothing was started. Whatever
            happens later is in the result's `code`.
    """
    async with LiveRun[Any](make_spec(prompt, options), looks_early=False) as live:
        await live.result()
    return await live.result()


async def run_on(prompt: PromptLike | RunSpec, *, resume: str, **options: Any) -> RunResult[Any]:
    """`run` for a conversation that says every time what it began with.

    A section that is not prepared gives way to the copy of the same mounts that the conversation worked in, if that
    is still there. Raises as `run` does.
    """
    from toolkit_workspace import WorkspaceSection

    section = options.get("workspace")
    if isinstance(section, WorkspaceSection) and not section.is_prepared:
        has_copy = await asyncio.to_thread(has_copy_of, section.mounts, resume, options.get("home"))
        options |= {"workspace": None} if has_copy else {}
    return await run(prompt, resume=resume, **options)


@overload
def run_sync(prompt: PromptLike, *, output: type[OutputT], **options: Any) -> RunResult[OutputT]: ...
@overload
def run_sync(prompt: PromptLike | RunSpec, **options: Any) -> RunResult[Any]: ...
def run_sync(prompt: PromptLike | RunSpec, **options: Any) -> RunResult[Any]:
    """`run` for code that is not async; works inside a running event loop too, which it blocks."""
    return complete(run(prompt, **options))


def complete(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, from code that is not async; also where a loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # A loop is running in this thread and cannot be entered again: the run gets a thread and a loop of its own.
    answer: list[T] = []
    failure: list[BaseException] = []
    under_way: list[Callable[[], object]] = []

    async def cancellable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        under_way.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    def elsewhere() -> None:
        try:
            answer.append(asyncio.run(cancellable()))
        except BaseException as error:
            failure.append(error)
        finally:
            over.set()

    over = threading.Event()  # a thread that was waited for when Ctrl-C came cannot be waited for again
    threading.Thread(target=elsewhere, name="toolkit-run").start()
    try:
        over.wait()
    except BaseException:  # Ctrl-C: nothing goes on behind the caller's back
        for cancel in under_way:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                cancel()
        over.wait()
        raise
    if failure:
        raise failure[0]
    return answer[0]
