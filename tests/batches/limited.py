"""A scripted model that takes so many requests a second, and refuses the rest as the real API does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from toolkit.testing import Request, Status, text, tool_use

Blocks = list[dict[str, Any]]


def three_commands(request: Request) -> Blocks:
    """What most runs are like: a command, an answer, another command."""
    done = sum(message["role"] == "assistant" for message in request["messages"])
    return [tool_use("Bash", command=f"echo {done}")] if done < 3 else [text("Done.")]


class LimitedModel:
    """Answers with `says` as long as the limit is kept; else 429, asking to wait for a second.

    The first `refuses` requests are refused in any case, also on a machine too slow to reach the limit.
    """

    def __init__(
        self, per_second: float, says: Callable[[Request], Blocks] = three_commands, *, refuses: int = 0
    ) -> None:
        self._per_second = per_second
        self._says = says
        self._refuses = refuses
        self._lock = threading.Lock()
        self._free = max(1.0, per_second)
        self._looked = time.monotonic()
        self.asked = 0
        self.refused = 0

    def __call__(self, request: Request) -> Blocks | Status:
        with self._lock:
            now = time.monotonic()
            self._free = min(max(1.0, self._per_second), self._free + (now - self._looked) * self._per_second)
            self._looked = now
            self.asked += 1
            if self._free < 1.0 or self.asked <= self._refuses:
                self.refused += 1
                return Status(429, headers={"retry-after": "1"}, retry=True)
            self._free -= 1.0
        return self._says(request)
