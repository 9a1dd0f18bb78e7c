"""Run one command in a jail without network, for people and scripts.

The same jail as for an agent, without the CLI and the gate: the workspace, a
throw-away home and the system's programs. It is proven before the command runs
and gone when it ends. To lose no time, the walls around the command are put up
while a canary proves the same walls beside it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from toolkit.errors import SandboxError
from toolkit.sandbox.host import usable_readable, usable_workspace
from toolkit.sandbox.jail.folder import JailFolder, sweep
from toolkit.sandbox.jail.launcher import OpenJail, open_jail
from toolkit.sandbox.jail.machine import writing_in
from toolkit.sandbox.jail.proof import demand_preflight, prove
from toolkit.sandbox.jail.walls import ENVIRONMENT, Jail
from toolkit.sandbox.jail.watchdog import Exceeded, Watchdog
from toolkit.sandbox.limits import JailLimits, jail_limits, known_limits

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)
_Handles = tuple[int | None, int | None, int | None]
# Outside, then inside. What waits at the other end of the pipe says a word, or is gone: then there is nothing to start.
_WITH_PIPE = 'exec 7<"$0" "$@"'
_WHEN_TOLD = 'read -r word <&7 || exit 125; exec "$@" 7<&-'


@dataclass(frozen=True, slots=True)
class ShellRun:
    """How a confined command ended."""

    exit_code: int
    """As a shell gives it: 128 and the signal's number for a command that was killed."""
    exceeded: Exceeded | None
    """The limit it was ended for, if it was."""
    not_enforced: tuple[str, ...]
    """Limits this machine cannot hold firmly."""


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """What a confined command gets besides its workspace."""

    readable: tuple[Path, ...] = ()
    limits: JailLimits = field(default_factory=JailLimits)
    require: tuple[str, ...] = ()
    read_only: bool = False
    seconds: float | None = None
    """When to end it; None waits as long as it takes."""
    lent: tuple[tuple[Path, str], ...] = ()
    """Host paths to show read-only, each with its place inside."""
    below: tuple[Path, ...] = ()
    """Folders that show through the workspace, which holds only what is written then; the first is on top."""
    work: Path | None = None
    """For `below`: an empty folder on the workspace's file system."""


def run_confined(
    command: Sequence[str],
    workspace: Path | str,
    options: ShellOptions | None = None,
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> ShellRun:
    """Run a command in a jail with this process's input and output, or those given, and return how it ended.

    Raises:
        SandboxError: an argument is not usable.
        UnconfinedError: the jail was not proven to hold; nothing was started.
    """
    options = options or ShellOptions()
    if not command:
        raise SandboxError("there is no command to run", fix="Name one, for example: bash")
    work_in = usable_workspace(workspace)
    jail = Jail(
        workspace=work_in,
        below=options.below,
        work=options.work,
        readable=tuple(usable_readable(path, work_in) for path in options.readable),
        lent=options.lent,
        environment=ENVIRONMENT,
        limits=jail_limits(options.limits),
        require=known_limits(options.require),
        read_only=options.read_only,
        sole=bool(options.below),  # the kernel knows one mount of them at a time
        terminal=any(os.isatty(own if given is None else given) for own, given in enumerate((stdin, stdout, stderr))),
    )
    demand_preflight()
    sweep()
    with JailFolder() as folder:
        opened = open_jail(jail, folder)
        held = _Held(opened)
        try:
            prove(opened, meanwhile=lambda: held.start(command, (stdin, stdout, stderr))).demand()
            watchdog = Watchdog(opened)
            watchdog.start()
            try:
                code = held.see_through(options.seconds)
            finally:
                watchdog.stop()
        finally:
            held.close()
        return ShellRun(code, watchdog.ended(code), opened.plan.not_enforced)


class _Held:
    """A command in a jail that is there, but starts when it is let go; never, if this process ends before."""

    def __init__(self, opened: OpenJail) -> None:
        self._opened = opened
        self._process: subprocess.Popen[bytes] | None = None
        self._path = opened.folder.path / "hold"
        with writing_in(opened.folder.path):
            os.mkfifo(self._path, 0o600)
        self._pipe = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def start(self, command: Sequence[str], handles: _Handles) -> None:
        """Put the walls up around it."""
        stdin, stdout, stderr = handles
        inside = ["/bin/sh", "-c", _WHEN_TOLD, "sh", *command]
        line = ["/bin/sh", "-c", _WITH_PIPE, str(self._path), str(self._opened.script), *inside]
        try:
            self._process = subprocess.Popen(line, cwd="/", stdin=stdin, stdout=stdout, stderr=stderr)
        except (OSError, ValueError) as error:
            fix = "A long text is better in a file of the workspace."
            raise SandboxError(f"the command cannot be started: {error}", where=[command[0][:80]], fix=fix) from error

    def see_through(self, seconds: float | None) -> int:
        """Let it go and wait; what would end this process ends the command instead."""
        assert self._process is not None

        def end(number: int, frame: FrameType | None) -> None:
            self._opened.folder.kill()

        # A person's Ctrl-C is for the command at the terminal, which gets it as well.
        handlers: Mapping[int, Callable[[int, FrameType | None], None] | signal.Handlers] = {
            signal.SIGINT: signal.SIG_IGN if self._opened.jail.terminal else end,
            **dict.fromkeys(_FORWARDED, end),
        }
        if threading.current_thread() is not threading.main_thread():
            handlers = {}  # only the main thread has a say in signals
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            os.write(self._pipe, b"go\n")
            code = self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._opened.folder.kill()
            code = self._process.wait(timeout=10)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 128 - code if code < 0 else code

    def close(self) -> None:
        """Nothing starts any more, and nothing of it is left."""
        os.close(self._pipe)
        if self._process is not None and self._process.poll() is None:
            self._opened.folder.kill()
            self._process.wait(timeout=10)
