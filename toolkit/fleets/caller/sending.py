"""Send orders through Dask, and get their answers, whatever becomes of workers and the scheduler meanwhile."""

from __future__ import annotations

import asyncio
import pickle
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any

from toolkit.fleets.engine import Cluster, Crew, do_order, is_lost
from toolkit.fleets.workers import Answer, Order

_PAUSE = 0.5


class Sender:
    """Sends orders to the workers that may do them."""

    def __init__(
        self, cluster: Cluster, crew: Crew, topic: str, *, lease: float, on_lost: Callable[[], Awaitable[None]]
    ) -> None:
        self._cluster = cluster
        self._crew = crew
        self._topic = topic
        self._lease = lease
        self._on_lost = on_lost

    def refuse(self, worker: str, why: str) -> None:
        """Give a worker no more of these orders."""
        self._crew.refuse(worker, why)

    async def send(self, order: Order) -> Answer | str:
        """The answer to an order; or why there is none, where the engine has not just lost it."""
        lost = (import_module("distributed").KilledWorker, CancelledError, OSError, TimeoutError)
        good = await self._crew.good()
        client = self._cluster.client
        key = f"{self._topic}-{order.task}-{secrets.token_hex(4)}"
        try:
            future = client.submit(
                do_order, pickle.dumps(order), self._topic, key=key, pure=False, retries=0, workers=list(good)
            )
            return await self._answer_of(future, set(good))
        except Exception as error:
            if is_lost(client):
                await self._cluster.find_again(client)
                await self._on_lost()
            elif not isinstance(error, lost):  # of the worker: it cannot import what the order names, say
                return f"{type(error).__name__}: {error}"
            await asyncio.sleep(_PAUSE)
            return Answer("lost", {"why": type(error).__name__})

    async def _answer_of(self, future: Any, asked: set[str]) -> Answer:
        """The answer, as long as one of those who were asked is there: Dask would wait for them for ever."""
        coming = asyncio.ensure_future(_result(future))
        try:
            while not (await asyncio.wait({coming}, timeout=self._lease / 4))[0]:
                if not asked & set(await self._cluster.workers()):
                    future.release()
                    return Answer("lost", {"why": "all who could do it are gone"})
            return Answer.of(coming.result())
        finally:
            coming.cancel()


async def _result(future: Any) -> Any:
    return await future
