"""Count what passes the gate: requests, tokens by kind and, given prices, money.

The numbers are read from the answers themselves (`message_start` and
`message_delta` in a stream, `usage` in a plain answer), so they include calls
that no client reports, such as those of subagents. A call counts while it
streams; a limit is judged before each request, so calls already under way
finish and may pass it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toolkit.errors import SandboxError

MAX_EVENT_BYTES = 4 * 1024 * 1024
KEPT_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One billable answer of the model."""

    id: str = ""
    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

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
        if self.usd is not None and self.price is None:
            raise SandboxError(
                "a spend limit in dollars has no prices",
                fix="Pass price=, a function from one call to its cost in dollars, or limit tokens instead",
            )
        if any(limit is not None and not limit > 0 for limit in (self.tokens, self.usd)):
            raise SandboxError("a spend limit is not above zero", fix="Give a positive number, or none at all")


class Ledger:
    """The running account of one gate."""

    def __init__(self, limit: SpendLimit | None) -> None:
        self.limit = limit or SpendLimit()
        self.requests = 0
        self.refused = 0
        self.unmetered = 0
        self.calls: deque[ModelCall] = deque(maxlen=KEPT_CALLS)
        self._closed = GateUsage(usd=0.0 if self.limit.price else None)
        self._open: set[Meter] = set()

    def open(self, meter: Meter) -> None:
        self._open.add(meter)

    def close(self, meter: Meter) -> None:
        """Book a finished call."""
        self._open.discard(meter)
        call = meter.call
        if call is None:
            self.unmetered += 1
            return
        self.calls.append(call)
        self._closed = self._add(self._closed, call)

    def snapshot(self) -> GateUsage:
        """The account now, calls under way included."""
        total = self._closed
        for meter in self._open:
            if meter.call is not None:
                total = self._add(total, meter.call)
        return replace(total, requests=self.requests, refused=self.refused, unmetered=self.unmetered)

    def why_spent(self) -> str | None:
        """Why no further request may pass, or None."""
        limit = self.limit
        if limit.tokens is None and limit.usd is None:
            return None
        if self.unmetered:
            return "an answer carried no usage, so what is spent is unknown"
        now = self.snapshot()
        if limit.tokens is not None and now.tokens >= limit.tokens:
            return f"the limit of {limit.tokens} tokens is reached ({now.tokens} used)"
        if limit.usd is not None and not (now.usd is not None and now.usd < limit.usd):
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
        self._is_stream = is_stream
        self._held = bytearray()
        self._is_skipping = False

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
        """Read what a plain answer says at its end."""
        if not self._is_stream and (message := _object(bytes(self._held))) is not None:
            self._message(message)

    def _line(self, line: bytes) -> None:
        # A text delta may contain these words too; the parsed type decides.
        if line.startswith(b"data:") and (b"message_start" in line or b"message_delta" in line):
            event = _object(line[5:])
            if event is None:
                return
            if event.get("type") == "message_start" and isinstance(event.get("message"), dict):
                self._message(event["message"])
            elif event.get("type") == "message_delta":
                self._usage(event.get("usage"))

    def _message(self, message: dict[str, Any]) -> None:
        if isinstance(message.get("usage"), dict):
            self.call = ModelCall(id=str(message.get("id", "")), model=str(message.get("model", "")))
            self._usage(message["usage"])

    def _usage(self, usage: object) -> None:
        """Take over the numbers given: each is a total of the call so far, so it can only grow."""
        if isinstance(usage, dict):
            call = self.call or ModelCall()
            named = {
                "input": usage.get("input_tokens"),
                "output": usage.get("output_tokens"),
                "cache_read": usage.get("cache_read_input_tokens"),
                "cache_write": usage.get("cache_creation_input_tokens"),
            }
            known = {name: value for name, value in named.items() if isinstance(value, int)}
            self.call = replace(call, **{name: max(getattr(call, name), value) for name, value in known.items()})


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
