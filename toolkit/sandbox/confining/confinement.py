"""A jail with a CLI in it, a gate and a watchdog: open as long as a block, and proven before it is entered."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from toolkit.errors import SandboxError
from toolkit.sandbox.confining.litter import remove_litter
from toolkit.sandbox.gate.gate import Gate
from toolkit.sandbox.jail.folder import JailFolder, sweep
from toolkit.sandbox.jail.launcher import OpenJail, open_jail, write_script
from toolkit.sandbox.jail.machine import find_program, writing_in
from toolkit.sandbox.jail.proof import CheckReport, demand_preflight, prove
from toolkit.sandbox.jail.walls import BIN, PATH, Jail
from toolkit.sandbox.jail.watchdog import Exceeded, Watchdog
from toolkit.sandbox.lending.nested import nested_bwrap
from toolkit.sandbox.lending.quick import QUICK_NPM, quick_bwrap, quick_socat
from toolkit.sandbox.limits import HeldLimit
from toolkit.sandbox.relay import PROGRAM, SOCKET_NAME, Heard, Relay, relay_program

_T = TypeVar("_T")


class Confinement:
    """A jail that is open as long as its `async with` block; `confine` makes one."""

    def __init__(
        self,
        jail: Jail,
        *,
        settings: str,
        tools: Sequence[str],
        command: Sequence[str],
        make_gate: Callable[[Path, Path], Gate],
        own_git: bool = False,
        has_domains: bool = False,
        heard: Heard | None = None,
    ) -> None:
        self._jail = jail
        self._settings = settings
        self._tools = tuple(tools)
        self._command = command
        self._make_gate = make_gate
        self._own_git = own_git
        self._has_domains = has_domains
        self._heard = heard
        self._relay: Relay | None = None
        self._folder: JailFolder | None = None
        self._gate: Gate | None = None
        self._report: CheckReport | None = None
        self._watchdog: Watchdog | None = None
        self._had_claude_folder = (jail.workspace / ".claude").exists()
        self.when_open: Callable[[], Awaitable[None]] | None = None
        """Called once commands can be started in the jail, and before it is proven: whatever is started then is told
        nothing until the block is entered, and gone where that fails."""

    @property
    def workspace(self) -> Path:
        """The folder the agent works in, the same inside and outside."""
        return self._jail.workspace

    @property
    def whole(self) -> Path | None:
        """Where this process finds all files of a workspace that is an overlay, while it is open; None for others.

        A path through an open handle: what is below it can be opened, listed and written, but its links resolve to
        the folder that holds only what was written.
        """
        return None if self._folder is None else self._folder.whole

    @property
    def gate(self) -> Gate:
        """The way to the model API, with `usage` and `audit`; both stay readable after the end."""
        return self._opened(self._gate)

    @property
    def report(self) -> CheckReport:
        """The check that was passed before anything was started."""
        return self._opened(self._report)

    @property
    def limits(self) -> tuple[HeldLimit, ...]:
        """How each limit is held on this machine."""
        return self.report.limits

    @property
    def exceeded(self) -> Exceeded | None:
        """The limit the jail was ended for, if it was."""
        return self._watchdog.exceeded if self._watchdog is not None else None

    def ended(self, code: int | None) -> Exceeded | None:
        """The limit that a command in the jail was ended for which ended with this code."""
        return None if self._watchdog is None else self._watchdog.ended(code)

    @property
    def killed(self) -> int:
        """How many processes in it the kernel has ended until now because the limit on memory was reached."""
        return 0 if self._watchdog is None else self._watchdog.killed

    def options(self) -> dict[str, Any]:
        """Keyword arguments for ClaudeAgentOptions; what they set must not be set otherwise."""
        return {
            "cli_path": self._opened(self._folder).path / "claude",
            "cwd": self.workspace,
            "env": {},
            "settings": self._settings,
            "setting_sources": [],
            "strict_mcp_config": True,
            "permission_mode": "bypassPermissions",
            "tools": list(self._tools),
        }

    def kill(self) -> None:
        """End everything inside now; the rest is closed with the block."""
        self._opened(self._folder).kill()

    async def __aenter__(self) -> Confinement:
        if self._gate is not None:
            raise SandboxError("this confinement was already used", fix="Call confine(…) again for another run.")
        demand_preflight()
        await asyncio.to_thread(sweep)
        folder = self._folder = JailFolder()
        opening: asyncio.Future[Any] | None = None
        try:
            self._gate = self._make_gate(folder.socket, folder.proxy)
            await self._gate.__aenter__()
            if self._heard is not None:
                self._relay = Relay(folder.own / "apart" / SOCKET_NAME, self._heard)
                await self._relay.__aenter__()
            opening = asyncio.ensure_future(asyncio.to_thread(self._open, folder))
            opened = await asyncio.shield(opening)
            if self.when_open is not None:
                await self.when_open()
            opening = asyncio.ensure_future(asyncio.to_thread(self._prove, opened))
            await asyncio.shield(opening)
        except BaseException:
            await see_through(self._abandon(opening, folder))
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await see_through(self._close(self._opened(self._folder)))

    def _open(self, folder: JailFolder) -> OpenJail:
        with writing_in(folder.path):
            self._write_programs(folder)
        opened = open_jail(self._jail, folder)
        opened.for_command(*self._command)
        return opened

    def _write_programs(self, folder: JailFolder) -> None:
        (folder.home / ".gitconfig").write_text("[user]\n\tname = agent\n\temail = agent@localhost\n", encoding="ascii")
        (folder.home / ".bashrc").touch()  # it must be there to be kept from being written
        programs = folder.own / "bin"
        programs.mkdir()
        programs.chmod(0o755)
        places = [place for _, place in self._jail.shown_at()]
        bwrap = find_program("bwrap")
        write_script(programs / "bwrap", quick_bwrap(bwrap, f"{BIN}/nested-bwrap"))
        write_script(programs / "nested-bwrap", nested_bwrap(bwrap, places, own_git=self._own_git))
        if shutil.which("npm", path=PATH):
            write_script(programs / "npm", QUICK_NPM)
        if not self._has_domains:
            write_script(programs / "socat", quick_socat(find_program("socat")))
        if self._relay is not None:
            text = relay_program(find_program("bwrap"), find_program("socat"))
            write_script(folder.own / "apart" / PROGRAM, text)

    def _prove(self, opened: OpenJail) -> None:
        self._report = prove(opened)
        self._report.demand()
        self._watchdog = Watchdog(opened)
        self._watchdog.start()

    async def _abandon(self, opening: asyncio.Future[Any] | None, folder: JailFolder) -> None:
        """Clear away a start that failed or was cancelled; its thread cannot be, so it is waited for."""
        while opening is not None and not opening.done():
            await asyncio.to_thread(folder.kill)
            await asyncio.wait([opening], timeout=0.1)
        if opening is not None:
            opening.exception()
        await self._close(folder)

    async def _close(self, folder: JailFolder) -> None:
        if self._watchdog is not None:
            await asyncio.to_thread(self._watchdog.stop)
        try:
            await asyncio.to_thread(folder.kill)
        finally:
            if self._relay is not None:
                await self._relay.aclose()
            if self._gate is not None:
                await self._gate.aclose()
            await asyncio.to_thread(folder.close)
            self.tidy()

    def tidy(self) -> None:
        """Remove the empty folders the CLI leaves in a workspace that had none."""
        if not self._had_claude_folder:
            with contextlib.suppress(FileNotFoundError):
                remove_litter(self.workspace)

    @staticmethod
    def _opened(thing: _T | None) -> _T:
        if thing is None:
            raise SandboxError("this confinement is not open", fix="Use it in: async with confine(…) as jail:")
        return thing


async def see_through(ending: Coroutine[Any, Any, None]) -> None:
    """Wait for the end of everything, also when the wait itself is cancelled."""
    task = asyncio.ensure_future(ending)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:
            break
    task.result()
    if cancelled is not None:
        raise cancelled
