"""End a run that a worker does: whoever looks at a batch asks the worker through Dask, also when its caller is gone."""

from __future__ import annotations

import asyncio

from toolkit.errors import RunError
from toolkit.fleets.engine.cluster import Cluster
from toolkit.fleets.workers import stop_here


async def stop_there(address: str, worker: str, run: str) -> None:
    """Tell a run to stop that a worker of the cluster at `address` does; what it gave is kept.

    Raises:
        RunError: there is no cluster, the worker is gone or does not answer, or the run has ended.
    """
    cluster = Cluster(address)
    await cluster.connect()
    try:
        if worker not in await cluster.workers():
            raise RunError(f"the worker {worker} that does run {run} is gone", where=[f"cluster {address}"])
        answers = await cluster.ask(_stop, run, of=[worker])
    finally:
        await cluster.close()
    if worker not in answers:
        raise RunError(f"the worker {worker} that does run {run} does not answer", where=[f"cluster {address}"])
    if answers[worker] is not None:
        raise RunError(str(answers[worker]), where=[f"worker {worker}"])


async def _stop(run: str) -> str | None:
    """What the worker is asked to do; its loop goes on meanwhile."""
    return await asyncio.to_thread(stop_here, run)
