"""Run the caller's check on a trial and say what came of it; whatever cannot be judged has not passed."""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.runs.attempts.protect import Protected
from toolkit.runs.attempts.trial import Trial, TrialError, tail_of, trial_of
from toolkit.runs.job.verify import Verify
from toolkit.runs.listeners import in_a_thread, on_its_own
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place
from toolkit.tools import Deadline, Tool, ToolContext, in_call


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a verification came to."""

    passed: bool
    output: str = ""
    exit_code: int | None = None
    """Of a command; None where a function or a tool judged."""
    ended_by: str | None = None
    """`deadline`, or the limit of the machine that it was ended for."""
    error: str | None = None
    """Why nothing could be judged: that is not the agent's to mend."""
    ms: int = 0


async def judge(spec: RunSpec, place: Place, protected: Protected, home: Path, deadline: Deadline | None) -> Judgement:
    """Verify what is in the place now, within the verification's own time and the run's.

    Nothing of the agent may be alive.
    """
    assert spec.verify is not None
    began = time.monotonic()
    seconds = spec.verify.deadline if deadline is None else min(spec.verify.deadline, deadline.remaining())
    try:
        async with trial_of(spec, place, protected, home) as trial:
            found = await _checked(spec.verify, trial, seconds)
    except TrialError as error:
        found = Judgement(False, error.what)
    except ToolkitError as error:
        found = Judgement(False, error=str(error))
    return _with_ms(found, began)


def _with_ms(found: Judgement, began: float) -> Judgement:
    ms = round((time.monotonic() - began) * 1000)
    return Judgement(found.passed, found.output, found.exit_code, found.ended_by, found.error, ms)


async def _checked(verify: Verify, trial: Trial, seconds: float) -> Judgement:
    if isinstance(verify.check, str):
        ran = await trial.arun(verify.check, seconds=seconds)
        return Judgement(ran.passed, ran.output, ran.exit_code, ran.ended_by)
    try:
        async with asyncio.timeout(seconds):
            check = verify.check
            answer = await on_its_own(_by_tool(check, trial) if isinstance(check, Tool) else _by(verify, trial))
    except TimeoutError:
        return Judgement(False, f"It took longer than {seconds:g} s.", ended_by="deadline")
    except Exception as error:
        said = str(error)
        return Judgement(False, tail_of(f"{type(error).__name__}: {said}" if said else repr(error), verify.max_output))
    return _of_answer(answer, verify)


async def _by(verify: Verify, trial: Trial) -> Any:
    check: Any = verify.check
    is_async = inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(getattr(check, "__call__", None))  # noqa: B004
    answer = check(trial) if is_async else await in_a_thread(check, trial)
    return await answer if inspect.isawaitable(answer) else answer


async def _by_tool(tool: Tool[..., Any], trial: Trial) -> Any:
    """What the tool's function gives, with the copy as its workspace."""
    given: list[Any] = []
    context = ToolContext(workspace=trial.folder)
    with in_call(context):
        values: dict[str, Any] = dict(tool.arguments.parse({}))
    if tool.arguments.context_parameter is not None:
        values[tool.arguments.context_parameter] = context
    answer = tool.function(**values) if tool.is_async else await in_a_thread(lambda: tool.function(**values))
    given.append(await answer if inspect.isawaitable(answer) else answer)
    return given[0]


def _of_answer(answer: Any, verify: Verify) -> Judgement:
    if isinstance(answer, bool):
        return Judgement(answer, "" if answer else f"{verify.name} says that it is not done.")
    if isinstance(answer, str) and answer.strip():
        return Judgement(False, tail_of(answer, verify.max_output))
    what = f"{verify.name} gave {type(answer).__name__}: it has to give True, False, or a text that says what is wrong"
    return Judgement(False, error=what)
