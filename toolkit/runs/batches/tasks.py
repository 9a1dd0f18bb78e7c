"""The tasks of a batch, as they stand in a file: one JSON value a line, a prompt or an object with one.

    "Write the changelog."
    {"id": "prices", "prompt": "Make the failing test in prices/ pass.", "model": "claude-sonnet-4-5", "priority": 5}

An id that is not given follows from the content, so that the same task has the same id tomorrow.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.words import did_you_mean, safe_line
from toolkit.errors import RunError

HIGHEST_PRIORITY = 1000
_KEYS = ("id", "prompt", "model", "system", "priority")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do."""

    id: str
    prompt: str
    model: str | None = None
    system: str | None = None
    priority: int = 0
    """Those with a higher one are begun first, and their requests go first."""

    def options(self) -> dict[str, Any]:
        """What it says beside its prompt."""
        return {name: value for name in ("model", "system") if (value := getattr(self, name)) is not None}

    def to_line(self) -> str:
        """The task as a line of a file."""
        rank = {"priority": self.priority} if self.priority else {}
        return json.dumps({"id": self.id, "prompt": self.prompt, **self.options(), **rank}, ensure_ascii=True)


def tasks_digest(tasks: list[Task]) -> str:
    """What is the same for the same tasks, and for no others."""
    return hashlib.sha256("".join(f"{task.to_line()}\n" for task in tasks).encode()).hexdigest()


def read_tasks(file: Path | str) -> list[Task]:
    """The tasks in a file, in order; empty lines are left out.

    Raises:
        RunError: a line that is no task, two tasks with one id, no task at all, or no such file.
    """
    path = Path(file)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise RunError(f"the tasks in {path} cannot be read: {why}") from None
    tasks: dict[str, tuple[int, Task]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        task = _read(line, f"{path}:{number}")
        if task.id in tasks:
            raise RunError(
                f"two tasks have the id '{task.id}'",
                where=[f"{path}:{tasks[task.id][0]}", f"{path}:{number}"],
                fix='Give one another: {"id": "…", "prompt": "…"}',
            )
        tasks[task.id] = (number, task)
    if not tasks:
        raise RunError(f"there is no task in {path}", fix="Write one JSON text, or object with a prompt, on each line")
    return [task for _, task in tasks.values()]


def check_tasks(tasks: list[Task]) -> None:
    """Refuse, before there is a batch, what the run of a task would be refused for.

    Raises:
        RunError: the first task that no run can be made of.
    """
    from toolkit.runs.fields import checked

    for task in tasks:
        try:
            checked({"prompt": task.prompt, **task.options()})
        except RunError as error:
            about = safe_line(task.prompt, 60)
            raise RunError(f"task '{task.id}': {error.what}", where=[about], fix=error.fix) from None


def _read(line: str, where: str) -> Task:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise RunError(f"a line is no JSON: {error}", where=[where, safe_line(line, 100)]) from None
    given = {"prompt": said} if isinstance(said, str) else said
    if not isinstance(given, dict):
        raise RunError("a task is a text, or an object with a prompt", where=[where, safe_line(line, 100)])
    for key, value in given.items():
        if key not in _KEYS:
            raise RunError(f"a task has no '{safe_line(key, 40)}'{did_you_mean(key, _KEYS)}", where=[where])
        if key == "priority":
            _check_priority(value, where)
        elif not isinstance(value, str) or not value.strip():
            raise RunError(f"the {key} of a task is a text", where=[where])
    if "prompt" not in given:
        raise RunError("a task has no prompt", where=[where])
    if "id" not in given:
        content = {key: value for key, value in given.items() if key != "priority"}  # which may change
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass"))
        given["id"] = f"t-{digest.hexdigest()[:12]}"
    elif not _ID.fullmatch(given["id"]):
        raise RunError(
            f"'{safe_line(given['id'], 60)}' cannot be the id of a task",
            where=[where],
            fix="Use up to 48 letters, digits, '-', '_' and '.', beginning with a letter or digit",
        )
    return Task(**given)


def _check_priority(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > HIGHEST_PRIORITY:
        most = HIGHEST_PRIORITY
        raise RunError(f"the priority of a task is a whole number from -{most} to {most}", where=[where])
