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
import secrets
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit._base.handles import open_beneath
from toolkit._base.words import did_you_mean
from toolkit.errors import SandboxError
from toolkit.sandbox.bridge import PROXY_PORT, bridge
from toolkit.sandbox.gate.client import HostPorts
from toolkit.sandbox.gate.gate import Gate
from toolkit.sandbox.gate.pacing import Bookkeeper, Pace
from toolkit.sandbox.gate.usage import SpendLimit
from toolkit.sandbox.host import (
    CREDENTIALS,
    CUSTOM_HEADERS,
    find_api,
    find_cli,
    usable_home,
    usable_readable,
    usable_workspace,
)
from toolkit.sandbox.jail.folder import MARK, JailFolder, sweep
from toolkit.sandbox.jail.launcher import OpenJail, open_jail, write_script
from toolkit.sandbox.jail.machine import find_program
from toolkit.sandbox.jail.proof import CheckReport, demand_preflight, prove
from toolkit.sandbox.jail.walls import APART, BIN, CLI, CLI_HOME, CLI_TMP, ENVIRONMENT, HOME, PATH, SOCKET, Jail
from toolkit.sandbox.jail.watchdog import Exceeded, Watchdog
from toolkit.sandbox.lending.layout import Layout
from toolkit.sandbox.lending.nested import nested_bwrap
from toolkit.sandbox.lending.variables import HARMLESS, steers_the_cli
from toolkit.sandbox.limits import HeldLimit, JailLimits, known_limits
from toolkit.sandbox.profiles import NATIVE_TOOLS, READ_ONLY_TOOLS, TOOLS, profile_text
from toolkit.sandbox.relay import PROGRAM, SOCKET_NAME, Heard, Relay, relay_program

if TYPE_CHECKING:
    from toolkit.sandbox.settings import SandboxSettings

LITTER = ".claude/.cc-writes"
"""A folder the CLI leaves, empty, in every folder a command ran in."""

# With its sandbox on, the CLI runs `npm root -g` in / at every start and waits for it: 0.4 s for an answer it can
# do without. Every other use of npm is passed on.
_QUICK_NPM = f"""#!/bin/sh
[ "$PWD $*" = "/ root -g" ] && exit 1
PATH={PATH} exec npm "$@"
"""
_CLI_ENVIRONMENT = {
    **ENVIRONMENT,
    # The host part is never looked up: the CLI talks to the socket.
    "ANTHROPIC_BASE_URL": "http://gate",
    "ANTHROPIC_UNIX_SOCKET": SOCKET,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CONFIG_DIR": f"{CLI_HOME}/.claude",
    "HOME": CLI_HOME,
    "TMPDIR": CLI_TMP,
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "PATH": f"{BIN}:{PATH}",
    # Commands, hooks and stdio servers: whoever could write to the CLI's output could forge an approved call.
    "SHELL": f"{APART}/bash",
    "CLAUDE_CODE_SHELL_PREFIX": f"{APART}/command",
}
_FIXED = frozenset({*_CLI_ENVIRONMENT, MARK, *CREDENTIALS.values(), CUSTOM_HEADERS, "CLAUDE_CODE_SHELL"}) - {"LANG"}
_T = TypeVar("_T")


def confine(
    workspace: Path | str,
    profile: str = "offline",
    domains: Sequence[str] = (),
    *,
    api_url: str | None = None,
    api_key: str | None = None,
    api_key_file: Path | str | None = None,
    auth_token: str | None = None,
    oauth_token: str | None = None,
    api_headers: Mapping[str, str] | None = None,
    host_ports: Sequence[int] = (),
    tools: Sequence[str] | None = None,
    readable: Sequence[Path | str] = (),
    limits: JailLimits | None = None,
    require: Sequence[str] = (),
    spend_limit: SpendLimit | None = None,
    home: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    cli_path: Path | str | None = None,
    allow_control_files: Sequence[str] = (),
    settings: SandboxSettings | Mapping[str, Any] | None = None,
    layout: Layout | None = None,
    pace: Pace | None = None,
    books: Bookkeeper | None = None,
    heard: Heard | None = None,
) -> Confinement:
    """Prepare a jail for one workspace; enter the result to get it.

    Nothing is started before every argument has been found good.

    Args:
        workspace: The folder the agent works in; best a copy.
        profile: A name from `toolkit.sandbox.profiles`.
        domains: Hosts that commands may reach, for profile "allowlist".
        api_url: Base URL of the model API; `ANTHROPIC_BASE_URL` if not given, else the public one.
        api_key: Sent by the gate, never seen inside; `ANTHROPIC_API_KEY` if neither this nor a file is given.
        api_key_file: A file with the key that only its owner may read.
        auth_token: A gateway's token, sent as `Authorization: Bearer`; `ANTHROPIC_AUTH_TOKEN`.
        oauth_token: A subscription's token; `CLAUDE_CODE_OAUTH_TOKEN`.
        api_headers: Further headers for every request to the API; `ANTHROPIC_CUSTOM_HEADERS`. Never seen inside.
        host_ports: Ports of this machine's loopback that the CLI may reach, for MCP servers; commands cannot.
        tools: The CLI's built-in tools to offer.
        readable: Host paths to show read-only, for example `python_environment()`.
        limits: How much of the machine it may use.
        require: Names of limits without which it must not start, for example "memory".
        spend_limit: When the gate stops passing requests on.
        home: A private folder to keep as the CLI's home, for sessions that are resumed later.
        env: Variables for the CLI and everything it starts.
        cli_path: The CLI to run; else CLAUDE_BIN, else the one in claude-agent-sdk.
        allow_control_files: Files like `.git/config` the agent may change after all; `git init` needs that one
            and `.git/hooks`.
        settings: Settings of the CLI that tighten the profile, such as `sandbox.filesystem.denyRead`;
            `SandboxSettings`, or the same as a mapping.
        layout: Where the workspace appears inside and what is lent beside it; at its own path if not given.
        pace: Who says when a request to the model API leaves, for runs that share a rate.
        books: Who is told of each model call before it leaves and when it has ended.
        heard: Asked about each line that a stdio server says, before the CLI reads it; `relayed` makes the
            configuration of such a server.
        heard: Asked about each line that a stdio server says, before the CLI reads it, and each message of an HTTP
            server at one of `host_ports`; `relayed` makes the configuration of such a stdio server.

    Raises:
        SandboxError: an argument is not usable; it names which and what to write instead.
    """
    api = find_api(
        api_url, api_key, api_key_file, auth_token=auth_token, oauth_token=oauth_token, api_headers=api_headers
    )

    word = f"gate:{secrets.token_hex(16)}"

    def make_gate(socket: Path) -> Gate:
        headers = api.all_headers()
        ports = HostPorts(tuple(host_ports), word, heard)
        return Gate(
            api.url,
            None,
            socket,
            domains=domains,
            offline=True,
            spend_limit=spend_limit,
            headers=headers,
            ports=ports,
            pace=pace,
            books=books,
        )

    proxy_port = PROXY_PORT if domains else None
    layout = layout or Layout()
    own_git = (".git/hooks", ".git/config") if layout.own_git else ()
    whole = profile_text(
        profile,
        domains=domains,
        nested=True,
        home=HOME,
        proxy_port=proxy_port,
        allow_control_files=tuple(dict.fromkeys([*allow_control_files, *own_git])),
        settings=_parsed(settings),
    )
    cli = find_cli(cli_path)
    work_in = usable_workspace(workspace)
    jail = Jail(
        workspace=work_in,
        below=layout.below,
        work=layout.work,
        places=layout.places,
        start=layout.start,
        has_cli=True,
        cli_home=usable_home(home) if home is not None else None,
        readable=tuple(usable_readable(path, work_in) for path in readable),
        lent=layout.lent,
        protected=layout.protected,
        has_gate=True,
        environment={
            **_CLI_ENVIRONMENT,
            **_path(layout),
            **layout.environment,
            **api.placeholders(),
            # A block of the CLI's before the system prompt that depends on the prompt, so that no other would share
            # the API's cache. A subscription is asked with all that the CLI says about itself.
            **({} if api.kinds == ("oauth_token",) else {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}),
            **checked_env(env or {}),
        },
        limits=limits or JailLimits(),
        require=known_limits(require),
        read_only=profile == "read-only",
        sole=True,
    )
    jail, program = _with_cli(jail, cli)
    make_gate(Path("not-opened"))  # a bad URL is refused now; nothing listens yet
    for tool in tools or ():
        if tool not in NATIVE_TOOLS:
            what = f"tools: the CLI has no tool '{tool}'{did_you_mean(tool, NATIVE_TOOLS)}"
            raise SandboxError(what, fix="The CLI would leave it out without a word.")
    usual = READ_ONLY_TOOLS if profile == "read-only" else TOOLS
    return Confinement(
        jail,
        settings=whole,
        tools=usual if tools is None else tools,
        command=(*bridge(has_domains=bool(domains), host_ports=host_ports, word=word), program),
        make_gate=make_gate,
        own_git=layout.own_git,
        heard=heard,
    )


def _with_cli(jail: Jail, cli: Path) -> tuple[Jail, str]:
    """The jail with the CLI in it, and where: at its own path, or aside where that lies in the workspace.

    There the agent could move a folder above it, and its mount point would be left in the copy.
    """
    held = (*map(str, jail.readable), *(inside for _, inside in jail.lent))
    if jail.within(str(cli)) is None or any(cli.is_relative_to(place) for place in held):
        return replace(jail, programs=(cli,)), str(cli)
    return replace(jail, lent=(*jail.lent, (cli, CLI))), CLI


def _parsed(settings: object) -> SandboxSettings | None:
    """Settings as the profile takes them."""
    if settings is None:
        return None
    from toolkit.sandbox.settings import SandboxSettings

    if isinstance(settings, SandboxSettings):
        return settings
    if not isinstance(settings, Mapping):
        fix = "Read a file with SandboxSettings.load(Path(…))"
        raise SandboxError(f"settings: {type(settings).__name__} is neither SandboxSettings nor a mapping", fix=fix)
    return SandboxSettings.parse(dict(settings))


def _path(layout: Layout) -> dict[str, str]:
    return {"PATH": ":".join([BIN, *layout.search_path])}


class Confinement:
    """A jail that is open as long as its `async with` block; `confine` makes one."""

    def __init__(
        self,
        jail: Jail,
        *,
        settings: str,
        tools: Sequence[str],
        command: Sequence[str],
        make_gate: Callable[[Path], Gate],
        own_git: bool = False,
        heard: Heard | None = None,
    ) -> None:
        self._jail = jail
        self._settings = settings
        self._tools = tuple(tools)
        self._command = command
        self._make_gate = make_gate
        self._own_git = own_git
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
            self._gate = self._make_gate(folder.socket)
            await self._gate.__aenter__()
            if self._heard is not None:
                self._relay = Relay(folder.visible / "apart" / SOCKET_NAME, self._heard)
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
        (folder.home / ".gitconfig").write_text("[user]\n\tname = agent\n\temail = agent@localhost\n", encoding="ascii")
        (folder.home / ".bashrc").touch()  # it must be there to be kept from being written
        programs = folder.visible / "bin"
        programs.mkdir()
        programs.chmod(0o755)
        places = [place for _, place in self._jail.shown_at()]
        write_script(programs / "bwrap", nested_bwrap(find_program("bwrap"), places, own_git=self._own_git))
        if shutil.which("npm", path=PATH):
            write_script(programs / "npm", _QUICK_NPM)
        if self._relay is not None:
            text = relay_program(find_program("bwrap"), find_program("socat"))
            write_script(folder.visible / "apart" / PROGRAM, text)
        opened = open_jail(self._jail, folder)
        opened.for_command(*self._command)
        return opened

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


def remove_litter(workspace: Path, paths: Iterable[str] = (LITTER,)) -> None:
    """Remove the folders the CLI leaves in a workspace, as far as they are empty; links are not followed.

    `paths` are those of `LITTER` below the workspace; the `.claude` around each goes with it.
    """
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            with contextlib.suppress(OSError):  # not there, or not empty
                for doomed in (Path(path), Path(path).parent):
                    handle = open_beneath(root, os.fsencode(doomed.parent), os.O_RDONLY | os.O_DIRECTORY)
                    try:
                        os.rmdir(doomed.name, dir_fd=handle)
                    finally:
                        os.close(handle)
    finally:
        os.close(root)


def checked_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables for a jail, if they can be given to one.

    Raises:
        SandboxError: one is no variable, is the jail's own, or steers the CLI itself.
    """
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SandboxError(f"env: {name!r} and its value are texts, both", fix='Write for example: env={"CI": "1"}')
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise SandboxError(f"env: {name!r} is no variable", fix="Use letters, digits and underscores.")
        if name in _FIXED:
            raise SandboxError(f"env: {name} is set by the jail", fix="Leave it out; a key is given as api_key=….")
        if steers_the_cli(name):
            what = f"env: {name} steers the CLI itself, which could run without its permission checks then"
            raise SandboxError(what, fix=f"Leave it out; of its own variables it may have {', '.join(HARMLESS)}.")
    return dict(env)
