"""The CLI processes of a run, one after the other: each goes on with the conversation, and the limits, of the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.checkpoints.taking import Checkpoints
from toolkit.runs.outcome.codes import Code
from toolkit.runs.prompts import Asked
from toolkit.runs.sessions.transcripts import SessionId, default_store, entry_ids
from toolkit.runs.spec import Limits, RunSpec
from toolkit.runs.storage.place import Place
from toolkit.runs.turn.ends import TurnEnd
from toolkit.runs.turn.engine import Engine
from toolkit.runs.turn.servers import Definitions

if TYPE_CHECKING:
    from toolkit.telemetry import RunTrace
    from toolkit.tools import Toolbox


class Engines:
    """At most one engine at a time. Opened and closed by one task: the SDK wants that."""

    def __init__(
        self,
        spec: RunSpec,
        boxes: list[Toolbox],
        place: Place,
        home: Path,
        emit: Callable[..., None],
        approvals: Approvals,
        locks: AsyncExitStack,
        trace: RunTrace | None,
        checkpoints: Checkpoints,
    ) -> None:
        self._spec = spec
        self._rest = (boxes, place, home, emit, approvals, locks, trace)
        self._checkpoints = checkpoints
        self._definitions = Definitions()
        self._engine: Engine | None = None
        self._count = 0
        self._session: str | None = None
        self._prompt: str | None = None
        """The message id of the prompt that was sent last."""
        self._usd = 0.0
        self._tokens = 0
        self._rounds = 0
        self.ready = asyncio.Event()
        """Set while an engine is open."""
        self.causes: dict[str, Any] = {}
        """What the last process and its jail told beside the messages."""

    @property
    def current(self) -> Engine | None:
        """The engine that is open."""
        return self._engine if self.ready.is_set() else None

    @property
    def is_over(self) -> bool:
        """Whether no further turn can be had: the CLI is gone, or is not to be trusted with one."""
        return self._engine is not None and self._engine.is_over

    @property
    def head_start(self) -> float:
        """Seconds since the prompt of the next turn was sent; 0 where it was not."""
        return 0.0 if self._engine is None else self._engine.head_start

    def begin_turn(self) -> None:
        """A new prompt: the rounds of model and tools count anew."""
        self._rounds = 0

    async def open(self, first: Asked | None = None) -> Engine:
        """The engine that is open, or a new one that goes on with the conversation; `first` is what its turn will ask.

        Raises as `Engine.open` does.
        """
        if self._engine is not None:
            return self._engine
        engine = Engine(self._next_spec(), *self._rest, self._count, self._checkpoints, self._definitions)
        self._engine = engine
        self._count += 1
        await engine.open(first)
        self.ready.set()
        return engine

    def count(self, end: TurnEnd) -> None:
        """Take what a try used from the limits of the next process."""
        self._usd += end.used.known_cost
        self._rounds += end.rounds or 0
        if self._engine is not None:
            self._session = self._engine.session or self._session
            self._prompt = self._engine.prompts[-1] if self._engine.has_begun else None

    async def close(self) -> None:
        """End the process and everything in its jail; nothing survives."""
        engine, self._engine = self._engine, None
        self.ready.clear()
        if engine is not None:
            self.causes = engine.raw_causes()
            self._tokens += engine.budget_used()
            self._spec = replace(self._spec, **engine.controls.changed) if engine.controls.changed else self._spec
            await engine.close()

    def used_up(self) -> Code | None:
        """The limit that leaves nothing for a further try; None where there is something left."""
        limits = self._spec.limits
        if limits.usd is not None and self._usd >= limits.usd:
            return "budget"
        if limits.tokens is not None and self._tokens >= limits.tokens:
            return "budget"
        return "turn_limit" if limits.turns is not None and self._rounds >= limits.turns else None

    async def knows_prompt(self) -> bool:
        """Whether the conversation holds the prompt that was sent last: then it must not be sent again."""
        if self._session is None or self._prompt is None:
            return False
        if self._spec.transport is not None:
            return True
        known = await entry_ids(self._spec.store or default_store(self._spec.home), SessionId(self._session))
        if not known:  # it was never written down, so it begins again
            self._session = None
        return self._prompt in known

    def _next_spec(self) -> RunSpec:
        """What the next process is asked to do: go on, with what is left of the limits."""
        if self._count == 0:
            return self._spec
        limits = self._spec.limits
        left: dict[str, Any] = {}
        if limits.usd is not None:
            left["usd"] = max(1e-6, limits.usd - self._usd)
        if limits.tokens is not None:
            left["tokens"] = max(1, limits.tokens - self._tokens)
        if limits.turns is not None:
            left["turns"] = max(1, limits.turns - self._rounds)
        limits = replace(limits, **left) if left else limits
        if self._session is None:
            return replace(self._spec, limits=limits)
        return replace(self._spec, limits=Limits(**limits.given()), resume=self._session, fork=False, at=None)  # type: ignore[arg-type]
