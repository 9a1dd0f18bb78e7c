"""What Dask has a worker do: an order seen through, or a question answered. These run in the worker's process."""

from __future__ import annotations

import asyncio
import pickle
import platform
from importlib import import_module
from typing import Any

from toolkit.fleets.engine.asking import CallerStore
from toolkit.fleets.store import StoreError
from toolkit.fleets.workers import Answer, Order, Worker, send_back, work_on


def do_order(packed: bytes, topic: str) -> bytes:
    """See an order through; the answer as it travels. Where nobody can be reached, the task stays as it is."""
    order = pickle.loads(packed)
    assert isinstance(order, Order)
    worker = import_module("distributed").get_worker()
    here = Worker(worker.address, platform.node(), CallerStore(topic, worker), lambda: _is_tied(worker))
    try:
        answer = asyncio.run(work_on(order, here))
    except StoreError as error:
        answer = Answer("held", {"why": str(error)}, worker.address)
    return answer.to_bytes()


async def give_run(run: str, base: str, pack: str | None, store: str | None) -> bytes:
    """Send a run back that this machine has; the worker's loop goes on meanwhile."""
    return (await asyncio.to_thread(send_back, run, base, pack, store)).to_bytes()


def _is_tied(worker: Any) -> bool:
    """Whether the scheduler is there: then a caller that goes on with the batch finds this worker with its run, and
    without a caller nobody can take a claim over."""
    return bool(worker.status.name == "running" and not worker.batched_stream.closed())
