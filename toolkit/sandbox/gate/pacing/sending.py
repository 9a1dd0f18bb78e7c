"""Send one request at a pace, and send it again where it meets the API's limit.

A refused request has cost nothing, so it can be sent again as it is. Meanwhile the CLI waits for the head of its
answer. It gives a request up after six minutes and sends it again by itself (measured), so a wait here ends in half
of that: then the CLI gets the refusal and goes on as it does without a pace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from toolkit.sandbox.gate.http import Refused
from toolkit.sandbox.gate.pacing.pace import Pace
from toolkit.sandbox.gate.policy import asked_to_wait
from toolkit.sandbox.gate.upstream import Answer

LONGEST_WAIT = 180.0
"""Seconds that one request may wait here, all its tries together."""
_LARGEST_REFUSAL = 64 * 1024
_LIMITS = (429, 529)
_BUSY = 503


async def send_paced(pace: Pace, send: Callable[[], Awaitable[Answer]], on_refused: Callable[[], None]) -> Answer:
    """The answer to a request that `send` sends: the first that is not about the limit, or the last there was time for.

    `on_refused` is called when a try met the limit and another follows.

    Raises:
        Refused: its turn did not come in time. The CLI may try again.
    """
    loop = asyncio.get_running_loop()
    end, is_again, wait = loop.time() + LONGEST_WAIT, False, None
    while True:
        permit = await pace.admit(end - loop.time(), again=is_again, after=wait or 0.0)
        if permit is None:
            raise Refused(429, "rate", "the limit of the model API left no turn for this request in time")
        answer = await send()
        wait = asked_to_wait(answer.headers)
        permit.answered(answer.status, wait)
        if not is_limit(answer, wait) or loop.time() + (wait or 0.0) >= end:
            return answer
        is_again = True
        on_refused()
        await _read_away(answer)


def is_limit(answer: Answer, wait: float | None) -> bool:
    """Whether the API refused for the moment only: too many requests, or too much to do."""
    if (answer.headers.get("x-should-retry") or "").lower() == "false":
        return False
    return answer.status in _LIMITS or (answer.status == _BUSY and wait is not None)


async def _read_away(answer: Answer) -> None:
    """Read a refusal to its end, so that the connection can be used again; a long one is dropped with it."""
    try:
        seen = 0
        async for piece in answer.pieces():
            seen += len(piece)
            if seen > _LARGEST_REFUSAL:
                break
    finally:
        answer.close()
