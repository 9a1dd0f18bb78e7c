"""What became of each task, written down before and after it is done, so that a kill loses nothing.

    $TOOLKIT_HOME/batches/NAME/
      tasks.jsonl     the tasks, as they were when the batch began
      batch.json      what holds for the whole batch
      journal.jsonl   one line a step: a run that begins, a run that came to its end, a cluster that is used
      rate.jsonl      what was decided about the rate of its requests
      again/          a word that one more run is wanted, named after the run that it follows
      lock            held by whoever works on it

The journal is appended and synced. A line that a kill cut off at the end is left out.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolkit._base.files import refused_at, state_home, write_whole
from toolkit._base.locks import take_lock
from toolkit.errors import RunError
from toolkit.runs.batches.again import ask_again, asked_again
from toolkit.runs.batches.rate_log import kept_decisions
from toolkit.runs.batches.standing import MOST_LOSSES, Standing, end_of
from toolkit.runs.batches.tasks import Task, read_tasks
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.spec import Limits
from toolkit.runs.storage.run_folder import cannot_store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class Batch:
    """A batch on disk. Reading it is always possible; working on it needs its lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self._journal: int | None = None
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._written = self._synced = 0
        """How often something was written, and up to where it is synced."""
        self.mirror: Callable[[list[dict[str, Any]]], None] | None = None
        """Gets every line about a task before it is written here, and raises where it must not be."""

    @classmethod
    def begin(
        cls,
        name: str,
        tasks: list[Task],
        home: Path | str | None = None,
        *,
        most_losses: int = MOST_LOSSES,
        uid: str | None = None,
    ) -> Batch:
        """A new batch, with nothing done. A task that loses `most_losses` runs with whoever does them is set aside.

        `uid` is that of a batch which was begun on another machine.

        Raises:
            RunError: a name that cannot be one, or that there is already, or the batch cannot be stored.
        """
        if not _NAME.fullmatch(name):
            raise RunError(
                f"{name!r} cannot be the name of a batch",
                fix="Use up to 40 letters, digits, '-' and '_', beginning with a letter or digit",
            )
        folder = batches_home(home) / name
        unborn = folder.with_name(f".{name}.{secrets.token_hex(4)}.new")
        facts = {"uid": uid or f"{name}-{secrets.token_hex(4)}", "began": time.time(), "most_losses": most_losses}
        try:
            unborn.mkdir(mode=0o700, parents=True)
            write_whole(unborn / "tasks.jsonl", "".join(f"{task.to_line()}\n" for task in tasks), durable=True)
            write_whole(unborn / "batch.json", json.dumps(facts) + "\n", durable=True)
            unborn.rename(folder)
        except OSError as error:
            shutil.rmtree(unborn, ignore_errors=True)
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise cannot_store(error, folder, "the batch") from None
            raise RunError(
                f"there is a batch '{name}' already",
                fix=f"Go on with it: toolkit batch TASKS --name {name} --resume, or choose another --name",
            ) from None
        return cls(folder)

    @property
    def facts(self) -> dict[str, Any]:
        """What was said of it as a whole when it began: its `uid`, and after how many losses a task is set aside.

        Raises:
            RunError: that cannot be read.
        """
        try:
            return dict(json.loads((self.folder / "batch.json").read_bytes()))
        except FileNotFoundError:
            return {"uid": self.name}  # begun by an older version
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"the batch '{self.name}' cannot be read: {error}", where=[str(self.folder)]) from None

    @property
    def rate_history(self) -> list[dict[str, Any]]:
        """What was decided about the rate at which its runs ask the model API, oldest first."""
        return kept_decisions(self.folder)

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

    @property
    def cluster(self) -> str | None:
        """The address of the cluster that it was last worked off on; None where it never was.

        Raises:
            RunError: the journal is damaged.
        """
        return next((str(said["cluster"]) for said in reversed(self.lines()) if "cluster" in said), None)

    @property
    def shared_in(self) -> str | None:
        """The store that its journal is in, too; None where it is only here. Raises as `cluster`."""
        last: dict[str, Any] = next((said for said in reversed(self.lines()) if "cluster" in said), {})
        return None if last.get("store") is None else str(last["store"])

    def check_store(self, given: str | None) -> None:
        """Make sure that whoever goes on with the batch does so where its journal is.

        Raises:
            RunError: it is in another store, too, where somebody else may have gone on with it.
        """
        if (known := self.shared_in) is not None and known != given:
            raise RunError(
                f"the journal of batch '{self.name}' is in a store, too: somebody may have gone on with it there",
                where=[known],
                fix="Go on with that store: --resume --cluster ADDRESS --store URL",
            )

    def promise(self, task: str, limits: Limits) -> None:
        """The next run of a task may use so much of the limit: all of it counts until it is known what it used."""
        given = {name: value for name in ("usd", "tokens") if (value := getattr(limits, name)) is not None}
        if given:
            self.say({"task": task, "promised": given})

    def began(self, task: str, run: str) -> int:
        """A run for a task is about to begin. Gives the mark for `sync`: until that is done, nothing may be sent."""
        return self.note({"task": task, "run": run, "began": time.time()})

    def ended(self, task: str, result: RunResult[Any], *, lost: bool = False) -> int:
        """A run for a task came to its end, or was found `lost`: cut off with whoever worked on the batch.

        Gives the mark for `sync`: that it began is synced before it costs anything, so this may wait for others.
        """
        return self.note({"task": task, "run": result.run, "ended": time.time(), **end_of(result), "lost": lost})

    def again(self, task: str) -> bool:
        """Have a task that has ended done once more, from the start; what it cost until now stays in the books.

        Anybody may ask for it at any time. False where it was asked for already, and is not done yet.

        Raises:
            RunError: there is no such task, or it has not ended.
        """
        standing = self.check_again(task, self.standings())
        return not standing.begins_anew and ask_again(self.folder, standing.runs[-1])

    def check_again(self, task: str, standings: Mapping[str, Standing]) -> Standing:
        """How a task stands that may be wanted again: it has ended, or was wanted again and has not begun.

        Raises:
            RunError: there is no such task, or it has not ended.
        """
        standing = standings.get(task)
        if standing is None:
            raise RunError(f"the batch '{self.name}' has no task '{task}'", fix=f"See: toolkit batch show {self.name}")
        if standing.is_open and not (standing.runs and standing.begins_anew):
            raise RunError(f"the task '{task}' has not ended: it is {standing.state}")
        return standing

    def standings(self) -> dict[str, Standing]:
        """How every task stands, in the order of the tasks.

        Raises:
            RunError: the batch cannot be read.
        """
        most = int(self.facts.get("most_losses", MOST_LOSSES))
        again = frozenset(asked_again(self.folder))
        found = {task.id: Standing(task, most, again=again) for task in read_tasks(self.folder / "tasks.jsonl")}
        for said in self.lines():
            if "task" not in said:
                continue
            standing = found.get(str(said.get("task")))
            if standing is None:
                raise RunError(f"the journal of batch '{self.name}' speaks of a task that there is not")
            standing.hear(said)
        return found

    def lines(self) -> list[dict[str, Any]]:
        """What the journal says, in order.

        Raises:
            RunError: it is damaged.
        """
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

    def say(self, *lines: dict[str, Any]) -> None:
        """Write lines, all of them synced to the disk before this is done. Several threads may, with one sync for all.

        Raises:
            RunError: they cannot be written.
        """
        self.sync(self.note(*lines))

    def note(self, *lines: dict[str, Any]) -> int:
        """Write lines that outlive this process. They outlive the machine's power, too, when `sync` was given the mark.

        Raises:
            RunError: they cannot be written.
        """
        assert self._journal is not None, "the batch is not held"
        text = b"".join(json.dumps(said, ensure_ascii=True).encode() + b"\n" for said in lines)
        try:
            with self._writing:
                about_tasks = [said for said in lines if "task" in said]
                if self.mirror is not None and about_tasks:
                    self.mirror(about_tasks)
                self._append(self._journal, text)
                self._written += 1
                return self._written
        except OSError as error:
            raise self._unwritten(error) from None

    def is_synced(self, mark: int) -> bool:
        """Whether what `note` gave this mark for is on the disk."""
        return self._synced >= mark

    def sync(self, mark: int) -> None:
        """Have what `note` gave this mark for on the disk. Raises as `note`."""
        assert self._journal is not None, "the batch is not held"
        try:
            with self._syncing:
                if self._synced < mark:  # else somebody has synced it along with his own
                    last = self._written
                    os.fdatasync(self._journal)
                    self._synced = last
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> RunError:
        where = [refused_at(self.folder / "journal.jsonl", error)]
        fix = "Make room or mend the disk, then go on: --resume"
        return RunError(f"the journal of batch '{self.name}' cannot be written: {error.strerror}", where=where, fix=fix)

    def _append(self, journal: int, text: bytes) -> None:
        before = os.fstat(journal).st_size
        try:
            written = os.write(journal, text)
            while written < len(text):
                written += os.write(journal, text[written:])
        except OSError:  # a full disk: no half line stands in the way of the next one
            os.ftruncate(journal, before)
            raise


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
    return (
        [Batch(entry) for entry in sorted(folder.iterdir()) if _NAME.fullmatch(entry.name) and entry.is_dir()]
        if folder.is_dir()
        else []
    )
