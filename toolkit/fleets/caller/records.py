"""The records of a batch, kept in its journal: the store of workers that reach none but the caller.

What claims, books and ends say becomes a line of the journal, synced before anybody is told that it was created. Beats
are kept in memory only: whoever goes on with the batch gives every holder a whole lease.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import FolderStore, Store
from toolkit.runs import Limits
from toolkit.runs.batches import Batch, Standing, lost_end

_KEPT = ("claims", "released", "lost", "begun", "books", "ends")
"""What becomes a line of the journal."""
_IN_MEMORY = "beats"


class JournalStore:
    """A store in the journal of a batch that is held. `on_line` hears of every line after it was synced."""

    def __init__(
        self,
        batch: Batch,
        base: str,
        on_line: Callable[[Standing], None] | None = None,
        shared: Store | None = None,
    ) -> None:
        self.standings = batch.standings()
        """How every task stands now."""
        self._batch = batch
        self._base = base
        self._on_line = on_line
        self._records: dict[str, bytes] = {}
        self._folders: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._others = FolderStore(batch.folder / "store")
        self._shared = shared
        """Where decisions on the rate are left, too, for a caller elsewhere."""
        for said in batch.lines():
            for name in _names_of(said):
                self._keep(f"{base}/{name}", json.dumps(said).encode())

    def create(self, name: str, data: bytes) -> bool:
        """Make a record; it is in the journal then."""
        return self.create_all([(name, data)])[0]

    def create_all(self, records: Iterable[tuple[str, bytes]]) -> list[bool]:
        """Make several records with one sync; whether each was new."""
        fresh: dict[str, bytes] = {}
        lines: list[dict[str, Any]] = []
        made: list[bool] = []
        with self._lock:
            for name, data in records:
                kind = self._kind(name)
                if kind is None:
                    made.append(self._others.create(name, data))
                    if made[-1] and self._shared is not None and name.startswith(f"{self._base}/rate/decisions/"):
                        with contextlib.suppress(RunError):  # without it, a caller elsewhere begins with a low rate
                            self._shared.create(name, data)
                    continue
                made.append(name not in self._records and name not in fresh)
                if made[-1]:
                    lines += [] if kind == _IN_MEMORY else self._lines(name, kind, _parsed(name, data))
                    fresh[name] = data
            if lines:
                self._batch.say(*lines)
            for name, data in fresh.items():
                self._keep(name, data)
            for line in lines:
                self.standings[line["task"]].hear(line)
        if self._on_line is not None:
            for task in {str(line["task"]): None for line in lines}:
                self._on_line(self.standings[task])
        return made

    def promise(self, task: str, limits: Limits) -> None:
        """Write down what the next run of a task may use of the batch's limit."""
        with self._lock:
            self._batch.promise(task, limits)
            self.standings[task].hear({"promised": {"usd": limits.usd or 0.0, "tokens": limits.tokens or 0}})

    def say(self, line: dict[str, Any]) -> None:
        """Write a line down that is no record: what a run that was taken for lost really used, say. The last counts."""
        with self._lock:
            self._batch.say(line)
            self.standings[line["task"]].hear(line)

    def read(self, name: str) -> bytes | None:
        """A record's content."""
        return self._others.read(name) if self._kind(name) is None else self._records.get(name)

    def names(self, folder: str) -> list[str]:
        """The full names of all records below a folder."""
        if self._kind(f"{folder}/x") is None:
            return self._others.names(folder)
        with self._lock:
            found, todo = list[str](), [folder]
            while todo:
                for name in self._folders.get(todo.pop(), ()):
                    (found if name in self._records else todo).append(name)
        return sorted(found)

    def remove(self, name: str) -> None:
        """Take a record away; the journal keeps what it said."""
        if self._kind(name) is None:
            self._others.remove(name)
            return
        with self._lock:
            self._forget(name)

    def _lines(self, name: str, kind: str, said: dict[str, Any]) -> list[dict[str, Any]]:
        """What the journal says of a new record.

        Raises:
            RunError: it speaks of a task that there is not.
        """
        standing = self.standings.get(str(said.get("task")))
        if standing is None or not isinstance(said.get("run"), str):
            raise RunError("a record speaks of a task that there is not", where=[name])
        if "aside" in said:
            run = said["run"]
            end = standing.ends.get(run) or lost_end(standing.used.get(run))
            return [{**end, **said, "ended": time.time(), "cause": said["aside"], "lost": True}]
        if kind == "lost":
            return [said if "unknown_calls" in said else {**said, **lost_end(standing.used.get(said["run"]), said)}]
        lines = [said]
        if kind == "claims" and standing.runs and standing.runs[-1] not in standing.ends:
            lost = standing.runs[-1]  # whoever had it was silent for a lease
            end = lost_end(standing.used.get(lost))
            lines.insert(0, {"task": said["task"], "run": lost, "ended": time.time(), **end})
        return lines

    def _kind(self, name: str) -> str | None:
        """What a record is about; None where that is not the batch's own business."""
        rest = name.removeprefix(f"{self._base}/")
        kind = rest.partition("/")[0]
        return kind if rest != name and (kind in _KEPT or kind == _IN_MEMORY) else None

    def _keep(self, name: str, data: bytes) -> None:
        self._records[name] = data
        while "/" in name:
            folder = name.rpartition("/")[0]
            known = self._folders.setdefault(folder, set())
            if name in known:
                break
            known.add(name)
            name = folder

    def _forget(self, name: str) -> None:
        self._records.pop(name, None)
        self._folders.get(name.rpartition("/")[0], set()).discard(name)


def _names_of(said: dict[str, Any]) -> list[str]:
    """The records that a line of the journal stands for; a run that was done here has none but these."""
    if "task" not in said or not str(said.get("run", "")).rpartition(".")[2].isdigit():
        return []
    place = f"{said['task']}/{said['run'].rpartition('.')[2]}"
    names = []
    if "claimed" in said or "began" in said:
        names.append(f"claims/{place}")
    if "released" in said:
        names.append(f"released/{place}")
    if "aside" in said:
        names.append(f"ends/{place}")
    elif "ended" in said:
        names.append(f"lost/{place}" if said.get("lost") else f"ends/{place}")
    return names


def _parsed(name: str, data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise RunError("a record is no JSON object", where=[name])
    return said
