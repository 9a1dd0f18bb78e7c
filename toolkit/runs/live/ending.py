"""How turns are ended and written down, and what is kept of them that no event can hold: changes and the output."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError, WorkspaceError
from toolkit.runs.attempts.protect import Protected, told
from toolkit.runs.delivery import deliver_run, why_not
from toolkit.runs.outcome.events import Event, Stream
from toolkit.runs.outcome.fold import Fold
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.storage.event_log import EventLog
from toolkit.runs.storage.place import Place
from toolkit.runs.storage.run_folder import RunFolder, cannot_store

if TYPE_CHECKING:
    from toolkit_workspace import Changes


class Ending:
    """Writes the end of each turn, and of the run, as far as the disk takes it."""

    def __init__(self, fold: Fold, log: EventLog, folder: RunFolder) -> None:
        self._fold = fold
        self._log = log
        self._folder = folder
        self.output: Any = None
        """The structured output of the turn that ended last."""
        self.changes: Changes | None = None
        self.delivery: dict[str, Any] | None = None
        """What became of the branch that was asked for."""
        self.unstored: str | None = None
        """Why something of the end could not be written down."""

    def turn(self, end: Event) -> None:
        """A turn is over."""
        try:
            self._log.append(end)
            self._folder.finished(self._fold.result(), self.changes)
        except OSError as error:  # a full disk: what cannot be stored is still given
            self._lost(error)

    def in_words(self, error: BaseException) -> BaseException:
        """What a turn failed by; where that is an event that cannot be written down, the result says so, too."""
        if not isinstance(error, OSError) or error.filename != os.fspath(self._log.path):
            return error
        self._lost(error, "an event of the run")
        return OSError(cannot_store(error, self._folder.folder, "an event of the run").what)

    def _lost(self, error: OSError, what: str = "the end of the run") -> None:
        """Something cannot be written down: the result says so, and there is no further turn."""
        if self.unstored is None:
            self.unstored = str(cannot_store(error, self._folder.folder, what))

    def of_turn(self) -> RunResult[Any]:
        """The result of the turn that ended last."""
        return self.with_objects(self._fold.turn())

    def of_run(self) -> RunResult[Any]:
        """The result of all turns."""
        return self.with_objects(self._fold.result())

    def with_objects(self, result: RunResult[Any]) -> RunResult[Any]:
        """A result with what events cannot hold."""
        kept = {"output": self.output, "changes": self.changes, "delivery": self.delivery}
        return dataclasses.replace(result, **kept, unstored=self.unstored, folder=self._folder.folder)

    async def look(self, place: Place) -> Changes | None:
        """What the agent changed so far; a workspace it made unreadable costs nobody the rest of the result."""
        try:
            return await asyncio.to_thread(place.changes)
        except WorkspaceError as error:
            self.warn(f"the changes cannot be told: {error.what}")
            return None

    def warn(self, what: str) -> None:
        """Tell something that the owner should know."""
        self.tell("lifecycle", "warning", what=what)

    def tell(self, stream: Stream, kind: str, **data: Any) -> None:
        """Something happened outside of a turn."""
        run = self._fold.run
        self._log.append(Event(stream, kind, time.time(), run, run, None, data))

    async def leave(self, place: Place, protected: Protected, branch: str | None = None) -> None:
        """See what changed now that nothing in the jail lives any more, make it a branch, let go of the copy."""
        try:
            await self._set_back(place, protected)
            changes = await self.look(place)
            if changes is not None:
                self.changes = changes
                await asyncio.to_thread(self._folder.finished, self._fold.result(), changes)
            if branch is not None:
                await self._deliver(place, branch)
            await asyncio.to_thread(place.release)
        except OSError as error:
            self._lost(error)
        except WorkspaceError as error:
            self.unstored = self.unstored or str(error)

    async def _deliver(self, place: Place, branch: str) -> None:
        """Make the branch that was asked for, or say why there is none."""
        result = self._fold.result()
        why = why_not(result)
        if why is None and place.section is not None:
            deliver = partial(deliver_run, place.section, self._folder.facts, result, name=branch)
            try:
                self.delivery = (await asyncio.to_thread(deliver)).to_json()
            except ToolkitError as error:
                why = str(error)
        self.delivery = self.delivery or {"branches": [], "why": why or "there is no copy"}
        self._folder.delivered(self.delivery)
        run = self._fold.run
        self._log.append(Event("lifecycle", "delivered", time.time(), run, run, None, self.delivery))

    async def _set_back(self, place: Place, protected: Protected) -> None:
        """What is protected goes back to what it was, whoever changed it; in place it is left, and told."""
        changed = await asyncio.to_thread(protected.changed, place.folder)
        if changed:
            is_copy = place.section is not None
            if is_copy:
                await asyncio.to_thread(protected.put_back, place.folder)
            self.warn(told(changed, is_restored=is_copy))
        await asyncio.to_thread(protected.forget)

    def close(self) -> None:
        """The run is over: nothing is written after this."""
        for close in (self._log.close, self._folder.close):
            try:
                close()
            except OSError as error:  # a full disk: what cannot be stored is still given
                self._lost(error)
