"""A cluster as its caller holds it: connected in seconds or refused, and found again when its scheduler was lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from toolkit.errors import RunError

Client = Any
"""A client of Dask, which has no types for what is used here."""

CONNECT_SECONDS = 10.0
_ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+(/\S*)?|inproc://\S+")
_PAUSE = 1.0
_ASK_SECONDS = 30.0


class Cluster:
    """One Dask cluster, by its scheduler's address."""

    def __init__(self, address: str, patience: float = 300.0) -> None:
        self.address = address
        self._patience = patience
        """Seconds that a lost scheduler is waited for."""
        self._client: Client | None = None
        self._finding = asyncio.Lock()
        self.on_connected: Callable[[Client], None] | None = None
        """Called with every new connection."""

    @property
    def client(self) -> Client:
        """The connection there is now; while another is looked for, the one that was lost."""
        assert self._client is not None, "not connected"
        return self._client

    async def connect(self) -> None:
        """Connect.

        Raises:
            RunError: Dask is not installed, or there is no cluster.
        """
        try:
            dask: Any = import_module("distributed")
        except ImportError:
            raise RunError(
                "a cluster needs Dask, which is not installed", fix="Install it: pip install distributed zstandard"
            ) from None
        if not _ADDRESS.fullmatch(self.address):  # Dask leaves warnings behind for one that it cannot read
            what = f"{self.address!r} is no address of a cluster"
            raise RunError(what, fix="Write it as: tcp://HOST:8786").as_mistyped()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is lost is said here, in our words
        try:
            client = dask.Client(self.address, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False)
            async with asyncio.timeout(CONNECT_SECONDS + 5):
                await client
        except (OSError, ValueError, TypeError, TimeoutError, RuntimeError) as error:
            raise RunError(
                f"there is no cluster at {self.address}",
                where=[str(error) or type(error).__name__],
                fix="Start one: dask scheduler, and on each machine: dask worker ADDRESS",
            ) from None
        self._client = client
        if self.on_connected is not None:
            self.on_connected(client)

    async def find_again(self, lost: Client) -> None:
        """Connect anew after `lost` was lost, once for all who ask.

        Raises:
            RunError: it did not come back in time.
        """
        async with self._finding:
            if self._client is not lost:
                return None
            await _closed(lost)
            until = asyncio.get_running_loop().time() + self._patience
            while True:
                try:
                    return await self.connect()
                except RunError as error:
                    if asyncio.get_running_loop().time() > until:
                        fix = "Start it again, then go on: --resume"
                        raise RunError(f"the cluster at {self.address} was lost", where=error.where, fix=fix) from None
                await asyncio.sleep(_PAUSE)

    async def workers(self) -> dict[str, int]:
        """The addresses of the workers there are now, each with the runs it does at once."""
        info = await self.client.scheduler.identity(n_workers=-1)
        return {str(address): int(one["nthreads"]) for address, one in info["workers"].items()}

    async def ask(self, function: Callable[..., Any], *args: Any, of: Iterable[str] | None = None) -> dict[str, Any]:
        """What workers say to a question, all if not said which; who is gone or does not answer in time is left out."""
        answers: dict[str, Any] = {}
        there = await self.workers()

        async def one(address: str) -> None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_ASK_SECONDS):
                    answers.update(await self.client.run(function, *args, workers=[address], on_error="ignore"))

        await asyncio.gather(*(one(address) for address in (there if of is None else there.keys() & set(of))))
        return answers

    async def close(self) -> None:
        """Leave the cluster."""
        client, self._client = self._client, None
        if client is not None:
            await _closed(client)


async def _closed(client: Client) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.close(timeout=2)


def is_lost(client: Client) -> bool:
    """Whether a connection is of no use any more."""
    return bool(client.status != "running")
