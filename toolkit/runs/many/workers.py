"""Runs in the workers of a `concurrent.futures.Executor`: sent, done there, and never lost in silence.

A run is done at most once: one that had started when its worker died is `crashed`,
also where the executor starts it again by itself. One that had not started is
given to a fresh executor, where there is a way to make one. What a worker of another
machine had begun cannot be seen from here, so there a lost run may have started.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import multiprocessing
import os
import pickle
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from toolkit.errors import RunError
from toolkit.runs.kinds import shown, wrong
from toolkit.runs.launch import complete, run
from toolkit.runs.many.lifeline import CallerGoneError, Line, hold_on
from toolkit.runs.outcome.cause import cause_of
from toolkit.runs.outcome.fold import never_began
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.run_folder import runs_home
from toolkit.runs.storage.stored_runs import StoredRun

_LOST = "WorkerLost"
_TRIES = 2
"""A spec that takes its worker down before it starts is not sent for ever."""


async def run_here(spec: RunSpec) -> RunResult[Any]:
    """`run`, with a result also where it raises."""
    try:
        return await run(spec)
    except Exception as error:
        return never_began(spec.run_id, error)


def work(payload: RunSpec | bytes, run_id: str, line: Line, filled: Sequence[str] = ()) -> RunResult[Any] | bytes:
    """Do one run: what a worker is asked to do. `filled` are the mounts that held something where it was asked for.

    Both ways it is pickled here and not by the executor, where a failure could take others with it.
    """
    try:
        spec: RunSpec = pickle.loads(payload) if isinstance(payload, bytes) else payload
    except Exception as error:
        return never_began(run_id, RunError(f"the spec cannot be read here: {type(error).__name__}: {error}"))
    missing = [path for path in filled if not _holds_something(path)]
    if missing:
        return never_began(run_id, _not_here(missing))
    if has_started(spec):
        return lost(spec, "its first worker died, and another one was asked to do it again")
    try:
        result = complete(hold_on(line, run_here(spec)))
    except CallerGoneError:
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            os._exit(1)  # a process pool's worker would wait for ever for a caller that was killed
        return never_began(run_id, "aborted", "the caller is gone")
    try:
        return pickle.dumps(result)
    except Exception:
        return result


class Workers:
    """One executor, or a way to make one that is used again when the executor breaks."""

    def __init__(self, executor: Executor | Callable[[], Executor], line: Line) -> None:
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else None
        self._line = line
        importlib.import_module("claude_agent_sdk")  # workers that are forked from here have it

    @property
    def _is_here(self) -> bool:
        """Whether the workers, if there are any, are processes here, so that every run they began can be seen."""
        return self._executor is None or isinstance(self._executor, ProcessPoolExecutor | ThreadPoolExecutor)

    def open(self) -> Executor:
        """The executor, made now where there is none.

        Raises:
            OptionError: the function that makes one does not.
        """
        if self._executor is None:
            assert self._make is not None
            fix = "Write for example: functools.partial(ProcessPoolExecutor, 1)"
            try:
                made = self._make()
            except Exception as error:
                what = f"it makes no executor, it raises {type(error).__name__}: {error}"
                raise wrong("executor", self._make, what, fix) from error
            if not all(callable(getattr(made, method, None)) for method in ("submit", "shutdown")):
                raise wrong("executor", self._make, f"it makes no executor, but {shown(made)}", fix)
            self._executor = made
        return self._executor

    async def run(self, spec: RunSpec) -> tuple[RunResult[Any], bool]:
        """The result, and whether it is known what the run used."""
        packed = _packed(spec)
        filled = await asyncio.to_thread(_filled, spec)
        error = ""
        for _ in range(_TRIES if self._make is not None else 1):
            answer = await self._send(spec if packed is None else packed, spec.run_id, filled)
            if isinstance(answer, RunResult):
                return answer, answer.code != "crashed" or answer.debug.get("error") != _LOST
            error = f"{type(answer).__name__}: {answer}"
            is_here = self._is_here
            await self.close(wait=False)
            if packed is None and isinstance(answer, pickle.PicklingError | TypeError | AttributeError):
                return never_began(spec.run_id, RunError(f"the spec cannot be sent: {error}")), True
            if has_started(spec):
                result = lost(spec, error)
                return result, result.code != "crashed"
            if not is_here:
                return lost(spec, f"{error}; whether it had started cannot be seen from here"), False
        fix = "" if self._make is not None else "; with a function that makes one, a fresh one would be used"
        return lost(spec, f"it never started: {error}{fix}"), True

    async def _send(self, payload: RunSpec | bytes, run_id: str, filled: Sequence[str]) -> RunResult[Any] | Exception:
        """The result, or why the executor has none."""
        try:
            answer = await asyncio.wrap_future(self.open().submit(work, payload, run_id, self._line, filled))
            result: RunResult[Any] = pickle.loads(answer) if isinstance(answer, bytes) else answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return RuntimeError(f"the executor cancelled it: {error}")
        except Exception as error:
            return error
        return result

    async def close(self, *, wait: bool) -> None:
        """Shut down an executor that was made here; one that was given belongs to the caller."""
        if self._make is not None and self._executor is not None:
            executor, self._executor = self._executor, None
            await asyncio.to_thread(executor.shutdown, wait=wait, cancel_futures=True)


def lost(spec: RunSpec, why: str) -> RunResult[Any]:
    """The result of a run whose worker is gone: what it stored until then, where this machine can read it."""
    try:
        result = StoredRun(runs_home(spec.home) / spec.run_id).so_far()
    except (RunError, OSError):
        result = never_began(spec.run_id, "crashed")
    debug = {**result.debug, "error": _LOST, "detail": why}
    return dataclasses.replace(result, cause=cause_of("crashed", debug), debug=debug)


def has_started(spec: RunSpec) -> bool:
    """Whether there is a run of this id, as far as this machine knows."""
    return (runs_home(spec.home) / spec.run_id).exists()


def _filled(spec: RunSpec) -> list[str]:
    """The mounts that hold something here: an empty folder elsewhere is not the same project."""
    mounts = getattr(spec.workspace, "mounts", ())
    return [path for mount in mounts if _holds_something(path := str(Path(mount.host_path).absolute()))]


def _holds_something(path: str) -> bool:
    try:
        return any(Path(path).iterdir())
    except NotADirectoryError:
        return True
    except OSError:
        return False


def _not_here(missing: Sequence[str]) -> RunError:
    return RunError(
        f"the worker on {platform.node()} does not have what the run works on",
        where=[f"{path} is empty or not there" for path in missing],
        fix="Mount the same files there, or use workers that have them",
    )


def _packed(spec: RunSpec) -> bytes | None:
    """The spec as bytes; None where only the executor itself may know how to send it."""
    try:
        return pickle.dumps(spec)
    except Exception:
        return None
