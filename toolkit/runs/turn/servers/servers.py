"""The servers of a run: whether each started, what they offer, and whether that stays so.

They are asked before the first prompt is sent. A server that does not start ends the run,
unless it is optional. A tool that a server did not have then needs a person's approval: the CLI
takes a changed list of tools at once, and offers the new ones to the model without a word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError
from toolkit.runs.agents import tool_names
from toolkit.runs.asking.policy import Policy
from toolkit.runs.boxes import make_offer
from toolkit.runs.kinds import OptionError
from toolkit.runs.spec import RunSpec
from toolkit.runs.turn.servers.log import server_stderr
from toolkit.sandbox import loopback_port

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient

_PATIENCE = 40.0
"""Seconds that a server has to tell its tools; the CLI itself gives it 30 to start."""
_POLL = 0.05
_STDERR_PATIENCE = 2.0
"""Seconds until the CLI has written down what a server said as it died."""
_STDERR_LINES = 5
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class ServerFailedError(RunError):
    """A server of the run did not start; no prompt was sent."""

    def __init__(
        self, server: str, why: str, stderr: str = "", *, is_remote: bool = False, silent_port: int | None = None
    ) -> None:
        lines = [line for line in stderr.splitlines() if line.strip()][-_STDERR_LINES:]
        mend = "Mend it"
        if silent_port is not None:
            lines.append(f"nothing listens at port {silent_port} of this machine's loopback interface")
            mend = "Start it before the run"
        elif is_remote:
            lines.append("from inside the jail only domains allowed by name can be reached")
            mend = "Allow its domain, or start it with a command"
        fix = f'{mend}, or let the run do without it: servers={{"{server}": {{…, "optional": True}}}}'
        super().__init__(f"the server '{server}' did not start: {why}", where=lines, fix=fix)
        self.server = server
        self.why = why
        self.stderr = stderr
        self.is_remote = is_remote
        self.silent_port = silent_port
        """The port on this machine where it should be and nothing listens."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _failed_again, (self.server, self.why, self.stderr, self.is_remote, self.silent_port)


def _failed_again(
    server: str, why: str, stderr: str, is_remote: bool, silent_port: int | None = None
) -> ServerFailedError:
    return ServerFailedError(server, why, stderr, is_remote=is_remote, silent_port=silent_port)


class Servers:
    """Those of `servers=`, from their start on. `tell` takes the events about them."""

    def __init__(self, spec: RunSpec, tell: Callable[..., None]) -> None:
        self._spec = spec
        self._configs = spec.servers
        self._tell = tell
        self._known: dict[str, set[str]] = {}
        """The tools that each had when the run began, by the names that the model uses."""
        self._new: set[str] = set()
        self._failed: list[ServerFailedError] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        return tuple(self._configs)

    @property
    def required(self) -> set[str]:
        """The names of those without which there is no run."""
        return {name for name, config in self._configs.items() if not config.get("optional")}

    async def start(self, client: ClaudeSDKClient, home: Path) -> None:
        """Wait until each has started or failed, and remember what they offer.

        Raises:
            ServerFailedError: one that is not optional did not start.
        """
        if not self._configs:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                servers = await _settled(client, self._configs)
        except TimeoutError:
            servers = {}
        for name, config in self._configs.items():
            found = servers.get(name, {"status": "failed", "error": "it does not answer"})
            self._known[name] = {_tool_name(name, tool["name"]) for tool in found.get("tools", ())}
            if found.get("status") != "connected":
                failed = await _failure(name, config, found, home)
                self._failed.append(failed)
                if name in self.required:
                    raise failed

    def check_later(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse servers on this machine that the run was not started with.

        Raises:
            RunError: one is not allowed by name, or at a port that leads nowhere in this jail.
        """
        open_ports = self._spec.host_ports()
        for name, port in self._spec.ports_of(configs).items():
            if port not in open_ports and self._spec.transport is None:
                what = f"server '{name}' is at port {port} of this machine, which this run's jail does not reach"
                raise RunError(what, fix="Give it when the run starts: run(…, servers={…}, allow_servers=[…])")

    async def replaced(self, client: ClaudeSDKClient, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """These have been set in the place of the others: what each offers now is what it is known for."""
        try:
            async with asyncio.timeout(_PATIENCE):
                servers = await _settled(client, configs)
        except TimeoutError:
            servers = {}
        told = {name: servers.get(name, {}).get("tools", ()) for name in configs}
        self._known = {name: {_tool_name(name, tool["name"]) for tool in tools} for name, tools in told.items()}
        self._configs = dict(configs)

    def begin(self) -> None:
        """A turn has begun: tell of the servers that the run does without."""
        failed, self._failed = self._failed, []
        for one in failed:
            self._tell("server", "failed", one.server, error=one.why, stderr=one.stderr)

    def look(self, tools: Iterable[str]) -> None:
        """Tell of the tools among these that their server did not have when the run began."""
        new: dict[str, list[str]] = {}
        for tool in tools:
            server = self._is_new(tool)
            if server is not None and tool not in self._new:
                self._new.add(tool)
                new.setdefault(server, []).append(tool)
        for server, names in new.items():
            self._tell("server", "changed", server, tools=names)

    def doubt(self, tool: str) -> str | None:
        """Why a call of this tool needs a person's approval, whatever the policy says; None where it does not."""
        server = self._is_new(tool)
        if server is None:
            return None
        self.look([tool])
        return f"the server '{server}' did not have it when the run began"

    def _is_new(self, tool: str) -> str | None:
        """The server of a tool that it did not have when the run began."""
        servers = [name for name in self._known if tool.startswith(_tool_name(name, ""))]
        return None if not servers or any(tool in self._known[name] for name in servers) else max(servers, key=len)


def as_configured(
    servers: Mapping[str, Mapping[str, Any]], variables: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """The configurations as the CLI takes them, without what is only for us, and with `args`, which it always reads.

    `variables` are for the servers that it starts; what a configuration itself says of one wins.
    """
    found = {}
    for name, one in servers.items():
        found[name] = {key: kept for key, kept in one.items() if key != "optional"}
        if one.get("type", "stdio") == "stdio":
            found[name] = {"args": [], **found[name]}
            if variables:
                found[name]["env"] = {**variables, **found[name].get("env", {})}
    return found


def _tool_name(server: str, tool: str) -> str:
    """The name of a server's tool as the model uses it."""
    return f"mcp__{_ODD.sub('_', server)}__{_ODD.sub('_', tool)}"


async def _failure(name: str, config: Mapping[str, Any], found: Mapping[str, Any], home: Path) -> ServerFailedError:
    """Why it failed, with what it wrote to stderr, which the CLI writes down with some delay."""
    stderr = ""
    if config.get("type", "stdio") == "stdio":
        end = asyncio.get_running_loop().time() + _STDERR_PATIENCE
        while not (stderr := await asyncio.to_thread(server_stderr, home, _ODD.sub("-", name))):
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(_POLL)  # the CLI does not say when
    why = str(found.get("error") or found.get("status") or "unknown")
    port = loopback_port(config["url"]) if "url" in config else None
    silent = port if port is not None and not await _listens(port) else None
    return ServerFailedError(name, why, stderr, is_remote="url" in config and port is None, silent_port=silent)


async def _listens(port: int) -> bool:
    """Whether something takes connections at a port of this machine's loopback interface."""
    try:
        async with asyncio.timeout(_STDERR_PATIENCE):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def check_patterns(client: ClaudeSDKClient, spec: RunSpec, policy: Policy) -> None:
    """Look up the policy's patterns about servers, now that these can tell their tools.

    Raises:
        OptionError: one means no tool, or its server does not tell its tools in time.
    """
    offer, patterns = make_offer(spec), [*policy.patterns(), *tool_names(spec)]
    wanted = {server for _, pattern in patterns if (server := offer.server_of(pattern)) is not None}
    if not wanted:
        return
    try:
        async with asyncio.timeout(_PATIENCE):
            servers = await _settled(client, wanted)
    except TimeoutError:
        what = (
            f"policy: the server {', '.join(sorted(wanted))} does not tell its tools, so no rule about them would hold"
        )
        raise OptionError("policy", what, fix="Find out why it does not start, or leave out what is about it") from None
    # One that failed has no tools; the CLI's greeting tells of it.
    tools = {name: [tool["name"] for tool in one["tools"]] for name, one in servers.items() if "tools" in one}
    offer.check_connected(patterns, tools)


async def _settled(client: ClaudeSDKClient, wanted: Iterable[str]) -> dict[str, Any]:
    """The status of every server, once none of these is being connected any more."""
    while True:
        servers: dict[str, Any] = {one["name"]: one for one in (await client.get_mcp_status())["mcpServers"]}
        if not any(servers.get(name, {}).get("status") == "pending" for name in wanted):
            return servers
        await asyncio.sleep(_POLL)  # the CLI does not say when
