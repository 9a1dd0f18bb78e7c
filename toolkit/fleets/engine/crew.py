"""The workers that may do runs of a batch: each is looked at once, before its first run, and named if it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolkit.errors import RunError
from toolkit.fleets.check import About, Fitness, about_me, compare, tell_about_me
from toolkit.fleets.engine.cluster import Cluster, is_lost

_PAUSE = 0.5


class Crew:
    """The workers of a cluster, as one batch may use them."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        confined: bool,
        needs_key: bool,
        patience: float,
        on_word: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._confined = confined
        self._needs_key = needs_key
        self._patience = patience
        self._on_word = on_word
        self._mine: About | None = None
        self._known: dict[str, Fitness] = {}
        self._looking = asyncio.Lock()

    async def look(self) -> dict[str, Fitness]:
        """All workers there are now, and whether each may do runs.

        Raises:
            OSError: the scheduler is lost.
        """
        async with self._looking:
            workers = await self._cluster.workers()
            if any(address not in self._known for address in workers):
                if self._mine is None:
                    self._mine = await asyncio.to_thread(about_me, confined=False)
                fresh = [address for address in workers if address not in self._known]
                told = await self._cluster.ask(tell_about_me, self._confined, of=fresh)
                for address in fresh:
                    theirs = About.of(told.get(address))
                    fitness = compare(self._mine, theirs, confined=self._confined, needs_key=self._needs_key)
                    self._known[address] = fitness
                    if fitness.refused or fitness.remarks:
                        where = f" on {theirs.machine}" if theirs is not None else ""
                        self._on_word(f"worker {fitness.line(address + where)}")
            return {address: self._known[address] for address in workers if address in self._known}

    def refuse(self, address: str, why: str) -> None:
        """Give a worker that could not do a run no more of them."""
        if self._known.get(address, Fitness()).ok:
            self._known[address] = Fitness((" ".join(why.split()),))
            self._on_word(f"worker {self._known[address].line(address)}")

    async def good(self) -> dict[str, int]:
        """The workers that may do runs, each with how many it does at once; waits until there are any.

        Raises:
            RunError: none came in time, or none of those there are may.
        """
        loop = asyncio.get_running_loop()
        until, has_said = loop.time() + self._patience, False
        while True:
            client = self._cluster.client
            try:
                found = await self.look()
                places = await self._cluster.workers()
            except Exception as error:
                if not is_lost(client) and not isinstance(error, OSError | TimeoutError):
                    raise
                found, places = {}, {}
                await self._cluster.find_again(client)
            good = {address: places[address] for address, one in found.items() if one.ok and address in places}
            if good:
                return good
            if found and all(address in places for address in found):
                raise RunError(
                    "no worker of the cluster can do these runs",
                    where=[one.line(address) for address, one in found.items()],
                    fix="Install the same versions there, and look again: toolkit batch check --cluster ADDRESS",
                )
            if loop.time() > until:
                fix = "Start some: dask worker ADDRESS; then go on: --resume"
                raise RunError(f"the cluster at {self._cluster.address} has no workers", fix=fix)
            if not has_said:
                self._on_word(f"the cluster at {self._cluster.address} has no workers; waiting for some")
                has_said = True
            await asyncio.sleep(_PAUSE)


async def look_at(address: str, *, needs_key: bool = True) -> dict[str, Fitness]:
    """Every worker of a cluster, by its address and machine, and whether it may do confined runs.

    Raises:
        RunError: there is no cluster.
    """
    cluster = Cluster(address)
    await cluster.connect()
    try:
        crew = Crew(cluster, confined=True, needs_key=needs_key, patience=0.0, on_word=lambda word: None)
        return await crew.look()
    except (OSError, TimeoutError) as error:
        raise RunError(f"the cluster at {address} does not answer", where=[str(error)]) from None
    finally:
        await cluster.close()
