"""See one prompt through: ask, try again where that is not the agent's fault, verify, and send back what failed.

The agent's process has ended, with everything in its jail, before anything is verified: whatever
it left running cannot touch the verdict. The next attempt is another process that goes on
with the same conversation, in the same workspace, with what is left of the limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import WorkspaceError
from toolkit.runs.attempts.engines import Engines
from toolkit.runs.attempts.protect import Protected
from toolkit.runs.attempts.words import GO_ON, to_mend, why_unverified
from toolkit.runs.job.verify import Verify
from toolkit.runs.outcome.cause import cause_of
from toolkit.runs.outcome.codes import Code, End, code_of
from toolkit.runs.outcome.events import Tokens
from toolkit.runs.prompts import Asked
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place
from toolkit.runs.turn.ends import TurnEnd, together
from toolkit.runs.turn.engine import Try
from toolkit.tools import Deadline

if TYPE_CHECKING:
    from toolkit.runs.attempts.judging import Judgement

Tell = Callable[..., None]
"""Takes a stream, a kind and data: an event of the run."""


@dataclass(slots=True)
class _SoFar:
    """What one prompt has come to so far."""

    number: int
    deadline: Deadline | None
    ends: list[TurnEnd] = field(default_factory=list)
    has_begun: bool = False
    retries: int = 0
    verified: int = 0
    """How often it was verified."""
    tokens: Tokens = field(default_factory=Tokens)
    """Those of the attempt under way."""
    counted: int = 0
    """The ends that belong to earlier attempts."""
    seen: str | None = None
    """What the files were when they were verified last."""


class Attempts:
    """Sees the prompts of one run through, one after the other."""

    def __init__(self, spec: RunSpec, place: Place, protected: Protected, engines: Engines, home: Path, tell: Tell):
        self._spec = spec
        self._place = place
        self._protected = protected
        self._engines = engines
        self._home = home
        self._tell = tell
        self._number = 0
        self._unwanted = asyncio.Event()
        self._between: asyncio.Task[Any] | None = None

    @property
    def is_between(self) -> bool:
        """Whether no CLI runs because the launcher is at work: it verifies, or waits to try again."""
        return self._between is not None

    @property
    def number(self) -> int:
        """The turn that was begun last."""
        return self._number

    def interrupt(self) -> None:
        """End what the launcher does between two tries, and with it the turn."""
        self._unwanted.set()

    async def see_through(self, prompt: Asked, attachments: Sequence[Mapping[str, Any]] = ()) -> TurnEnd:
        """How the turn for a prompt ended, all its attempts together."""
        began, seconds = time.monotonic(), self._spec.limits.seconds
        self._number += 1
        self._unwanted.clear()
        self._engines.begin_turn()
        # The first prompt may have been sent while the SDK was still being loaded: its time runs from then on.
        turn = _SoFar(self._number, None if seconds is None else Deadline.after(seconds - self._engines.head_start))
        following: Asked | None = prompt
        while following is not None:
            code = await self._try(turn, following, attachments)
            if code == "ok":
                following = None if self._spec.verify is None else await self._verified(turn, self._spec.verify)
            else:
                following = await self._again(turn, code, following)
                attachments = attachments if following is prompt else ()
        whole = together(turn.ends)
        is_plain = self._spec.verify is None and turn.retries == 0
        return whole if is_plain else replace(whole, ms=round((time.monotonic() - began) * 1000))

    async def _try(self, turn: _SoFar, asked: Asked, attachments: Sequence[Mapping[str, Any]]) -> Code:
        """Ask once, in the process that is open or a new one."""
        engine = await self._engines.open()
        before = engine.used
        end = await engine.turn(asked, attachments, Try(turn.number, turn.deadline, turn.has_begun))
        turn.has_begun = turn.has_begun or engine.has_begun
        turn.tokens += engine.used - before
        turn.ends.append(end)
        self._engines.count(end)
        return self._code(end)

    def _code(self, end: TurnEnd) -> Code:
        code, shape = code_of(end.end), self._spec.shape()
        if code == "ok" and shape is not None and end.message is not None:
            try:
                shape.parse(end.message.structured_output)
            except ValueError:
                return "bad_output"
        return code

    async def _again(self, turn: _SoFar, code: Code, asked: Asked) -> Asked | None:
        """What to send after a failure that is not the agent's fault; None where it stays at that."""
        retry = self._spec.retry
        if retry is None or code not in retry.on or turn.retries >= retry.times:
            return None
        engine = self._engines.current
        delay = retry.delay(turn.retries, None if engine is None else engine.retry_after)
        is_late = turn.deadline is not None and delay is not None and delay >= turn.deadline.remaining()
        if delay is None or is_late:
            return None
        await self._engines.close()
        if self._engines.used_up() is not None:
            return None
        turn.retries += 1
        end = turn.ends[-1]
        self._tell(
            "lifecycle",
            "retry",
            attempt=turn.retries,
            of=retry.times,
            delay_ms=round(delay * 1000),
            status=end.end.api_status,
            error=cause_of(code, end.debug),
            code=code,
            used=_used(turn.ends),
        )
        if not await self._wait(asyncio.sleep(delay)):
            self._end(turn, "aborted")
            return None
        return Asked(GO_ON) if await self._engines.knows_prompt() else asked

    async def _verified(self, turn: _SoFar, verify: Verify) -> Asked | None:
        """Verify what the agent made; what to send it where that failed and it may try again."""
        await self._engines.close()
        seen = await self._look()
        if turn.verified and seen is not None and seen == turn.seen:
            self._end(turn, "unverified", "the last attempt changed nothing")
            return None
        turn.seen = seen
        turn.verified += 1
        found = await self._judge(turn, verify)
        if found is None or found.passed:
            return None
        why = why_unverified(verify, found, turn.verified)
        if turn.deadline is not None and turn.deadline.remaining() <= 0:
            self._end(turn, "deadline")
        elif found.error is not None or turn.verified >= verify.attempts:
            self._end(turn, "unverified", why)
        elif (used_up := self._engines.used_up()) is not None:
            self._end(turn, used_up, why)
        else:
            return Asked(to_mend(verify, found, turn.verified, self._protected.paths))
        return None

    async def _judge(self, turn: _SoFar, verify: Verify) -> Judgement | None:
        """The verdict, told as events; None where nobody wants it any more."""
        number, name = turn.verified, verify.name
        self._tell("verify", "started", attempt=number, of=verify.attempts, what=name, used=_used(turn.ends))
        from toolkit.runs.attempts.judging import judge

        work = asyncio.ensure_future(judge(self._spec, self._place, self._protected, self._home, turn.deadline))
        is_wanted = await self._wait(work)
        costs = [end.used.cost for end in turn.ends[turn.counted :]]
        facts: dict[str, Any] = {"attempt": number, "tokens": asdict(turn.tokens)}
        facts["cost"] = None if None in costs else sum(cost or 0.0 for cost in costs)
        turn.counted, turn.tokens = len(turn.ends), Tokens()
        if not is_wanted:
            self._tell("verify", "ended", **facts, passed=False, error="interrupted")
            self._end(turn, "aborted")
            return None
        found = work.result()
        facts |= {"passed": found.passed, "exit_code": found.exit_code, "output": found.output, "ms": found.ms}
        self._tell("verify", "ended", **facts, ended_by=found.ended_by, error=found.error)
        return found

    async def _wait(self, work: Any) -> bool:
        """Whether something came to its end before somebody interrupted it; then it is ended."""
        task = asyncio.ensure_future(work)
        self._between, unwanted = task, asyncio.ensure_future(self._unwanted.wait())
        try:
            await asyncio.wait({task, unwanted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._between = None
            unwanted.cancel()
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return not self._unwanted.is_set()

    async def _look(self) -> str | None:
        """What the files are now; None where that cannot be told, which is never "unchanged"."""
        from toolkit.runs.attempts.digest import digest_of_work

        try:
            return await asyncio.to_thread(digest_of_work, self._place)
        except (OSError, WorkspaceError):
            return None

    def _end(self, turn: _SoFar, code: Code, why: str = "") -> None:
        """The turn ends with this code, whatever the agent's own end was."""
        last = turn.ends[-1]
        debug = {**last.debug, "verify": why} if why else last.debug
        end: End = replace(last.end, guard=code)
        turn.ends[-1] = replace(last, end=end, debug=debug)


def _used(ends: Sequence[TurnEnd]) -> dict[str, Any]:
    """What the turn used until now beside its calls, for whoever reads the events of a run that was killed."""
    whole = together(ends)
    return {
        "cost": whole.used.cost,
        "known_cost": whole.used.known_cost,
        "unattributed": asdict(whole.used.unattributed),
        "models": {name: asdict(one) for name, one in whole.used.models.items()},
        "gate_tokens": whole.gate_tokens,
        "turns": whole.rounds,
    }
