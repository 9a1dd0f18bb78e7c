"""Share the small files of a large copy with a second process: it gets as many as it can take, the rest stays here."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit_workspace.copying.second import Second, SecondGone, small_files
from toolkit_workspace.copying.small_files import Result
from toolkit_workspace.copying.target import Place
from toolkit_workspace.copying.transfer import SMALL

ENOUGH_FILES = 1_000
"""Only a copy of more files is worth a second process."""


@dataclass(slots=True, eq=False)
class Batch:
    """Some files of one folder."""

    names: list[str]
    source: int
    into: int
    place: Place
    is_first: bool
    """Whether these are the folder's first names."""
    is_shared: bool = False
    """Whether the second process has it, and its place is kept open."""


class Sharing:
    """Who copies which batch. What the second process does is reported when it says so, in between."""

    def __init__(self) -> None:
        self._second: Second | None = None
        self._is_tried = False
        self._seen = 0
        self._asked: deque[Batch] = deque()
        self._answered: deque[tuple[Batch, Result]] = deque()

    def copy(self, batch: Batch, room: int) -> Iterator[tuple[Batch, Result]]:
        """Have a batch copied, `room` bytes at most; yields what is done by now, this batch or earlier ones."""
        self._seen += len(batch.names)
        if self._seen > ENOUGH_FILES and not self._is_tried:
            self._is_tried, self._second = True, Second.start()
        room -= self.claimed()
        if not self._hand_over(batch, room):
            yield batch, small_files.copy(batch.names, batch.source, batch.into, room)
        self._receive(wait=False)
        yield from self._done()

    def finish(self) -> Iterator[tuple[Batch, Result]]:
        """Wait for all that is still to come."""
        self.settle()
        yield from self._done()

    def settle(self) -> None:
        """Wait until nothing is asked any more, so that what is claimed is what was written."""
        while self._asked:
            self._receive(wait=True)

    def claimed(self) -> int:
        """How many bytes batches that were not yet reported have written, or may write."""
        written = sum(host[0] for _, (_, files) in self._answered for _, _, host in files)
        return written + sum(_most(batch) for batch in self._asked)

    def unreported(self) -> Iterator[tuple[Batch, Result]]:
        """What was answered and waits to be reported."""
        yield from self._answered

    def close(self) -> None:
        """End the second process, whatever it was asked."""
        if self._second is not None:
            self._second.close()
            self._second = None

    def _hand_over(self, batch: Batch, room: int) -> bool:
        second, most = self._second, _most(batch)
        if second is None or second.is_busy or most > room:
            return False
        try:
            source, into = batch.place.expect(batch.source, batch.into)
        except OSError:
            return False
        if not second.ask(batch.names, source, into, most):
            batch.place.unexpect()
            return False
        batch.source, batch.into, batch.is_shared = source, into, True
        self._asked.append(batch)
        return True

    def _receive(self, *, wait: bool) -> None:
        """Take in the answers that are there; with `wait`, at least one."""
        while self._second is not None and self._asked:
            try:
                result = self._second.answer(wait=wait)
            except SecondGone:
                self._take_over()
                return
            if result is None:
                return
            self._answered.append((self._asked.popleft(), result))
            wait = False

    def _take_over(self) -> None:
        """Copy what the second process leaves behind: nothing of it is known, so nothing of it is kept."""
        assert self._second is not None
        self._second.close()
        self._second = None
        while self._asked:
            batch = self._asked[0]
            for name in batch.names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=batch.into)
            result = small_files.copy(batch.names, batch.source, batch.into, _most(batch))
            self._answered.append((self._asked.popleft(), result))

    def _done(self) -> Iterator[tuple[Batch, Result]]:
        while self._answered:
            yield self._answered.popleft()


def _most(batch: Batch) -> int:
    return SMALL * len(batch.names)
