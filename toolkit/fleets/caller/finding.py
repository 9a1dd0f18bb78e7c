"""Find out what became of runs whose end the journal does not know: every worker is asked what its disk has of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.caller.records import JournalStore
from toolkit.fleets.engine import Cluster, give_run
from toolkit.fleets.packs import Pack
from toolkit.fleets.store import open_store
from toolkit.fleets.workers import Answer, Sent, drop_run, left_in, tell_all
from toolkit.runs import RunResult, StoredRun
from toolkit.runs.batches import Standing, lost_end
from toolkit.runs.storage import runs_home

_STAYS: tuple[str, ...] = ("lost", "aside", "cause")
_RANK = {"finished": 0, "running": 1, "crashed": 2}


class Finder:
    """Asks the workers of a cluster about runs, writes down what they tell, and has them sent back."""

    def __init__(self, cluster: Cluster, store: JournalStore, base: str, through: str | None) -> None:
        self._cluster = cluster
        self._store = store
        self._base = base
        self._through = through
        """The address of the store that runs come back through; None where they come through the engine."""

    async def left(self) -> dict[str, Answer]:
        """What workers left in the store while nobody called for the batch, by the name of its record.

        Raises:
            StoreError: the store cannot be read.
        """
        if self._through is None:
            return {}
        return await asyncio.to_thread(left_in, open_store(self._through), self._base)

    async def forget(self, left: Iterable[str]) -> None:
        """Take away what was left, and is taken in. Raises as `left`."""
        for name in left:
            await asyncio.to_thread(open_store(str(self._through)).remove, name)

    async def settle(self, left: Iterable[Answer] = ()) -> list[Standing]:
        """Write down what is known of runs that have no end yet, or one that is only an estimate.

        That is what workers know, and what they left. Gives the tasks that turn out to be done.
        """
        wanted = {run: standing for standing in self._store.standings.values() for run in _unsettled(standing)}
        told = await self._tell(list(wanted)) if wanted else {}
        for answer in left:
            run = str(answer.said["run"])
            if run in wanted and told.get(run, {}).get("state") != "finished":
                told[run] = {"state": "finished", "end": answer.said, "used": None, "by": answer.worker}
        were_open = [standing for run in told if (standing := wanted[run]).is_open]
        for run, one in told.items():
            await asyncio.to_thread(self._settle, wanted[run], run, one)
        return [one for one in were_open if not one.is_open and not one.ends[one.runs[-1]].get("lost")]

    async def fetch(self, run: str, pack: Pack | None) -> Sent | None:
        """A run that has ended, from a worker that has it; None where no worker has."""
        told = (await self._tell([run])).get(run)
        if told is None or told["state"] == "running":
            return None
        hashed = None if pack is None else pack.hash
        asked = await self._cluster.ask(give_run, run, self._base, hashed, self._through, of=[told["by"]])
        data = asked.get(told["by"])
        try:
            return Sent.of(data) if isinstance(data, bytes) else None
        except RunError:
            return None

    async def drop(self, run: str, worker: str) -> None:
        """Have a worker remove a run that is stored here now."""
        await self._cluster.ask(drop_run, run, of=[worker])

    def _settle(self, standing: Standing, run: str, told: dict[str, Any]) -> None:
        task, number = standing.task.id, run.rpartition(".")[2]
        said = {"task": task, "run": run, "ended": time.time(), **told["end"], "told": True, "worker": told["by"]}
        if told["state"] == "crashed":
            said |= lost_end(told["used"] or standing.used.get(run), told["end"])
        before = standing.ends.get(run)
        if told["state"] == "running":
            return
        if before is not None:  # it was taken for lost: what it really used is known now
            self._store.say(said | {str(name): before[name] for name in _STAYS if name in before})
        else:
            self.write(f"{'ends' if told['state'] == 'finished' else 'lost'}/{task}/{number}", said)

    async def result_of(self, standing: Standing, answer: Answer) -> RunResult[Any] | None:
        """The result that an answer brings, or that is found where its run was done; None where that is nowhere."""
        run = str(answer.said.get("run"))
        if answer.kind == "unsaid":
            await asyncio.to_thread(self.write, f"ends/{standing.task.id}/{run.rpartition('.')[2]}", answer.said)
        if answer.result is not None:
            return RunResult.from_data(answer.result)
        stored = StoredRun(runs_home() / run)
        try:
            return stored.result()
        except (ToolkitError, OSError):
            told = await self._tell([run])
            return RunResult.from_data(told[run]["result"]) if run in told else None

    async def _tell(self, runs: list[str]) -> dict[str, dict[str, Any]]:
        """What is known of runs; of several who know of one, the one who knows best."""
        found: dict[str, dict[str, Any]] = {}
        for address, answers in (await self._cluster.ask(tell_all, runs)).items():
            for told in answers:
                told["by"] = address
                before = found.get(told["run"])
                if before is None or _RANK[told["state"]] < _RANK[before["state"]]:
                    found[told["run"]] = told
        return found

    def write(self, name: str, said: dict[str, Any]) -> bool:
        """Create a record of the batch."""
        return self._store.create(f"{self._base}/{name}", json.dumps({"ended": time.time(), **said}).encode())


def _unsettled(standing: Standing) -> list[str]:
    return [
        run
        for run in standing.runs
        if run not in standing.ends or (standing.ends[run].get("lost") and not standing.ends[run].get("told"))
    ]
