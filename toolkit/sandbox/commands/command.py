"""Run one command in a jail of its own, from a program: proven first, watched, and gone when it ends.

There is neither a CLI nor a model API in it. Where domains are named there is a gate that leads
to these and nowhere else; without any there is no way out at all. Whatever the command leaves
running ends with the jail.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from toolkit.sandbox.bridge import PROXY_PORT, bridge
from toolkit.sandbox.confining import see_through
from toolkit.sandbox.gate.gate import Gate
from toolkit.sandbox.gate.refusals import Refusal
from toolkit.sandbox.jail.folder import JailFolder, sweep
from toolkit.sandbox.jail.launcher import OpenJail, open_jail
from toolkit.sandbox.jail.proof import demand_preflight, prove
from toolkit.sandbox.jail.walls import ENVIRONMENT, Jail
from toolkit.sandbox.jail.watchdog import Exceeded, Watchdog

_PIECE = 64 * 1024
_LAST_WORDS = 5.0
"""Seconds for what is still in the pipe when the last process is gone."""
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_PROXIES = {
    **{name: _PROXY for each in ("http_proxy", "https_proxy", "all_proxy") for name in (each, each.upper())},
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command in a jail ended."""

    exit_code: int
    """As a shell gives it: 128 and the signal's number for one that was killed."""
    ms: int
    is_late: bool
    """Whether it was ended because its time was over."""
    exceeded: Exceeded | None
    """The limit it was ended for, if it was."""
    not_enforced: tuple[str, ...]
    """Limits this machine cannot hold firmly."""


@dataclass(frozen=True, slots=True)
class JailCommand:
    """A command, the jail it runs in, and who hears of it."""

    command: Sequence[str]
    jail: Jail
    """What it sees; the gate and the variables that every jail has are added."""
    domains: Sequence[str] = ()
    """Hosts that it may reach, over https only."""
    seconds: float | None = None
    """When to end it; None waits as long as it takes."""
    on_output: Callable[[bytes], None] = field(default=lambda piece: None)
    """Gets what it prints, stdout and stderr together, as it comes."""
    on_refused: Callable[[Refusal], None] | None = None
    """Gets what the gate did not let through."""

    async def run(self) -> CommandEnd:
        """Run it to its end; when this is cancelled, everything in the jail ends first.

        Raises:
            SandboxError: the jail cannot be as it is described.
            UnconfinedError: the jail was not proven to hold; nothing was started.
        """
        demand_preflight()
        await asyncio.to_thread(sweep)
        folder = JailFolder()
        gate: Gate | None = None
        opening: asyncio.Future[tuple[OpenJail, Watchdog]] | None = None
        try:
            if self.domains:
                gate = Gate(None, None, folder.socket, proxy_path=folder.proxy, domains=self.domains)
                gate.on_refused = self.on_refused
                await gate.__aenter__()
            opening = asyncio.ensure_future(asyncio.to_thread(self._open, folder))
            opened, watchdog = await asyncio.shield(opening)
            return await self._see_it_through(opened, watchdog)
        finally:
            await see_through(_close(folder, gate, opening))

    def _open(self, folder: JailFolder) -> tuple[OpenJail, Watchdog]:
        proxies = _PROXIES if self.domains else {}
        environment = {**ENVIRONMENT, **proxies, **self.jail.environment}
        jail = replace(self.jail, has_gate=bool(self.domains), environment=environment)
        opened = open_jail(jail, folder)
        prove(opened).demand()
        watchdog = Watchdog(opened)
        watchdog.start()
        return opened, watchdog

    async def _see_it_through(self, opened: OpenJail, watchdog: Watchdog) -> CommandEnd:
        began = time.monotonic()
        line = [*bridge(has_proxy=bool(self.domains), waits=True), *self.command]
        process = await asyncio.create_subprocess_exec(
            opened.script,
            *line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
        )
        assert process.stdout is not None
        hearing = asyncio.ensure_future(self._hear(process.stdout))
        is_late = False
        try:
            try:
                async with asyncio.timeout(self.seconds):
                    code = await process.wait()
            except TimeoutError:
                is_late = True
            ms = round((time.monotonic() - began) * 1000)
            # What it left running holds its output open.
            await asyncio.to_thread(opened.folder.kill)
            code = await process.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await hearing
        finally:
            hearing.cancel()
            await asyncio.to_thread(watchdog.stop)
        end = 128 - code if code < 0 else code
        return CommandEnd(end, ms, is_late, watchdog.ended(end), opened.plan.not_enforced)

    async def _hear(self, output: asyncio.StreamReader) -> None:
        while piece := await output.read(_PIECE):
            self.on_output(piece)


async def _close(
    folder: JailFolder, gate: Gate | None, opening: asyncio.Future[tuple[OpenJail, Watchdog]] | None
) -> None:
    """End everything; a thread that still opens the jail cannot be cancelled, so it is waited for."""
    while opening is not None and not opening.done():
        await asyncio.to_thread(folder.kill)
        await asyncio.wait([opening], timeout=0.1)
    if opening is not None and not opening.cancelled() and opening.exception() is None:
        await asyncio.to_thread(opening.result()[1].stop)
    try:
        await asyncio.to_thread(folder.kill)
    finally:
        if gate is not None:
            await gate.aclose()
        await asyncio.to_thread(folder.close)


def shell(command: str) -> tuple[str, ...]:
    """A line as a person types it, as a command."""
    return ("/bin/bash", "-c", command)
