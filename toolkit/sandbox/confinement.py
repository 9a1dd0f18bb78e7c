"""Run the Claude Agent SDK with the CLI in a jail, proven before the first prompt.

    async with confine("workspace", api_key=key) as jail:
        options = ClaudeAgentOptions(**jail.options(), max_turns=20)
        async for message in query(prompt="…", options=options): ...

Inside there is the workspace, a private home and a socket to the model API, and
nothing else. The key stays outside. When the block ends, however it ends,
nothing that was started inside is left, and the workspace is the caller's again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from toolkit.errors import SandboxError
from toolkit.sandbox.gate.gate import Gate
from toolkit.sandbox.gate.usage import SpendLimit
from toolkit.sandbox.host import find_cli, read_key, usable_home, usable_readable, usable_workspace
from toolkit.sandbox.jail.folder import State, sweep
from toolkit.sandbox.jail.launcher import MARK, Launcher, make_launcher, write_script
from toolkit.sandbox.jail.proof import CheckReport, check_launcher, demand_preflight
from toolkit.sandbox.jail.walls import BIN, HOME, SOCKET, Jail
from toolkit.sandbox.jail.watchdog import Exceeded, Watchdog
from toolkit.sandbox.limits import JailLimits, LimitState, known_limits, plan_limits
from toolkit.sandbox.profiles import READ_ONLY_TOOLS, TOOLS
from toolkit.sandbox.profiles import profile as make_profile

API_URL = "https://api.anthropic.com"
_PROXY_PORT = 3129

_PATH = "/usr/local/bin:/usr/bin:/bin"
# With its sandbox on, the CLI runs `npm root -g` in / at every start and waits for it: 0.4 s for an answer it can
# do without. Every other use of npm is passed on.
_QUICK_NPM = f"""#!/bin/sh
[ "$PWD $*" = "/ root -g" ] && exit 1
PATH={_PATH} exec npm "$@"
"""

# The host part is never looked up: the CLI talks to the socket.
_BASE = {
    "ANTHROPIC_API_KEY": "kept-outside-the-jail",
    "ANTHROPIC_BASE_URL": "http://gate",
    "ANTHROPIC_UNIX_SOCKET": SOCKET,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CONFIG_DIR": f"{HOME}/.claude",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": f"{BIN}:{_PATH}",
    "SHELL": "/bin/bash",
    "TMPDIR": "/tmp",
    "USER": "agent",
}
_FIXED = frozenset({*_BASE, MARK, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}) - {"LANG", "PATH", "SHELL"}
_T = TypeVar("_T")


def confine(
    workspace: Path | str,
    profile: str = "offline",
    domains: Sequence[str] = (),
    *,
    api_url: str = API_URL,
    api_key: str | None = None,
    api_key_file: Path | str | None = None,
    tools: Sequence[str] | None = None,
    readable: Sequence[Path | str] = (),
    limits: JailLimits | None = None,
    require: Sequence[str] = (),
    spend_limit: SpendLimit | None = None,
    home: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    cli_path: Path | str | None = None,
    allow_control_files: Sequence[str] = (),
) -> Confinement:
    """Prepare a jail for one workspace; enter the result to get it.

    Nothing is started before every argument has been found good.

    Args:
        workspace: The folder the agent works in; best a copy.
        profile: A name from `toolkit.sandbox.profiles`.
        domains: Hosts that commands may reach, for profile "allowlist".
        api_url: Base URL of the model API.
        api_key: Sent by the gate, never seen inside; `ANTHROPIC_API_KEY` if neither this nor a file is given.
        api_key_file: A file with the key that only its owner may read.
        tools: The CLI's built-in tools to offer.
        readable: Host paths to show read-only, for example `python_environment()`.
        limits: How much of the machine it may use.
        require: Names of limits without which it must not start, for example "memory".
        spend_limit: When the gate stops passing requests on.
        home: A private folder to keep as the agent's home, for sessions that are resumed later.
        env: Variables for the CLI and everything it starts.
        cli_path: The CLI to run; else CLAUDE_BIN, else the one in claude-agent-sdk.
        allow_control_files: Files like `.git/config` the agent may change after all; `git init` needs that one
            and `.git/hooks`.

    Raises:
        SandboxError: an argument is not usable; it names which and what to write instead.
    """
    key = read_key(api_key, api_key_file)

    def make_gate(socket: Path) -> Gate:
        return Gate(api_url, key, socket, domains=domains, offline=True, spend_limit=spend_limit)

    proxy_port = _PROXY_PORT if domains else None
    order = _Order(
        workspace=usable_workspace(workspace),
        settings=make_profile(
            profile, domains=domains, nested=True, proxy_port=proxy_port, allow_control_files=allow_control_files
        ).as_json(),
        read_only=profile == "read-only",
        tools=tuple(tools if tools is not None else READ_ONLY_TOOLS if profile == "read-only" else TOOLS),
        readable=tuple(usable_readable(path) for path in readable),
        limits=limits or JailLimits(),
        require=known_limits(require),
        home=usable_home(home) if home is not None else None,
        environment={**_BASE, **_checked_env(env or {})},
        cli=find_cli(cli_path),
        make_gate=make_gate,
        proxy_port=proxy_port,
    )
    make_gate(Path("not-opened"))  # a bad URL is refused now; nothing listens yet
    return Confinement(order)


@dataclass(frozen=True, slots=True)
class _Order:
    """The arguments of `confine`, found good."""

    workspace: Path
    settings: str
    read_only: bool
    tools: tuple[str, ...]
    readable: tuple[Path, ...]
    limits: JailLimits
    require: tuple[str, ...]
    home: Path | None
    environment: dict[str, str]
    cli: Path
    make_gate: Callable[[Path], Gate]
    proxy_port: int | None


class Confinement:
    """A jail that is open as long as its `async with` block."""

    def __init__(self, order: _Order) -> None:
        self._order = order
        self._launcher: Launcher | None = None
        self._watchdog: Watchdog | None = None
        self._gate: Gate | None = None
        self._report: CheckReport | None = None
        self._had_claude_folder = (order.workspace / ".claude").exists()

    @property
    def workspace(self) -> Path:
        """The folder the agent works in, the same inside and outside."""
        return self._order.workspace

    @property
    def gate(self) -> Gate:
        """The way to the model API, with `usage` and `audit`; both stay readable after the end."""
        return self._opened(self._gate)

    @property
    def report(self) -> CheckReport:
        """The check that was passed before anything was started."""
        return self._opened(self._report)

    @property
    def limits(self) -> tuple[LimitState, ...]:
        """How each limit is held on this machine."""
        return self.report.limits

    @property
    def exceeded(self) -> Exceeded | None:
        """The limit the jail was ended for, if it was."""
        return self._watchdog.exceeded if self._watchdog is not None else None

    def options(self) -> dict[str, Any]:
        """Keyword arguments for ClaudeAgentOptions; what they set must not be set otherwise."""
        order, launcher = self._order, self._opened(self._launcher)
        return {
            "cli_path": launcher.state.folder / "claude",
            "cwd": order.workspace,
            "env": {},
            "settings": order.settings,
            "setting_sources": [],
            "strict_mcp_config": True,
            "permission_mode": "bypassPermissions",
            "tools": list(order.tools),
        }

    def kill(self) -> None:
        """End everything inside now; the rest is closed with the block."""
        self._opened(self._launcher).kill()

    async def __aenter__(self) -> Confinement:
        if self._gate is not None:
            raise SandboxError("this confinement was already used", fix="Call confine(…) again for another run.")
        demand_preflight()
        await asyncio.to_thread(sweep)
        state = State()
        opening: asyncio.Future[None] | None = None
        try:
            self._gate = self._order.make_gate(state.shown / "api.sock")
            await self._gate.__aenter__()
            opening = asyncio.ensure_future(asyncio.to_thread(self._open, state, self._gate.socket_path))
            await asyncio.shield(opening)
        except BaseException:
            await _finish(self._abandon(opening, state))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _finish(self._close(self._opened(self._launcher).state))

    def _open(self, state: State, socket: Path) -> None:
        order = self._order
        plan = plan_limits(order.limits, name=state.name, require=order.require)
        home = order.home or state.shown / "home"
        # A kept home may hold a link an earlier agent left there, so nothing existing is opened.
        with contextlib.suppress(FileExistsError), (home / ".gitconfig").open("x", encoding="ascii") as file:
            file.write("[user]\n\tname = agent\n\temail = agent@localhost\n")
        if shutil.which("npm", path=_PATH):
            (state.shown / "bin").mkdir()
            (state.shown / "bin").chmod(0o755)
            write_script(state.shown / "bin" / "npm", _QUICK_NPM)
        jail = Jail(
            workspace=order.workspace,
            shown=state.shown,
            home=home,
            programs=(order.cli,),
            readable=order.readable,
            socket=socket,
            environment=tuple(order.environment.items()),
            limits=order.limits,
            read_only=order.read_only,
        )
        launcher = self._launcher = make_launcher(jail, plan, state)
        if launcher.tenant is not None:
            os.chown(socket, launcher.tenant, launcher.tenant)
        launcher.for_command(*_bridge(order.proxy_port), str(order.cli))
        self._report = check_launcher(launcher, None)
        self._report.demand()
        self._watchdog = Watchdog(launcher)
        self._watchdog.start()

    async def _abandon(self, opening: asyncio.Future[None] | None, state: State) -> None:
        """Clear away a start that failed or was cancelled; its thread cannot be, so it is waited for."""
        while opening is not None and not opening.done():
            if self._launcher is not None:
                await asyncio.to_thread(self._launcher.kill)
            await asyncio.wait([opening], timeout=0.1)
        if opening is not None:
            opening.exception()
        await self._close(state)

    async def _close(self, state: State) -> None:
        if self._watchdog is not None:
            await asyncio.to_thread(self._watchdog.stop)
        try:
            if self._launcher is not None:
                await asyncio.to_thread(self._launcher.kill)
        finally:
            if self._gate is not None:
                await self._gate.aclose()
            await asyncio.to_thread(state.close)
            self.tidy()

    def tidy(self) -> None:
        """Remove the empty folders the CLI leaves in a workspace that had none."""
        folder = self._order.workspace / ".claude"
        if not self._had_claude_folder and not folder.is_symlink():
            with contextlib.suppress(OSError):
                (folder / ".cc-writes").rmdir()
                folder.rmdir()

    @staticmethod
    def _opened(thing: _T | None) -> _T:
        if thing is None:
            raise SandboxError("this confinement is not open", fix="Use it in: async with confine(…) as jail:")
        return thing


async def _finish(ending: Coroutine[Any, Any, None]) -> None:
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


def _bridge(port: int | None) -> list[str]:
    """With domains: a port inside that leads to the gate, since programs know proxies by port only."""
    if port is None:
        return []
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"
    return ["/bin/sh", "-c", f'socat {listen} UNIX-CONNECT:{SOCKET} & exec "$@"', "sh"]


def _checked_env(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise SandboxError(f"env: {name!r} is no variable", fix="Use letters, digits and underscores.")
        if name in _FIXED:
            raise SandboxError(f"env: {name} is set by the jail", fix="Leave it out; the key goes in as api_key=….")
    return dict(env)
