"""How a turn ended becomes the caller's `RunResult`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError, UnconfinedError
from toolkit.runs.outcome.codes import End, code_of
from toolkit.runs.outcome.output import OutputShape
from toolkit.runs.outcome.result import DeniedCall, PendingCall, RunResult
from toolkit.runs.sessions.resume import NoSessionError
from toolkit.runs.turn.engine import TurnEnd
from toolkit.runs.turn.translate import Translator

if TYPE_CHECKING:
    from toolkit_workspace import Changes


def conclude(
    run: str,
    turn: TurnEnd,
    translator: Translator,
    shape: OutputShape | None,
    *,
    changes: Changes | None,
    unenforced: tuple[str, ...],
) -> RunResult[Any]:
    """The result of one turn."""
    message, end, debug = turn.message, turn.end, dict(turn.debug)
    output = None
    if shape is not None and message is not None and not message.is_error:
        try:
            if message.structured_output is None:
                raise ValueError("the model called no StructuredOutput")
            output = shape.parse(message.structured_output)
        except ValueError as error:
            end = dataclasses.replace(end, output_missing=True)
            debug |= {"output": str(error), "said": message.result}
    said = translator.text
    # The CLI's result holds only the last block of the last message: take it where it is not the end of what was said.
    if message is not None and not message.is_error and message.result and not said.endswith(message.result):
        said = message.result
    return RunResult(
        run=run,
        code=code_of(end),
        text=said,
        output=output,
        session=(message.session_id if message is not None else None) or translator.session,
        stop=(message.stop_reason if message is not None else None) or translator.stop,
        calls=turn.usage.calls,
        total=turn.usage.total,
        unattributed=turn.usage.unattributed,
        cost=turn.usage.cost,
        ms=turn.ms,
        tools=tuple(translator.tools),
        denied=_denied(turn, translator),
        pending=_pending(turn),
        changes=changes,
        unenforced=unenforced,
        model=translator.model,
        debug=debug,
    )


def failed(so_far: RunResult[Any] | str, error: BaseException) -> RunResult[Any]:
    """The result of a turn that an exception ended, with what its events tell; by its id, of a run that never began."""
    if isinstance(so_far, str):
        so_far = RunResult(run=so_far, code="internal")
    end = End(error=type(error).__name__, detail=str(error))
    code = "bad_request" if is_refusal(error) else code_of(end)
    return dataclasses.replace(so_far, code=code, debug={"error": end.error, "detail": end.detail})


def is_refusal(error: BaseException) -> bool:
    """Whether an error of ours says that the run cannot be as asked; one that has a code of its own is a result."""
    return isinstance(error, ToolkitError) and not isinstance(error, UnconfinedError | NoSessionError)


def merged(results: list[RunResult[Any]]) -> RunResult[Any]:
    """The result of a run of several turns: the last one's end, everything they used."""
    last = results[-1]
    if len(results) == 1:
        return last
    total, unattributed = results[0].total, results[0].unattributed
    for result in results[1:]:
        total, unattributed = total + result.total, unattributed + result.unattributed
    return dataclasses.replace(
        last,
        total=total,
        unattributed=unattributed,
        calls=tuple(call for result in results for call in result.calls),
        tools=tuple(use for result in results for use in result.tools),
        denied=tuple(denied for result in results for denied in result.denied),
        cost=sum(result.cost for result in results),
        ms=sum(result.ms for result in results),
    )


def _denied(turn: TurnEnd, translator: Translator) -> tuple[DeniedCall, ...]:
    names = {use.id: use.name for use in translator.tools}
    reasons = {id: reason for id, reason in translator.denied.items() if id in names}
    for denial in (turn.message.permission_denials or ()) if turn.message is not None else ():
        names[denial["tool_use_id"]] = denial["tool_name"]
        reasons.setdefault(denial["tool_use_id"], translator.denied.get(denial["tool_use_id"], "refused by the CLI"))
    return tuple(DeniedCall(id, names[id], reason) for id, reason in reasons.items())


def _pending(turn: TurnEnd) -> tuple[PendingCall, ...]:
    deferred = turn.message.deferred_tool_use if turn.message is not None else None
    return () if deferred is None else (PendingCall(deferred.id, deferred.name, deferred.input),)
