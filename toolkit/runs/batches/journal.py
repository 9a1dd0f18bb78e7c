"""What became of each task, written down before and after it is done, so that a kill loses nothing.

    $TOOLKIT_HOME/batches/NAME/
      tasks.jsonl     the tasks, as they were when the batch began
      journal.jsonl   one line a step: a run that begins, a run that came to its end
      lock            held by whoever works on it

The journal is appended and synced. A line that a kill cut off at the end is left out.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit._base.files import state_home, write_whole
from toolkit._base.locks import take_lock
from toolkit.errors import RunError
from toolkit.runs.batches.tasks import Task, read_tasks
from toolkit.runs.outcome.result import RunResult

_MOST_LOSSES = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(slots=True)
class Standing:
    """How a task stands."""

    task: Task
    runs: list[str] = field(default_factory=list)
    """The runs that were begun for it, the latest last."""
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each of them came to, as far as it is known."""

    @property
    def losses(self) -> int:
        """How many of them were cut off, with whoever worked on the batch."""
        return sum(bool(end.get("lost")) for end in self.ends.values())

    @property
    def is_open(self) -> bool:
        """Whether something is left to do. What was cut off twice is set aside: it may be the cause."""
        if not self.runs:
            return True
        end = self.ends.get(self.runs[-1])
        return end is None or (bool(end.get("lost")) and self.losses < _MOST_LOSSES)

    @property
    def state(self) -> str:
        """`waiting`, `running`, `lost` (to be done again), or how it ended."""
        if not self.runs:
            return "waiting"
        end = self.ends.get(self.runs[-1])
        return "running" if end is None else "lost" if self.is_open else str(end["code"])

    @property
    def cost(self) -> tuple[float, bool]:
        """The dollars that are known of all its runs, and whether that is all."""
        ends = list(self.ends.values())
        whole = all(end["cost"] is not None for end in ends) and len(ends) == len(self.runs)
        return sum(end["known_cost"] if end["cost"] is None else end["cost"] for end in ends), whole

    @property
    def tokens(self) -> int:
        """The tokens of all its runs."""
        return sum(end["tokens"] for end in self.ends.values())


class Batch:
    """A batch on disk. Reading it is always possible; working on it needs its lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self._journal: int | None = None

    @classmethod
    def begin(cls, name: str, tasks: list[Task], home: Path | str | None = None) -> Batch:
        """A new batch, with nothing done.

        Raises:
            RunError: a name that cannot be one, or that there is already.
        """
        if not _NAME.fullmatch(name):
            raise RunError(
                f"{name!r} cannot be the name of a batch",
                fix="Use up to 40 letters, digits, '-' and '_', beginning with a letter or digit",
            )
        folder = batches_home(home) / name
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise RunError(
                f"there is a batch '{name}' already",
                fix=f"Go on with it: toolkit batch TASKS --name {name} --resume, or choose another --name",
            ) from None
        write_whole(folder / "tasks.jsonl", "".join(f"{task.to_line()}\n" for task in tasks))
        return cls(folder)

    @contextmanager
    def worked_on(self) -> Iterator[None]:
        """Hold the batch, so that nobody else works on it; the end of the process gives it up, too.

        Raises:
            RunError: somebody else works on it.
        """
        lock = take_lock(self.folder / "lock")
        if lock is None:
            raise RunError(
                f"somebody works on the batch '{self.name}' already", fix=f"Look: toolkit batch show {self.name}"
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with lock:
            self._journal = os.open(self.folder / "journal.jsonl", flags, 0o600)
            try:
                self._mend()
                yield
            finally:
                os.close(self._journal)
                self._journal = None

    @property
    def is_worked_on(self) -> bool:
        """Whether somebody works on it now."""
        lock = take_lock(self.folder / "lock", shared=True)
        if lock is None:
            return True
        lock.release()
        return False

    def began(self, task: str, run: str) -> None:
        """A run for a task is about to begin."""
        self._write({"task": task, "run": run, "began": time.time()})

    def ended(self, task: str, result: RunResult[Any], *, lost: bool = False) -> None:
        """A run for a task came to its end, or was found `lost`: cut off with whoever worked on the batch."""
        facts: dict[str, Any] = {"code": result.code, "tokens": result.total.total, "cost": result.cost}
        facts |= {"known_cost": result.known_cost, "cause": result.cause, "verified": result.verified, "lost": lost}
        self._write({"task": task, "run": result.run, "ended": time.time(), **facts})

    def standings(self) -> dict[str, Standing]:
        """How every task stands, in the order of the tasks.

        Raises:
            RunError: the batch cannot be read.
        """
        found = {task.id: Standing(task) for task in read_tasks(self.folder / "tasks.jsonl")}
        for said in self._lines():
            standing = found.get(str(said.get("task")))
            if standing is None:
                raise RunError(f"the journal of batch '{self.name}' speaks of a task that there is not")
            run = str(said["run"])
            if "began" in said and run not in standing.runs:
                standing.runs.append(run)
            if "ended" in said:
                standing.runs += [] if run in standing.runs else [run]
                standing.ends[run] = said
        return found

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = (self.folder / "journal.jsonl").read_bytes()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]  # what a kill cut off was never said
        try:
            return [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise RunError(
                f"the journal of batch '{self.name}' is damaged: {error}", where=[str(self.folder / "journal.jsonl")]
            ) from None

    def _mend(self) -> None:
        """Cut off half a line, so that the next one is whole."""
        assert self._journal is not None
        text = (self.folder / "journal.jsonl").read_bytes()
        if text and not text.endswith(b"\n"):
            os.ftruncate(self._journal, text.rfind(b"\n") + 1)

    def _write(self, said: dict[str, Any]) -> None:
        assert self._journal is not None, "the batch is not held"
        line = json.dumps(said, ensure_ascii=True).encode() + b"\n"
        os.write(self._journal, line)
        os.fsync(self._journal)


def batches_home(home: Path | str | None = None) -> Path:
    """The folder that holds all batches."""
    return state_home(home) / "batches"


def find_batch(name: str, home: Path | str | None = None) -> Batch:
    """A batch by its name.

    Raises:
        RunError: there is none.
    """
    folder = batches_home(home) / name
    if not _NAME.fullmatch(name) or not folder.is_dir():
        raise RunError(f"there is no batch '{name}'", where=[str(batches_home(home))], fix="See: toolkit batch list")
    return Batch(folder)


def list_batches(home: Path | str | None = None) -> list[Batch]:
    """All batches, by name."""
    folder = batches_home(home)
    return [Batch(entry) for entry in sorted(folder.iterdir()) if entry.is_dir()] if folder.is_dir() else []
