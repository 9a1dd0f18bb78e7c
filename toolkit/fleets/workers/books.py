"""The books of one run: what it uses is told to the store as it happens, so that no kill can hide it.

A model call is told before it leaves, and that is written down elsewhere then: in the store, or in the caller's
journal. Where nobody can be told, the run goes on; the account stands in its own folder, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit._base.files import write_whole
from toolkit.errors import RunError
from toolkit.fleets.claims import Account, Claim
from toolkit.fleets.store import Store
from toolkit.runs import Event
from toolkit.runs.storage import runs_home

BOOKS = "books.json"
"""The account in a run's folder."""
UNHEARD = "unheard"
"""A file in the folder of a run that nobody could be told of: nothing was sent, so its result is no end of its task."""
_NEXT = "next"
_ALONE = 60.0
"""Seconds for which nobody is told after nobody could be."""


class Books:
    """Tells what a run uses; only the latest account counts, so an older one that still waits is left out."""

    def __init__(self, store: Store, base: str, claim: Claim, holder: Mapping[str, Any]) -> None:
        self.account = Account()
        self.has_gate = False
        """Whether the gate tells of each call (`toolkit.sandbox.Bookkeeper`); else the run's events do."""
        self.is_unheard = False
        """Whether nobody could be told that the run begins, so that it did not."""
        self._store = store
        self._claim = claim
        self._holder = holder
        self._place = f"{base}/books/{claim.task}/{claim.number}"
        self._begun = f"{base}/begun/{claim.task}/{claim.number}"
        self._told = 0
        self._alone = 0.0
        """Until when nobody is told."""
        self._is_new = asyncio.Event()
        self._line = asyncio.Lock()

    async def begin(self) -> None:
        """Tell that the prompt is about to be sent: from now on the run costs.

        Raises:
            RunError: nobody can be told, so nothing must be sent.
        """
        if not self.has_gate:
            self.account = self.account.booked(_NEXT, None)
        said = self._said({"began": time.time(), "used": self.account.to_data(), **self._holder})
        try:
            await asyncio.to_thread(self._store.create, self._begun, said)
        except RunError:
            self.is_unheard = True
            with contextlib.suppress(OSError):
                write_whole(runs_home() / self._claim.run / UNHEARD, "")
            raise

    async def leaves(self, call: int, tokens: int) -> None:
        """A call is about to leave."""
        self.account = self.account.booked(str(call), tokens)
        self._is_new.set()
        if time.monotonic() > self._alone:
            with contextlib.suppress(RunError):
                await self.tell()

    def ended(self, call: int, tokens: int | None) -> None:
        """A call has ended; what nobody knows stays as it was booked."""
        if tokens is not None:
            self.account = self.account.settled(str(call), tokens) if tokens else self.account.without(str(call))
            self._is_new.set()

    async def hear(self, event: Event) -> None:
        """Take an event of a run without a gate in: a call is under way from its beginning on."""
        if event.name == "tool.ended":
            self.account = self.account.booked(_NEXT, None)
        elif event.name == "usage.call":
            data = event.data
            tokens = sum(int(data.get(kind) or 0) for kind in ("input", "output", "cache_read", "cache_write"))
            self.account = self.account.settled(_NEXT, tokens)
        elif event.name == "lifecycle.finished":
            self.account = self.account.without(_NEXT)
        else:
            return
        self._is_new.set()

    async def keep(self) -> None:
        """Tell what is new, until cancelled."""
        while True:
            await self._is_new.wait()
            if time.monotonic() < self._alone:
                await asyncio.sleep(1.0)
            else:
                with contextlib.suppress(RunError):
                    await self.tell()

    async def tell(self) -> None:
        """Tell the account as it is now, if that was not told.

        Raises:
            RunError: nobody can be told.
        """
        async with self._line:
            if not self._is_new.is_set():
                return
            self._is_new.clear()
            self._told += 1
            account, number = self.account, self._told
            try:
                await asyncio.to_thread(self._write, account, number)
            except RunError:
                self._alone = time.monotonic() + _ALONE
                self._is_new.set()
                raise

    def _write(self, account: Account, number: int) -> None:
        with contextlib.suppress(OSError):  # a full disk: the others are told all the same
            write_whole(runs_home() / self._claim.run / BOOKS, json.dumps(account.to_data()))
        self._store.create(f"{self._place}/{number}", self._said({"used": account.to_data()}))
        if number > 1:
            self._store.remove(f"{self._place}/{number - 1}")

    def _said(self, facts: Mapping[str, Any]) -> bytes:
        return json.dumps({"task": self._claim.task, "run": self._claim.run, **facts}).encode()


def kept_account(folder: Path) -> dict[str, Any] | None:
    """The account in a run's folder; None where there is none that can be read."""
    try:
        said = json.loads((folder / BOOKS).read_bytes())
        return Account.of(said).to_data()
    except (OSError, ValueError, TypeError, AttributeError):
        return None
