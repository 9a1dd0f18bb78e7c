"""What the model calls of one CLI process used: each call, each turn, each model.

Meter counts with the numbers the API itself gave. One model call arrives as several
assistant messages that all repeat its input and freeze its output, so those are never
counted. What counts are the API's `message_start` and `message_delta`, keyed by message
id. What no such event explains (subagents and compaction stream none) is the difference
to the CLI's own totals. Those are cumulative for its process and leave out calls that were
cut off, so the cost of a turn with such a call is not known: the CLI's is the least it can be.
Neither is that of a turn in which more went through the gate than the CLI tells of, nor the
cost of a model for which the CLI has no price.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolkit.runs.outcome.events import Call, ModelUse, Tokens

ModelUsage = Mapping[str, Mapping[str, Any]]
"""The CLI's totals for each model."""


class TurnUsage(NamedTuple):
    """What one turn used beside its calls."""

    unattributed: Tokens
    """Tokens that no call explains."""
    cost: float | None
    """In dollars; None where it is not known, or only a part of it."""
    known_cost: float
    """The part that is known."""
    models: dict[str, ModelUse]
    """What each model used, as the CLI counts it."""


class Meter:
    """Counts the calls of one CLI process, and the share of one turn in its totals."""

    def __init__(self, run: str, attempt: int = 0) -> None:
        self._run = run
        self._attempt = attempt
        """How many CLI processes the run had before: an id of the API may come again in another."""
        self._open: dict[str, tuple[str, Tokens]] = {}
        self._counted: set[str] = set()
        self._explained = Tokens()
        self._complete = Tokens()
        """The part of the explained tokens that is also in the CLI's totals: calls that came to their end."""
        self._unattributed = Tokens()
        self._cost = 0.0
        self._models: dict[str, ModelUse] = {}
        """The CLI's totals at the end of the last turn."""
        self._was_cut_off = False
        self._is_awaited = False
        """Whether a request was sent whose answer has not begun."""
        self._beyond = 0
        """Tokens that went through the gate until the last turn's end, and that the CLI did not tell of."""

    def asked(self) -> None:
        """The CLI sends a request."""
        self._is_awaited = True

    def started(self, message: str, model: str, usage: Mapping[str, Any] | None) -> None:
        """A model call has begun."""
        self._is_awaited = False
        self._open[message] = (model, tokens_of(usage))

    def ended(self, message: str, usage: Mapping[str, Any] | None, *, is_whole: bool = True) -> Call | None:
        """A model call is over; None if it is not open, or a call of that id was counted before.

        One that is not whole was interrupted: the CLI closes its stream, and leaves it out of its totals.
        """
        self._was_cut_off = self._was_cut_off or (not is_whole and message in self._open)
        call = self._close(message, usage)
        if call is not None and is_whole:
            self._complete += call.tokens
        return call

    def cut_off(self) -> list[Call]:
        """The calls that never ended, with what is known of them."""
        self._was_cut_off = self._was_cut_off or bool(self._open)
        calls = (self._close(message, None) for message in list(self._open))
        return [call for call in calls if call is not None]

    def _close(self, message: str, usage: Mapping[str, Any] | None) -> Call | None:
        if message not in self._open:
            return None
        model, first = self._open.pop(message)
        if message in self._counted:  # a bill is keyed by this id: what comes under it again is unattributed
            return None
        self._counted.add(message)
        count = latest(first, tokens_of(usage))
        self._explained += count
        counts = (count.input, count.output, count.cache_read, count.cache_write)
        return Call(message, model, *counts, self._run, self._attempt)

    @property
    def used(self) -> Tokens:
        """All tokens so far, calls under way included."""
        total = self._explained + self._unattributed
        for _, tokens in self._open.values():
            total += tokens
        return total

    def close_turn(
        self,
        model_usage: ModelUsage | None,
        cost: float | None,
        *,
        has_begun: bool = True,
        is_aborted: bool = False,
        through_gate: int = 0,
    ) -> TurnUsage:
        """What the turn used, by the CLI's totals for its process, and what of it no call explains.

        A turn that the CLI has not begun asked the model for nothing; one that was aborted may have left a request
        without its answer. `through_gate` are all tokens that went through the gate until now.
        """
        models = {name: _model_use(used) for name, used in (model_usage or {}).items()}
        unattributed = Tokens()
        if models:
            now = sum((used.tokens for used in models.values()), Tokens())
            unattributed = _excess(now, self._complete + self._unattributed)
        share = {name: used.since(self._models.get(name)) for name, used in models.items()}
        is_guessed = any(share[name].tokens.total for name, used in (model_usage or {}).items() if not _has_price(used))
        self._unattributed += unattributed
        beyond = max(self._beyond, through_gate - self.used.total)
        is_whole = not self._was_cut_off and not (is_aborted and self._is_awaited) and beyond == self._beyond
        is_known = is_whole and not is_guessed and (cost is not None or not has_begun)
        spent = max(0.0, (cost or 0.0) - _guesses(model_usage) - self._cost)
        of_this_turn = {name: part for name, part in share.items() if part.tokens.total or name not in self._models}
        self._beyond = beyond
        self._cost += spent
        self._models |= models
        self._was_cut_off = self._is_awaited = False
        return TurnUsage(unattributed, spent if is_known else None, spent, of_this_turn)


def tokens_of(usage: Mapping[str, Any] | None) -> Tokens:
    """The tokens in an API `usage` object."""
    given = usage or {}
    return Tokens(
        input=given.get("input_tokens") or 0,
        output=given.get("output_tokens") or 0,
        cache_read=given.get("cache_read_input_tokens") or 0,
        cache_write=given.get("cache_creation_input_tokens") or 0,
    )


def latest(first: Tokens, last: Tokens) -> Tokens:
    """The count of a call from its start and its end: the end repeats only some of the numbers."""
    return Tokens(*(getattr(last, name) or getattr(first, name) for name in Tokens.__slots__))


def _excess(whole: Tokens, part: Tokens) -> Tokens:
    """What the whole has more than the part, of each kind."""
    return Tokens(*(max(0, getattr(whole, name) - getattr(part, name)) for name in Tokens.__slots__))


def _guesses(model_usage: ModelUsage | None) -> float:
    """The part of the CLI's cost that is for models whose price it does not know: it counts them as another's."""
    return sum(used.get("costUSD") or 0.0 for used in (model_usage or {}).values() if not _has_price(used))


def _has_price(used: Mapping[str, Any]) -> bool:
    return used.get("costBasis") != "unknown"


def _model_use(used: Mapping[str, Any]) -> ModelUse:
    return ModelUse(
        input=used.get("inputTokens") or 0,
        output=used.get("outputTokens") or 0,
        cache_read=used.get("cacheReadInputTokens") or 0,
        cache_write=used.get("cacheCreationInputTokens") or 0,
        cost=used.get("costUSD") if _has_price(used) else None,
        context_window=used.get("contextWindow"),
        max_output=used.get("maxOutputTokens"),
    )
