"""Lines of a journal that come from a store: each is about a task that there is, and of the kinds that a line may have.

What a line may not say is left out; what it says in a wrong way makes the journal unusable. An address of a cluster
is never taken from a store: whoever connects to one runs what it sends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable
from typing import Any

from toolkit.errors import RunError

_MOST_TEXT = 20_000
_CODE = re.compile(r"[a-z_]{1,40}")


def checked(lines: Iterable[Any], batch: str, tasks: Container[str], where: str) -> list[dict[str, Any]]:
    """The lines, with nothing in them but what a line of this batch may say.

    Raises:
        RunError: one of them cannot be a line of this batch.
    """
    return [_line(said, batch, tasks, f"{where}: line {number}") for number, said in enumerate(lines, 1)]


def _line(said: Any, batch: str, tasks: Container[str], where: str) -> dict[str, Any]:
    if not isinstance(said, dict) or not isinstance(said.get("task"), str) or said["task"] not in tasks:
        raise RunError("the journal in the store speaks of a task that there is not", where=[where])
    kinds = _PROMISE if "promised" in said else _LINE
    line = {key: value for key, value in said.items() if key in kinds}
    wrong = [key for key, value in line.items() if not kinds[key](value)]
    if "promised" not in said and not _is_run(said.get("run"), batch, said["task"]):
        wrong.append("run")
    if "ended" in line and not {"code", "tokens", "cost", "known_cost"} <= line.keys():
        wrong.append("ended")
    if wrong:
        raise RunError(f"the journal in the store says what it cannot: {', '.join(wrong)}", where=[where])
    return line


def _is_run(run: Any, batch: str, task: str) -> bool:
    return isinstance(run, str) and re.fullmatch(re.escape(f"{batch}.{task}.") + r"[1-9]\d{0,8}", run) is not None


def _is_text(value: Any) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= _MOST_TEXT)


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and _CODE.fullmatch(value) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_cost(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_promise(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() <= {"usd", "tokens"} and all(map(_is_number, value.values()))


def _is_account(value: Any) -> bool:
    kinds: dict[str, Callable[[Any], bool]] = {"tokens": _is_count, "calls": _is_count, "known_cost": _is_number}
    kinds["open"] = lambda calls: (
        isinstance(calls, dict) and all(one is None or _is_count(one) for one in calls.values())
    )
    return isinstance(value, dict) and all(key in kinds and kinds[key](one) for key, one in value.items())


_PROMISE: dict[str, Callable[[Any], bool]] = {"task": _is_text, "promised": _is_promise}
_LINE: dict[str, Callable[[Any], bool]] = {"task": _is_text, "run": _is_text, "code": _is_code, "used": _is_account}
_LINE |= dict.fromkeys(("claimed", "began", "ended", "released", "known_cost"), _is_number)
_LINE |= dict.fromkeys(("worker", "machine", "why", "aside", "cause"), _is_text)
_LINE |= dict.fromkeys(("tokens", "calls", "unknown_calls", "estimated"), _is_count)
_LINE |= {"cost": _is_cost, "verified": _is_flag, "lost": _is_flag, "told": _is_flag, "again": _is_flag}
