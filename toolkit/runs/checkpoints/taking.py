"""Take the checkpoints of a run under way: one at the start of every turn, and whenever its caller asks.

That of a turn is taken while the CLI and the model are busy with the prompt; the first tool call
waits for it. A snapshot looks at every file once and stores what changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError, ToolkitError
from toolkit.runs.asking.guard import ALLOW, Verdict
from toolkit.runs.checkpoints.checkpoint import Checkpoint, add_checkpoint, checkpoints_of, next_number
from toolkit.runs.sessions.heads import last_whole_entry
from toolkit.runs.sessions.transcripts import SessionId, default_store

if TYPE_CHECKING:
    from toolkit.runs.spec import RunSpec
    from toolkit_workspace import WorkspaceSection


class Checkpoints:
    """Those of one run, while it lives. `warn` is told of what could not be taken by itself.

    Without a section there are none, nor for a transport that keeps no conversation.
    """

    def __init__(
        self,
        folder: Path = Path(),
        section: WorkspaceSection | None = None,
        warn: Callable[[str], None] = lambda what: None,
        *,
        spec: RunSpec | None = None,
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._is_kept = spec is not None and spec.transport is None
        self._section = section if self._is_kept else None
        self._warn = warn
        self._one_at_a_time = asyncio.Lock()
        self._under_way: asyncio.Task[None] | None = None

    def begin_turn(self, turn: int, message: str) -> None:
        """Begin to take the one of a turn, whose prompt is about to be sent."""
        if self._section is not None:
            self._under_way = asyncio.create_task(self._at_start(turn, message))

    async def _at_start(self, turn: int, message: str) -> None:
        try:
            await self.take(f"start of turn {turn}", turn, before=message)
        except (ToolkitError, OSError) as error:
            what = error.what if isinstance(error, ToolkitError) else str(error)
            self._warn(f"there is no checkpoint of turn {turn}: {what}")

    async def settled(self) -> None:
        """Wait until that of the turn is taken; also where nobody wants to wait any more, for the copy is in use."""
        cancelled: asyncio.CancelledError | None = None
        while self._under_way is not None and not self._under_way.done():
            try:
                await asyncio.wait({self._under_way})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def rule(self, tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        """Let no call run before the checkpoint of its turn is taken."""
        if self._under_way is not None:
            await asyncio.wait({self._under_way})
        return ALLOW

    async def take(self, label: str, turn: int, *, before: str | None = None, at: str | None = None) -> Checkpoint:
        """Take one now.

        Raises:
            RunError: there is no copy to remember.
            WorkspaceError: the copy cannot be read, or what it holds cannot be kept.
        """
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._take, label, turn, before, at)

    def _take(self, label: str, turn: int, before: str | None, at: str | None) -> Checkpoint:
        section = self._section
        if section is None:
            why = "it works on no copy" if self._is_kept else "its conversation is not kept"
            raise RunError(f"there can be no checkpoint of this run: {why}", fix="Give it a copy: run(…, workspace=…)")
        number, now = next_number(checkpoints_of(self._folder)), time.time()
        # What the agent's files may have together: more can only be files with holes, which are bytes once kept.
        most = None if self._spec is None else self._spec.limits.largest_workspace()
        shot = section.snapshot(f"checkpoint {number} of {self._folder.name}: {label}", most_bytes=most)
        taken = Checkpoint(number, label, now, turn, shot.changed, shot.number, before, at)
        add_checkpoint(self._folder, taken)
        return taken

    async def now(
        self, label: str, turn: int, session: str | None, sent: str | None, ended: Collection[str]
    ) -> Checkpoint:
        """Take one in the middle of a turn, or between two.

        `sent` is the prompt of the turn, `ended` are the calls of the turn whose results are known. Raises as `take`.
        """
        label, spec = label or f"in turn {turn}", self._spec
        if spec is None or self._section is None or session is None:  # nothing was said since the prompt was sent
            return await self.take(label, turn, before=sent)
        store = spec.store or default_store(spec.home)
        return await self.take(label, turn, at=await last_whole_entry(store, SessionId(session), ended))
