"""How a turn ended: one TurnEnd of facts, also where several tries made up the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolkit.runs.outcome.codes import End
from toolkit.runs.outcome.result import PendingCall
from toolkit.runs.turn.meter import TurnUsage
from toolkit.sandbox import GATE_SAYS

if TYPE_CHECKING:
    from claude_agent_sdk import Message, ResultMessage


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one turn ended: all that its events do not tell."""

    end: End
    message: ResultMessage | None
    used: TurnUsage
    gate_tokens: int | None
    """Tokens that went through the gate since the turn before; None without a gate."""
    ms: int
    unenforced: tuple[str, ...]
    debug: dict[str, Any]
    pending: tuple[PendingCall, ...] = ()
    """The tool calls that were left to the caller."""
    rounds: int | None = None
    """Rounds of model and tools, as the CLI counts them; None where it did not tell."""


def together(ends: Sequence[TurnEnd]) -> TurnEnd:
    """One turn that was made up of several tries: the last one's end, and what all of them used."""
    last = ends[-1]
    gates = [one.gate_tokens for one in ends if one.gate_tokens is not None]
    rounds = [one.rounds for one in ends]
    return replace(
        last,
        used=sum_of([one.used for one in ends]),
        gate_tokens=sum(gates) if gates else None,
        ms=sum(one.ms for one in ends),
        rounds=None if None in rounds else sum(one or 0 for one in rounds),
    )


def sum_of(parts: Sequence[TurnUsage]) -> TurnUsage:
    """What several tries used together; the cost is not known where that of one is not."""
    first = parts[0]
    for part in parts[1:]:
        models = dict(first.models)
        for name, used in part.models.items():
            models[name] = used.plus(models.get(name))
        first = TurnUsage(
            first.unattributed + part.unattributed,
            None if first.cost is None or part.cost is None else first.cost + part.cost,
            first.known_cost + part.known_cost,
            models,
        )
    return first


def end_of(message: ResultMessage) -> End:
    """The end that the CLI's result message tells. What the gate refused says nothing about credentials."""
    is_by_gate = message.is_error and f"API Error: 403 {GATE_SAYS}" in (message.result or "")
    return End(
        subtype=message.subtype,
        is_error=message.is_error,
        terminal_reason=message.terminal_reason,
        api_status=None if is_by_gate else message.api_error_status,
        detail="\n".join(message.errors or ()),
    )


def refusal_of_prompt(message: Message) -> str | None:
    """Why a hook kept the prompt from the model, in the CLI's remark about that; None of any other message."""
    data: dict[str, Any] = getattr(message, "data", {})
    outcome = data.get("prompt_submit_outcome")
    if not outcome or not data.get("prevent_continuation"):
        return None
    return str(outcome.get("reason") or "A hook of this run stopped it before the model was asked")


def debug_of(message: ResultMessage | None, end: End) -> dict[str, Any]:
    """The raw texts of an end."""
    debug: dict[str, Any] = {"hook": end.kept_back, "error": end.error, "detail": end.detail}
    if message is not None:
        debug |= {
            "subtype": message.subtype,
            "terminal_reason": message.terminal_reason,
            "api_status": message.api_error_status,
            "errors": message.errors,
            "result": message.result if message.is_error else None,
        }
    return {name: value for name, value in debug.items() if value}


async def finished(pump: asyncio.Task[tuple[ResultMessage | None, End]]) -> tuple[ResultMessage | None, End]:
    """What the task that reads the messages came to; one that is not done is ended."""
    if not pump.done():
        pump.cancel()
    try:
        return await pump
    except asyncio.CancelledError:
        return None, End(error="CancelledError")
