"""The caller's side of the way to its workers: their requests are answered from the store, several with one sync."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.caller.records import JournalStore
from toolkit.fleets.engine.asking import deliver
from toolkit.fleets.engine.cluster import Client
from toolkit.fleets.journals import AttendanceLostError

_REMEMBERED = 20_000
"""Answers that are kept for requests that come again."""
_PATIENCE = 15.0

Said = tuple[str, bool, Any]


class Desk:
    """Answers what workers ask, as long as it is open. A request that comes twice is done once."""

    def __init__(self, store: JournalStore, topic: str, may_answer: Callable[[], bool] = lambda: True) -> None:
        self._store = store
        self._topic = topic
        self._may_answer = may_answer
        """Whether no other caller can have taken over unseen: then it answers, not this one."""
        self._asked: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._answered: OrderedDict[str, Said] = OrderedDict()
        self._sending: set[asyncio.Task[None]] = set()

    def listen(self, client: Client) -> None:
        """Hear what workers ask through a cluster."""
        client.subscribe_topic(self._topic, self._hear)

    def _hear(self, event: tuple[float, Any]) -> None:
        said = event[1]
        if not isinstance(said, Mapping) or not all(
            isinstance(said.get(name), str) for name in ("word", "from", "name")
        ):
            return
        if isinstance(said.get("data", b""), bytes):
            self._asked.put_nowait(said)

    async def serve(self, client: Callable[[], Client]) -> None:
        """Answer until cancelled, through the connection that there is then."""
        try:
            while True:
                asked = [await self._asked.get()]
                while not self._asked.empty():
                    asked.append(self._asked.get_nowait())
                try:
                    answers = await asyncio.to_thread(self._answer, asked) if self._may_answer() else {}
                except AttendanceLostError:
                    return
                for address, some in answers.items() if self._may_answer() else ():
                    task = asyncio.ensure_future(_send(client(), address, some))
                    self._sending.add(task)
                    task.add_done_callback(self._sending.discard)
        finally:
            for task in self._sending:
                task.cancel()

    def _answer(self, asked: list[Mapping[str, Any]]) -> dict[str, list[Said]]:
        fresh = {str(one["word"]): one for one in asked if one["word"] not in self._answered}
        creates = [one for one in fresh.values() if one.get("what") == "create"]
        for one, said in zip(creates, self._created(creates), strict=True):
            self._answered[str(one["word"])] = said
        for word, one in fresh.items():
            if word not in self._answered:
                self._answered[word] = self._done(word, one)
        answers: dict[str, list[Said]] = {}
        for one in asked:
            answers.setdefault(str(one.get("from")), []).append(self._answered[str(one["word"])])
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return answers

    def _created(self, asked: list[Mapping[str, Any]]) -> list[Said]:
        records = [(str(one.get("name")), bytes(one.get("data") or b"")) for one in asked]
        words = [str(one["word"]) for one in asked]
        try:
            made = self._store.create_all(records)
        except AttendanceLostError:
            raise
        except RunError:  # one of them cannot be: each by itself
            return [self._done(word, one) for word, one in zip(words, asked, strict=True)]
        return [(word, True, is_new) for word, is_new in zip(words, made, strict=True)]

    def _done(self, word: str, one: Mapping[str, Any]) -> Said:
        name = str(one.get("name"))
        try:
            match one.get("what"):
                case "create":
                    return word, True, self._store.create(name, bytes(one.get("data") or b""))
                case "read":
                    return word, True, self._store.read(name)
                case "names":
                    return word, True, self._store.names(name)
                case "remove":
                    self._store.remove(name)
                    return word, True, None
                case other:
                    return word, False, f"a store cannot {other!r}"
        except AttendanceLostError:
            raise
        except RunError as error:
            return word, False, str(error)


async def _send(client: Client, address: str, answers: list[Said]) -> None:
    with contextlib.suppress(Exception):  # a worker that is gone needs no answer, and one that lives asks again
        async with asyncio.timeout(_PATIENCE):
            await client.run(deliver, answers, workers=[address], on_error="ignore")
