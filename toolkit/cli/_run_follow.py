"""Follow a run from the command line to its end, and end it when somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from toolkit.cli._ask import TerminalApprover
from toolkit.cli._run_display import Display
from toolkit.runs import LiveRun, RunResult, RunSpec, start

_SECOND = 1.0


async def follow(
    spec: RunSpec, *, terminal: int | None, print_line: Callable[[str], bool] | None = None
) -> RunResult[Any]:
    """See a run through: its tool calls on stderr, or every event to `print_line`.

    `terminal` is where a person can be asked. `print_line` says False when nobody reads any more.

    Raises:
        ToolkitError: the run cannot be as asked.
    """
    display = Display(terminal=sys.stderr.isatty(), asks_here=terminal is not None)
    if terminal is not None:
        spec = replace(spec, approve=TerminalApprover(terminal, display))
    live = start(spec)
    keys = _Keys(live)
    ticking = asyncio.create_task(_tick(display))
    try:
        async with live:
            async for event in live:
                keys.has_begun = True
                if print_line is None:
                    display.show(event)
                elif not print_line(event.to_json()):
                    print_line = _nobody
                    keys.press("nobody reads the events any more: interrupting")
                if event.name == "lifecycle.finished":
                    break
    except asyncio.CancelledError:
        if not keys.ended_it:
            raise
    finally:
        ticking.cancel()
        display.close()
    return await live.result()


class _Keys:
    """Ctrl-C once ends the turn and keeps what it gave; twice ends the run; a third time, the process."""

    def __init__(self, live: LiveRun[Any]) -> None:
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._interrupting: asyncio.Task[None] | None = None
        self.has_begun = False
        self.ended_it = False
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self.press)

    def press(self, why: str = "interrupting; Ctrl-C again ends it at once") -> None:
        """One more Ctrl-C."""
        assert self._main is not None
        if self.ended_it:
            os._exit(130)  # the jail dies with this process, and the stored run shows as crashed
        if self._interrupting is None and self.has_begun:
            click.echo(f"\r{why}", err=True)
            self._interrupting = self._loop.create_task(self._interrupt())
            return
        self.ended_it = True
        self._main.cancel()

    async def _interrupt(self) -> None:
        with contextlib.suppress(Exception):  # it has ended by itself meanwhile
            await self._live.interrupt()


async def _tick(display: Display) -> None:
    while True:
        await asyncio.sleep(_SECOND)
        display.tick()


def _nobody(line: str) -> bool:
    return True
