"""Tools that do not end, for the bench of how soon the process does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

from toolkit import Toolbox, tool


@tool
def blocked() -> str:
    """Block a thread for ever."""
    threading.Event().wait()
    return ""


@tool
async def stubborn() -> str:
    """Swallow every cancellation."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


@tool
async def hogging() -> str:
    """Block the event loop."""
    time.sleep(60)  # noqa: ASYNC251
    return ""


box = Toolbox("stuck", [blocked, stubborn, hogging])
