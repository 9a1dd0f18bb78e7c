"""Count what passes the gate: requests, tokens by kind and, given prices, money.

The numbers are read from the answers themselves (`message_start` and
`message_delta` in a stream, `usage` in a plain answer), so they include calls
that no client reports, such as those of subagents.

Each call is booked before it leaves and settled when its answer ends. One that was hung
up on costs what its answer said until then, or an estimate by its length and its time
if nothing came: who does not wait for the bill has one all the same. With a limit, a
call waits while it and those under way might pass it together; if they do all the
same, all but one are cut off. So a limit can be passed by one call, not by many.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from toolkit.errors import SandboxError

MAX_EVENT_BYTES = 4 * 1024 * 1024
KEPT_CALLS = 10_000
WAIT_SECONDS = 900.0
"""Longest wait of a call for those under way."""
_BYTES_A_TOKEN = 3
"""Text has three to four; on the low side, so that an estimate is on the high one."""
_INLINE_BYTES_A_TOKEN = 30
_LEAST_INLINE_TOKENS = 2_000
_DELTA_FRAME_BYTES = 85
"""What one delta of a stream is around its text."""
_TOKENS_A_SECOND = 200
"""Faster than models speak."""
_USUAL_OUTPUT = 8_000
"""What a call is expected to say at most. Clients allow much more than they mean to use."""


def estimate_call(model: str, body_bytes: int, inline_bytes: int, inline_count: int, max_tokens: int) -> ModelCall:
    """What one request may come to, told before it is answered; its output is the most that is allowed.

    `inline_bytes` of the body are `inline_count` pictures and documents, which are many bytes for few tokens.
    """
    inline = max(inline_count * _LEAST_INLINE_TOKENS, inline_bytes // _INLINE_BYTES_A_TOKEN)
    text = (body_bytes - inline_bytes) // _BYTES_A_TOKEN + 1
    return ModelCall(model=model, input=text + inline, output=max_tokens, is_estimate=True)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One billable answer of the model."""

    id: str = ""
    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    is_estimate: bool = False
    """Whether the answer broke off or never came, so that the API did not say all of this."""

    @property
    def tokens(self) -> int:
        """All four kinds together."""
        return self.input + self.output + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class GateUsage:
    """What went through the gate so far."""

    requests: int = 0
    """Requests passed on, whatever came of them."""
    refused: int = 0
    calls: int = 0
    """Answers of the model that carried usage."""
    unmetered: int = 0
    """Answers that should have carried usage and did not."""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: int = 0
    """The part of all tokens that is an estimate, for calls that were cut off."""
    usd: float | None = None
    """What the calls cost by the caller's prices; None when none were given."""

    @property
    def tokens(self) -> int:
        """All four kinds together."""
        return self.input + self.output + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class SpendLimit:
    """When to stop passing requests on. Money needs `price`, the cost of one call in dollars."""

    tokens: int | None = None
    """All four kinds together."""
    usd: float | None = None
    price: Callable[[ModelCall], float] | None = None

    def __post_init__(self) -> None:
        for name, value, kinds in (("tokens", self.tokens, int), ("usd", self.usd, int | float)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or value == math.inf):
                what = f"a spend limit's {name}={value!r} is nothing to count to"
                raise SandboxError(what, fix=f"Give a number above zero: {name}=…")
        if self.price is not None and not callable(self.price):
            raise SandboxError(
                f"a spend limit's price={self.price!r} is no function",
                fix="Give a function from one call to its cost in dollars: price=lambda call: …",
            )
        if self.usd is not None and self.price is None:
            raise SandboxError(
                "a spend limit in dollars has no prices",
                fix="Pass price=, a function from one call to its cost in dollars, or limit tokens instead",
            )
        if any(limit is not None and not limit > 0 for limit in (self.tokens, self.usd)):
            raise SandboxError("a spend limit is not above zero", fix="Give a positive number, or none at all")


@dataclass(slots=True, eq=False)
class Booking:
    """One call from before it leaves until it is settled."""

    estimate: ModelCall
    """What it may come to, with the most output it is allowed."""
    meter: Meter | None = None
    """Reads its answer, once there is one."""
    is_free: bool = True
    """Whether it cost nothing: it has not left yet, or the API refused it."""
    left: float = 0.0

    def leave(self) -> None:
        """It is on its way to the API."""
        self.is_free, self.left = False, time.monotonic()

    def stay(self) -> None:
        """It was refused and waits to be sent again: nothing is owed for it."""
        self.is_free = True

    @property
    def told(self) -> ModelCall | None:
        """What the API has said about it until now."""
        return self.meter.call if self.meter is not None else None

    def so_far(self) -> ModelCall:
        """What it has come to by now: as the API told it, and for the rest as one can guess."""
        if self.is_free:
            return ModelCall()
        most = self.estimate.output
        if self.meter is None or self.meter.call is None:
            spoken = round(_TOKENS_A_SECOND * (1 + time.monotonic() - self.left))
            return replace(self.estimate, output=min(most, spoken))
        return self.meter.so_far(most)

    def came_to(self) -> ModelCall | None:
        """What it has come to at its end: what its answer said, or its estimate where that broke off or never came.

        None where the API answered and said nothing of it.
        """
        if self.is_free:
            return ModelCall()
        return self.told if self.meter is not None and self.meter.is_complete else self.so_far()

    def expected(self) -> ModelCall:
        """What it will probably come to at most."""
        output = min(self.estimate.output, _USUAL_OUTPUT)
        if self.is_free:
            return replace(self.estimate, output=output)
        now = self.so_far()
        return replace(now, output=max(now.output, output))


class SpentError(Exception):
    """No further call may leave; the text says why."""


class Ledger:
    """The running account of one gate."""

    def __init__(self, limit: SpendLimit | None) -> None:
        self.limit = limit or SpendLimit()
        self.requests = 0
        self.refused = 0
        self.unmetered = 0
        self.calls: deque[ModelCall] = deque(maxlen=KEPT_CALLS)
        self._closed = GateUsage(usd=0.0 if self.limit.price else None)
        self._open: set[Booking] = set()
        self._line = asyncio.Lock()
        self._settled = asyncio.Event()

    @property
    def has_limit(self) -> bool:
        """Whether anything is judged here at all."""
        return self.limit.tokens is not None or self.limit.usd is not None

    async def book(self, estimate: ModelCall) -> Booking:
        """Enter a call before it leaves, once those under way leave enough for it; alone it may always go.

        Raises:
            SpentError: the limit is reached, or what is spent is not known.
            TimeoutError: the calls under way did not end in time.
        """
        booking = Booking(estimate)
        if self.has_limit:
            async with asyncio.timeout(WAIT_SECONDS), self._line:
                self.judge()
                while self._open and self._why_over(self._sum(one.expected() for one in (*self._open, booking))):
                    self._settled.clear()
                    await self._settled.wait()
                    self.judge()
        self._open.add(booking)
        return booking

    def settle(self, booking: Booking) -> None:
        """Enter what a call came to: what its answer said, or its estimate where that broke off or never came."""
        self._open.discard(booking)
        self._settled.set()
        if booking.is_free:
            return
        call = booking.came_to()
        if call is None:
            self.unmetered += 1
            return
        self.calls.append(call)
        self._closed = self._add(self._closed, call)

    def judge(self) -> None:
        """Say why no further request may pass, if that is so.

        Raises:
            SpentError: the limit is reached, or what is spent is not known.
        """
        if self.has_limit and self.unmetered:
            raise SpentError("an answer carried no usage, so what is spent is unknown")
        if (why := self._why_over(self.snapshot())) is not None:
            raise SpentError(why)

    def why_cut_off(self) -> str | None:
        """Why one of several calls under way has to end: together they have passed the limit."""
        if not self.has_limit or len(self._open) < 2:
            return None
        return self._why_over(self._sum(booking.so_far() for booking in self._open))

    def snapshot(self) -> GateUsage:
        """The account now, calls under way included as far as the API has counted them."""
        total = self._sum(booking.told for booking in self._open)
        return replace(total, requests=self.requests, refused=self.refused, unmetered=self.unmetered)

    def _sum(self, under_way: Iterable[ModelCall | None]) -> GateUsage:
        """The settled account, with calls that are not."""
        total = self._closed
        for call in under_way:
            total = total if call is None else self._add(total, call)
        return total

    def _why_over(self, account: GateUsage) -> str | None:
        limit = self.limit
        if limit.tokens is not None and account.tokens >= limit.tokens:
            estimated = f", {account.estimated} of them by estimate" if account.estimated else ""
            return f"the limit of {limit.tokens} tokens is reached ({account.tokens} used{estimated})"
        if limit.usd is not None and not (account.usd is not None and account.usd < limit.usd):
            return f"the limit of {limit.usd:g} USD is reached"
        return None

    def _add(self, total: GateUsage, call: ModelCall) -> GateUsage:
        usd = total.usd
        if self.limit.price is not None and usd is not None:
            usd += self._cost(call)
        return replace(
            total,
            calls=total.calls + 1,
            input=total.input + call.input,
            output=total.output + call.output,
            cache_read=total.cache_read + call.cache_read,
            cache_write=total.cache_write + call.cache_write,
            estimated=total.estimated + (call.tokens if call.is_estimate else 0),
            usd=usd,
        )

    def _cost(self, call: ModelCall) -> float:
        assert self.limit.price is not None
        try:
            return float(self.limit.price(call))
        except Exception:
            return float("inf")  # a call without a price must not count as free


class Meter:
    """Reads the usage of one answer while its bytes go by."""

    def __init__(self, *, is_stream: bool) -> None:
        self.call: ModelCall | None = None
        self._has_counts = False
        self._is_readable = True
        """Whether every count was one: what is no number could be any."""
        self._is_stream = is_stream
        self.is_complete = False
        """Whether the API has told everything it will about usage."""
        self._guessed_output = 0
        self._held = bytearray()
        self._is_skipping = False

    def so_far(self, most: int) -> ModelCall:
        """What the call has come to: the API's numbers, and its output by what was said, `most` at most."""
        call = self.call or ModelCall()
        if self.is_complete:
            return call
        return replace(call, output=max(call.output, min(self._guessed_output, most)), is_estimate=True)

    def feed(self, data: bytes) -> None:
        self._held += data
        if not self._is_stream:
            if len(self._held) > MAX_EVENT_BYTES * 16:
                self._held.clear()
            return
        end = self._held.rfind(b"\n")
        if end >= 0:
            lines = bytes(self._held[:end]).split(b"\n")
            del self._held[: end + 1]
            for line in lines[self._is_skipping :]:
                self._line(line)
            self._is_skipping = False
        if len(self._held) > MAX_EVENT_BYTES:
            self._held.clear()
            self._is_skipping = True

    def finish(self) -> None:
        """The API has ended its answer: read what a plain one says at its end."""
        if not self._is_stream and (message := _object(bytes(self._held))) is not None:
            self._message(message)
        # A stream that ends without its last event counts as cut off, unless it never said anything about usage.
        self.is_complete = self.is_complete or not self._is_stream or self.call is None
        if self.is_complete and not self._has_counts:
            self.call = None

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        if b"content_block_delta" in line:
            # How much was said comes at the end only; until then it is guessed from its length.
            self._guessed_output += 1 + max(0, len(line) - _DELTA_FRAME_BYTES) // _BYTES_A_TOKEN
        # A text delta may contain these words too; the parsed type decides.
        if b"message_start" in line or b"message_delta" in line:
            event = _object(line[5:])
            if event is None:
                return
            if event.get("type") == "message_start" and isinstance(event.get("message"), dict):
                self._message(event["message"])
            elif event.get("type") == "message_delta":
                self._usage(event.get("usage"))
                self.is_complete = isinstance(event.get("usage"), dict)

    def _message(self, message: dict[str, Any]) -> None:
        if isinstance(message.get("usage"), dict) and self._is_readable:
            self.call = ModelCall(id=str(message.get("id", "")), model=str(message.get("model", "")))
            self._usage(message["usage"])

    def _usage(self, usage: object) -> None:
        """Take over the numbers given: each is a total of the call so far, so it can only grow."""
        if isinstance(usage, dict) and self._is_readable:
            call = self.call or ModelCall()
            named = {
                "input": usage.get("input_tokens"),
                "output": usage.get("output_tokens"),
                "cache_read": usage.get("cache_read_input_tokens"),
                "cache_write": usage.get("cache_creation_input_tokens"),
            }
            known = {name: _count(value) for name, value in named.items() if value is not None}
            self._is_readable = None not in known.values()
            self._has_counts = self._has_counts or bool(known)
            grown = {name: max(getattr(call, name), value) for name, value in known.items() if value is not None}
            self.call = replace(call, **grown) if self._is_readable else None


def _count(value: object) -> int | None:
    """A number of tokens, rounded up; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return math.ceil(value)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
