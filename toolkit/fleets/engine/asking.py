"""The worker's side of the way to the caller: a store whose every request goes through Dask.

A request is an event of the batch's topic, which the scheduler passes on to the caller; the answer is a function that
the caller has run on this worker. A request is sent again until it is answered, and done once: it has a name.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import StoreError

PATIENCE = 20.0
"""Seconds after which a caller that has not answered is not there."""
_AGAIN = 5.0

_waiting: dict[str, Future[tuple[bool, Any]]] = {}
"""The requests of this process that have no answer yet."""


def deliver(answers: Sequence[tuple[str, bool, Any]]) -> None:
    """Hand answers to those who wait: the request's name, whether it was done, and what came of it."""
    for name, is_done, answer in answers:
        future = _waiting.get(name)
        if future is not None and not future.done():
            future.set_result((is_done, answer))


class CallerStore:
    """The store of whoever called for the batch, as a worker reaches it."""

    def __init__(self, topic: str, worker: Any, patience: float = PATIENCE) -> None:
        self._topic = topic
        self._worker = worker
        self._patience = patience

    def create(self, name: str, data: bytes) -> bool:
        """Make a record."""
        return bool(self._ask("create", name, data))

    def read(self, name: str) -> bytes | None:
        """A record's content."""
        answer = self._ask("read", name)
        return None if answer is None else bytes(answer)

    def names(self, folder: str) -> list[str]:
        """The full names of all records below a folder."""
        return [str(name) for name in self._ask("names", folder)]

    def remove(self, name: str) -> None:
        """Take a record away."""
        self._ask("remove", name)

    def _ask(self, what: str, name: str, data: bytes = b"") -> Any:
        word, future = secrets.token_hex(8), Future[tuple[bool, Any]]()
        _waiting[word] = future
        until = time.monotonic() + self._patience
        said = {"word": word, "from": self._worker.address, "what": what, "name": name, "data": data}
        try:
            while (left := until - time.monotonic()) > 0:
                self._worker.log_event(self._topic, said)
                try:
                    is_done, answer = future.result(min(left, _AGAIN))
                except TimeoutError:
                    continue
                if not is_done:
                    raise RunError(str(answer))
                return answer
        finally:
            _waiting.pop(word, None)
        raise StoreError("whoever called for the batch does not answer", where=[f"{what} {name}"])
