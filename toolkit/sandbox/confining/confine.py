"""Run the Claude Agent SDK with the CLI in a jail, proven before the first prompt.

    async with confine("workspace", api_key=key) as jail:
        options = ClaudeAgentOptions(**jail.options(), max_turns=20)
        async for message in query(prompt="…", options=options): ...

Inside there is the workspace, a private home and a socket to the model API, and
nothing else. The key stays outside. When the block ends, however it ends,
nothing that was started inside is left, and the workspace is the caller's again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean
from toolkit.errors import SandboxError
from toolkit.sandbox.bridge import PROXY_PORT, bridge
from toolkit.sandbox.confining.arguments import check_arguments
from toolkit.sandbox.confining.confinement import Confinement
from toolkit.sandbox.confining.environment import environment
from toolkit.sandbox.gate.client import HostPorts
from toolkit.sandbox.gate.gate import Gate
from toolkit.sandbox.gate.pacing import Bookkeeper, Pace
from toolkit.sandbox.gate.usage import SpendLimit
from toolkit.sandbox.host import HostTLS, find_api, find_cli, usable_home, usable_readable, usable_workspace
from toolkit.sandbox.jail.walls import CLI, HOME, Jail
from toolkit.sandbox.lending.layout import Layout
from toolkit.sandbox.limits import JailLimits, jail_limits, known_limits
from toolkit.sandbox.profiles import NATIVE_TOOLS, READ_ONLY_TOOLS, TOOLS, profile_text
from toolkit.sandbox.relay import Heard

if TYPE_CHECKING:
    from toolkit.sandbox.settings import SandboxSettings

_OWN_GIT = (".git/hooks", ".git/config")


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
    host_tls: Mapping[int, HostTLS] | None = None,
    tools: Sequence[str] | None = None,
    readable: Sequence[Path | str] = (),
    limits: JailLimits | Mapping[str, int | None] | None = None,
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
        host_tls: Those of them where the server speaks TLS. The gate speaks it then, and the CLI plain HTTP: give it
            the URL with `http://`.
        tools: The CLI's built-in tools to offer.
        readable: Host paths to show read-only, for example `python_environment()`.
        limits: How much of the machine it may use; a mapping with the same names will do.
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
        heard: Asked about each line that a stdio server says, before the CLI reads it, and each message of an HTTP
            server at one of `host_ports`; `relayed` makes the configuration of such a stdio server.

    Raises:
        SandboxError: an argument is not usable; it names which and what to write instead.
    """
    check_arguments(locals())
    api = find_api(
        api_url, api_key, api_key_file, auth_token=auth_token, oauth_token=oauth_token, api_headers=api_headers
    )
    layout = layout or Layout()
    tls = {port: (one.context(), one.name) for port, one in (host_tls or {}).items()}
    ports = HostPorts(tuple(host_ports), f"gate:{secrets.token_hex(16)}", heard, tls)

    def make_gate(socket: Path, proxy: Path) -> Gate:
        headers = api.all_headers()
        return Gate(
            api.url,
            None,
            socket,
            proxy_path=proxy,
            domains=domains,
            offline=True,
            spend_limit=spend_limit,
            headers=headers,
            ports=ports,
            pace=pace,
            books=books,
        )

    control_files = [*allow_control_files, *(_OWN_GIT if layout.own_git else ())]
    whole = profile_text(
        profile,
        domains=domains,
        nested=True,
        home=HOME,
        proxy_port=PROXY_PORT,
        allow_control_files=tuple(dict.fromkeys(control_files)),
        settings=_parsed(settings),
    )
    cli = find_cli(cli_path)
    jail = _jail_in(
        usable_workspace(workspace),
        layout,
        readable,
        cli_home=usable_home(home) if home is not None else None,
        environment=environment(api, layout, env or {}, offline=not domains),
        limits=jail_limits(limits),
        require=known_limits(require),
        read_only=profile == "read-only",
    )
    jail, program = _with_cli(jail, cli)
    make_gate(Path("not-opened"), Path("not-opened"))  # a bad URL is refused now; nothing listens yet
    return Confinement(
        jail,
        settings=whole,
        tools=_offered(tools, is_read_only=profile == "read-only"),
        command=(*bridge(has_proxy=True, host_ports=host_ports, word=ports.word), program),
        make_gate=make_gate,
        own_git=layout.own_git,
        has_domains=bool(domains),
        heard=heard,
    )


def _jail_in(workspace: Path, layout: Layout, readable: Sequence[Path | str], **options: Any) -> Jail:
    """The jail of a workspace, laid out as it is to appear, still without its CLI."""
    return Jail(
        workspace=workspace,
        below=layout.below,
        work=layout.work,
        places=layout.places,
        start=layout.start,
        has_cli=True,
        readable=tuple(usable_readable(path, workspace) for path in readable),
        lent=layout.lent,
        protected=layout.protected,
        has_gate=True,
        sole=True,
        **options,
    )


def _offered(tools: Sequence[str] | None, *, is_read_only: bool) -> Sequence[str]:
    """The built-in tools to offer.

    Raises:
        SandboxError: one is not a tool of the CLI.
    """
    if tools is None:
        return READ_ONLY_TOOLS if is_read_only else TOOLS
    for tool in tools:
        if tool not in NATIVE_TOOLS:
            what = f"tools: the CLI has no tool '{tool}'{did_you_mean(tool, NATIVE_TOOLS)}"
            raise SandboxError(what, fix="The CLI would leave it out without a word.")
    return tools


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
