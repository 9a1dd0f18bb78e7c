"""Exact usage: every model call once, with the numbers the API itself gave.

One model call arrives as several assistant messages that all repeat its input
and freeze its output, so those are never counted. What counts are the API's
`message_start` and `message_delta`, keyed by message id. What no such event
explains (subagents and compaction stream none) is the difference to the CLI's
own totals, which are cumulative for its process and leave out calls that were cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.runs.outcome.events import Call, Tokens


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


class Meter:
    """Counts the calls of one CLI process, and the share of one turn in its totals."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, tuple[str, Tokens]] = {}
        self._calls: list[Call] = []
        self._counted: set[str] = set()
        self._complete = Tokens()
        self._unattributed = Tokens()
        self._settled = Tokens()
        self._cost = 0.0
        self._turn_start = 0

    def started(self, message: str, model: str, usage: Mapping[str, Any] | None) -> None:
        """A model call has begun."""
        self._open[message] = (model, tokens_of(usage))

    def ended(self, message: str, usage: Mapping[str, Any] | None) -> Call | None:
        """A model call is over; None if it is not open, or a call of that id was counted before."""
        call = self._close(message, usage)
        if call is not None:
            self._complete += call.tokens
        return call

    def cut_off(self) -> list[Call]:
        """The calls that never ended, with what is known of them."""
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
        call = Call(message, model, count.input, count.output, count.cache_read, count.cache_write, self._run)
        self._calls.append(call)
        return call

    @property
    def used(self) -> Tokens:
        """All tokens so far, calls under way included."""
        total = self._settled
        for call in self._calls[self._turn_start :]:
            total += call.tokens
        for _, tokens in self._open.values():
            total += tokens
        return total

    @property
    def cost(self) -> float:
        """Dollars in the last report of the CLI."""
        return self._cost

    def settle(self, model_usage: Mapping[str, Mapping[str, Any]] | None, cost: float | None) -> TurnUsage:
        """Close a turn: its calls, its tokens by the CLI's totals, and its cost."""
        calls = tuple(self._calls[self._turn_start :])
        explained = Tokens()
        for call in calls:
            explained += call.tokens
        now = _process_total(model_usage)
        unattributed = Tokens() if now is None else _excess(now, self._complete + self._unattributed)
        spent = max(0.0, (cost or 0.0) - self._cost)
        self._unattributed += unattributed
        self._settled += explained + unattributed
        self._cost += spent
        self._turn_start = len(self._calls)
        return TurnUsage(calls, explained + unattributed, unattributed, spent)


class TurnUsage:
    """What one turn used."""

    __slots__ = ("calls", "cost", "total", "unattributed")

    def __init__(self, calls: tuple[Call, ...], total: Tokens, unattributed: Tokens, cost: float) -> None:
        self.calls = calls
        self.total = total
        self.unattributed = unattributed
        self.cost = cost


def _excess(whole: Tokens, part: Tokens) -> Tokens:
    """What the whole has more than the part, of each kind."""
    return Tokens(*(max(0, getattr(whole, name) - getattr(part, name)) for name in Tokens.__slots__))


def _process_total(model_usage: Mapping[str, Mapping[str, Any]] | None) -> Tokens | None:
    if not model_usage:
        return None
    total = Tokens()
    for used in model_usage.values():
        total += Tokens(
            input=used.get("inputTokens", 0),
            output=used.get("outputTokens", 0),
            cache_read=used.get("cacheReadInputTokens", 0),
            cache_write=used.get("cacheCreationInputTokens", 0),
        )
    return total
