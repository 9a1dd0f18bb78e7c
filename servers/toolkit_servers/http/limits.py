"""How much a client may ask for at once, and how slowly it may ask. Each limit has its status and its reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from toolkit.errors import ToolkitError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an HTTP server; what goes past one of them is refused, the rest goes on."""

    max_body: int = 64 * 1024 * 1024
    """Bytes of a request's body; more is 413."""
    max_headers: int = 32 * 1024
    """Bytes of a request's headers; more is 431."""
    max_connections: int = 2000
    """Open connections; the next one gets 503."""
    max_calls: int = 1000
    """Requests under way in all; the next one gets 503."""
    max_calls_per_client: int = 250
    """Requests under way for one client, which is a token or, without tokens, an address; the next one gets 429."""
    max_sessions: int = 10_000
    """Open sessions of the handshake era; the next one gets 503."""
    header_seconds: float = 10.0
    """For the headers of a request, from the first byte or from the connection on; longer is 408."""
    body_seconds: float = 60.0
    """For the body of a request; longer is 408."""
    write_seconds: float = 60.0
    """That a client may leave an answer unread; then its connection is closed."""
    idle_seconds: float = 30.0
    """That a connection may be open between two requests; then it is closed."""
    session_seconds: float = 1800.0
    """That a session may go without a request; then it ends."""
    end_seconds: float = 10.0
    """That calls under way have to finish when the server is asked to end."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ToolkitError(f"the limit {field.name} is {value!r}", fix="Give a number above 0")


class InFlight:
    """Requests under way, in all and for each client."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.total = 0
        self._of_client: Counter[str] = Counter()
        self._on_idle: asyncio.Event | None = None

    def refusal(self, client: str) -> tuple[int, str] | None:
        """The status and the reason why this client's next request cannot be taken now; None when it can."""
        limits = self._limits
        if self._of_client[client] >= limits.max_calls_per_client:
            return 429, f"{limits.max_calls_per_client} requests of this client are under way; wait for one to end"
        if self.total >= limits.max_calls:
            return 503, f"{limits.max_calls} requests are under way; try again"
        return None

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Count a request while it is under way."""
        self.total += 1
        self._of_client[client] += 1
        try:
            yield
        finally:
            self.total -= 1
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]
            if not self.total and self._on_idle is not None:
                self._on_idle.set()

    async def idle(self, seconds: float) -> None:
        """Wait until none is under way, at most so long; raises TimeoutError when some still are."""
        if self.total:
            self._on_idle = asyncio.Event()
            async with asyncio.timeout(seconds):
                await self._on_idle.wait()
