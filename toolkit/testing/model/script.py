"""Which turn answers which request, and what is wrong with a script at its end.

Turns with a `when` are asked first, in order; a request none of them wants
takes the next turn without one. Every turn is used once. A request that finds
no turn and a turn that finds no request are both the test's failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from toolkit.errors import TestingError
from toolkit.testing.model.request import Request, plain_result
from toolkit.testing.model.turns import Reply, Status, Turn, as_reply, text

_Step = Reply | Callable[[Request], Any]


class Script:
    """The turns of one scripted API and how far they have been used."""

    def __init__(self, turns: Sequence[Any], otherwise: Any = None) -> None:
        # The turns that are not used yet, by their number.
        self._left = {number: as_reply(turn, place=f"turn {number}") for number, turn in enumerate(turns, 1)}
        self._count = len(self._left)
        self._otherwise = None if otherwise is None else as_reply(otherwise, place="otherwise")
        self._refused: tuple[Request, Status] | None = None
        self.requests: list[Request] = []
        """The requests that were answered by a turn, or should have been."""
        self.side_requests: list[Request] = []
        """The requests that take no turn: side calls and token counts."""
        self.failure: TestingError | None = None
        """Why a request could not be answered, if one could not."""

    def answer(self, request: Request) -> Reply:
        """Take the turn for a request.

        A side call (no tools, and no turn asks for it) takes none; a request that finds
        no turn is answered with an error and remembered. A refusal holds: a client
        that asks the very same again is refused again.
        """
        try:
            number = self._waiting_for(request)
            if number is None and not request.tools:
                self.side_requests.append(request)
                return Turn([text("ok")])
            if self._refused is not None and _same(self._refused[0], request):
                return self._refused[1]
            self.requests.append(request)
            step = self._take(number, request)
            reply = step if isinstance(step, Turn | Status) else _call(step, request)
            self._refused = (request, reply) if isinstance(reply, Status) and not reply.retry else None
            return reply
        except TestingError as error:
            self.failure = self.failure or error
            # 500 ends a run at once; 400 would be tried again with fewer features switched on.
            return Status(500, message=f"scripted model: {error.what}")

    def problem(self) -> TestingError | None:
        """What is wrong with the script so far, or None: a failed request first, then turns left over."""
        if self.failure is not None or not self._left:
            return self.failure
        last = f"last request: {self.requests[-1].summary()}" if self.requests else "no model call arrived"
        if not self.requests and self.side_requests:
            last += f"; {len(self.side_requests)} call(s) without tools took no turn (when=… claims one)"
        return TestingError(
            f"the script was not used up: {len(self._left)} of {self._count} turns left",
            where=[*(f"turn {number}: {_describe(step)}" for number, step in self._left.items()), last],
            fix="Remove the turns that are not needed, or see why the model was not asked again.",
        )

    def _take(self, number: int | None, request: Request) -> _Step:
        if number is None:
            number = next((number for number, step in self._left.items() if _when(step) is None), None)
        if number is not None:
            return self._left.pop(number)
        if self._otherwise is not None:
            return self._otherwise
        waiting = [f"turn {number} waits: {_describe(step)}" for number, step in self._left.items()]
        raise TestingError(
            f"the script ran out: model call {len(self.requests)} has no turn",
            where=[
                *(waiting or [f"all {self._count} turns of the script are used"]),
                f"last request: {request.summary()}",
            ],
            fix="Add a turn for it, or otherwise=… for every call that no turn is written for.",
        )

    def _waiting_for(self, request: Request) -> int | None:
        for number, step in self._left.items():
            when = _when(step)
            if request.contains(when) if isinstance(when, str) else when is not None and _ask(when, request):
                return number
        return None


class Scripted:
    """Something that plays a script, and what a test asks it afterwards; leaving its `with` block checks the script.

    The same questions whether the model or the whole CLI was played, so that a test reads the same.
    """

    def __init__(self, script: Script, *, strict: bool) -> None:
        self.script = script
        """The turns, and how far they have been used."""
        self._strict = strict

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.raise_problem(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.raise_problem(error)

    @property
    def requests(self) -> Sequence[Request]:
        """The model calls so far, oldest first (without side calls)."""
        return tuple(self.script.requests)

    @property
    def side_requests(self) -> Sequence[Request]:
        """The calls that take no turn: side calls of the CLI (titles and the like) and token counts."""
        return tuple(self.script.side_requests)

    def tool_results(self) -> list[str | list[dict[str, Any]]]:
        """What the model read of every tool call, in order: a text, or blocks where there is more than text."""
        return [plain_result(block) for block in self.tool_result_blocks()]

    def tool_result_blocks(self) -> list[dict[str, Any]]:
        """The raw `tool_result` blocks (with `tool_use_id` and `is_error`), each call once."""
        found: dict[str, dict[str, Any]] = {}
        for request in self.requests:
            for block in request.tool_results():
                found.setdefault(str(block.get("tool_use_id")), block)
        return list(found.values())

    def system_prompt(self) -> str:
        """The system prompt of the last model call."""
        return self._last().system_prompt

    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools offered in the last model call, by name."""
        return self._last().tools

    def verify(self) -> None:
        """Raise if a call had no turn or a turn no call; leaving the `with` block does this too."""
        __tracebackhide__ = True  # pytest shows the test, not this
        if problem := self.script.problem():
            raise problem.with_traceback(None)

    def _last(self) -> Request:
        if not self.script.requests:
            raise TestingError("no model call has reached the scripted API", fix="Run the agent first.")
        return self.script.requests[-1]

    def raise_problem(self, error: BaseException | None = None) -> None:
        """Check the script at the end of a test that raised `error`, or none.

        Another error stays as it is, unless the script ran out: then that is its cause.
        """
        __tracebackhide__ = True
        if not self._strict:
            return
        if error is None:
            self.verify()
        elif self.script.failure is not None and isinstance(error, Exception) and error is not self.script.failure:
            raise self.script.failure.with_traceback(None) from error


def _ask(function: Callable[[Request], Any], request: Request) -> Any:
    """Call a function of the user's; what it raises becomes an error that shows the request."""
    try:
        return function(request)
    except Exception as error:
        raise TestingError(
            f"the script's function {_name(function)} failed: {type(error).__name__}: {error}",
            where=[f"last request: {request.summary()}"],
            fix="Mend the function; it gets the request, a dict as the client sent it.",
        ) from error


def _call(step: Callable[[Request], Any], request: Request) -> Reply:
    made = as_reply(_ask(step, request), place=f"what {_name(step)} returned")
    if isinstance(made, Turn | Status):
        return made
    raise TestingError(f"{_name(step)} returned another function", fix="Return blocks, a Turn or a Status.")


def _describe(step: _Step) -> str:
    when = _when(step)
    condition = "" if when is None else f" when {when!r}" if isinstance(when, str) else f" when {_name(when)}"
    if isinstance(step, Turn):
        named = ((block["type"], block.get("name") or block.get("text") or "") for block in step.blocks)
        return f"[{', '.join(f'{kind} {name}'.strip() for kind, name in named)}]"[:200] + condition
    if isinstance(step, Status):
        return f"Status({step.code}){condition}"
    return _name(step)


def _name(function: Callable[[Request], Any]) -> str:
    return f"{getattr(function, '__name__', repr(function))}()"


def _same(one: Request, other: Request) -> bool:
    """Whether a request is the same question of the same session, perhaps with fewer features switched on."""
    same_place = one.answers == other.answers and one.tool_results() == other.tool_results()
    return same_place and one.prompt == other.prompt and one.get("metadata") == other.get("metadata")


def _when(step: _Step) -> Any:
    return step.when if isinstance(step, Turn | Status) else None
