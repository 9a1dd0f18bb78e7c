"""The servers of a run: whether each started, what they offer, and whether that stays so.

They are asked before the first prompt is sent. A server that does not start ends the run,
unless it is optional. A tool that a server did not have then, or had otherwise, needs a person's
approval: the CLI takes a changed list of tools at once, and offers it to the model without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.words import safe_line
from toolkit.errors import RunError
from toolkit.runs.agents import tool_names
from toolkit.runs.asking.policy import Policy
from toolkit.runs.boxes import make_offer
from toolkit.runs.kinds import OptionError
from toolkit.runs.spec import RunSpec
from toolkit.runs.turn.servers.addresses import heard_url, is_heard, servers_at
from toolkit.runs.turn.servers.definitions import Definitions
from toolkit.runs.turn.servers.log import server_stderr
from toolkit.runs.turn.servers.names import ODD, tool_name
from toolkit.sandbox import HostTLS, host_tls, loopback_port, relayed, why_not_tls

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient

_PATIENCE = 40.0
"""Seconds that a server has to tell its tools; the CLI itself gives it 30 to start."""
_POLL = 0.05
_STDERR_PATIENCE = 2.0
"""Seconds until the CLI has written down what a server said as it died."""
_CLOCK = 0.001
"""Seconds that the CLI leaves off where it notes the time."""
_STDERR_LINES = 5
_ERROR_WIDTH = 300


class ServerFailedError(RunError):
    """A server of the run did not start; no prompt was sent."""

    def __init__(
        self,
        server: str,
        why: str,
        stderr: str = "",
        *,
        is_remote: bool = False,
        silent_port: int | None = None,
        not_tls: str = "",
    ) -> None:
        lines = [line for line in stderr.splitlines() if line.strip()][-_STDERR_LINES:]
        mend = "Mend it"
        if silent_port is not None:
            lines.append(f"nothing listens at port {silent_port} of this machine's loopback interface")
            mend = "Start it before the run"
        elif is_remote:
            lines.append("it is not on this machine, and the jail reaches no other")
            mend = "Let it run here, with a command or on 127.0.0.1"
        elif not_tls:
            lines.append(not_tls)
            mend = 'Name the authority that signed its certificate ("ca_file" beside its url, or SSL_CERT_FILE)'
        without = f'--optional-server {server}, in Python servers={{"{server}": {{…, "optional": True}}}}'
        fix = f"{mend}, or let the run do without it: {without}"
        super().__init__(f"the server '{server}' did not start: {why}", where=lines, fix=fix)
        self.server = server
        self.why = why
        self.stderr = stderr
        self.is_remote = is_remote
        self.silent_port = silent_port
        """The port on this machine where it should be and nothing listens."""
        self.not_tls = not_tls
        """Why TLS cannot be spoken with it, in words."""

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: getattr(self, name) for name in ("is_remote", "silent_port", "not_tls")}
        return _failed_again, (self.server, self.why, self.stderr, facts)


def _failed_again(server: str, why: str, stderr: str, facts: Mapping[str, Any]) -> ServerFailedError:
    return ServerFailedError(server, why, stderr, **facts)


class Servers:
    """Those of `servers=`, from their start on. `tell` takes the events about them."""

    def __init__(self, spec: RunSpec, tell: Callable[..., None], definitions: Definitions | None = None) -> None:
        self._spec = spec
        self._configs = self._listening = spec.servers
        self._set = {name: (config, 0.0) for name, config in spec.servers.items()}
        """Those that were set last, also where they failed, each with the time from which on it has its name."""
        self._tell = tell
        self._definitions = definitions or Definitions()
        self._known: dict[str, set[str]] = {}
        """The tools that each had when the run began, by the names that the model uses."""
        self._told: set[tuple[str, str | None]] = set()
        self._failed: list[ServerFailedError] = []
        self._has_begun = False
        self._home = Path()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        return tuple(self._configs)

    @property
    def required(self) -> set[str]:
        """The names of those without which there is no run."""
        return {name for name, config in self._configs.items() if not config.get("optional")}

    @property
    def failed(self) -> set[str]:
        """The names of those that failed at the start of this process, which the run does without."""
        return {one.server for one in self._failed}

    @property
    def are_heard(self) -> bool:
        """Whether they run, and stdio ones say what they say by way of this process."""
        return self._spec.transport is None

    async def start(self, client: ClaudeSDKClient, home: Path) -> None:
        """Wait until each has started or failed, and remember what they offer.

        Raises:
            ServerFailedError: one that is not optional did not start.
        """
        self._home = home
        if not self._configs:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                servers = await _settled(client, self._configs)
        except TimeoutError:
            servers = {}
        for name, config in self._configs.items():
            found = self._judged(name, servers)
            self._known[name] = {tool_name(name, tool["name"]) for tool in found.get("tools", ())}
            if found.get("status") == "connected":
                self._known[name] = self._definitions.known.setdefault(name, self._known[name])
            else:
                failed = await _failure(name, config, found, home)
                self._failed.append(failed)
                if name in self.required:
                    raise failed

    def check_later(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse servers on this machine that the run was not started with.

        Raises:
            RunError: one is not allowed by name, or at a port that leads nowhere in this jail.
        """
        open_ways, ways = self._spec.ways_to(self._spec.servers), self._spec.ways_to(configs)
        for name, port in self._spec.ports_of(configs).items():
            if self._spec.transport is not None or (port in open_ways and open_ways[port] == ways[port]):
                continue
            how = "reaches with another scheme, host or ca_file" if port in open_ways else "does not reach"
            what = f"server '{name}' is at port {port} of this machine, which this run's jail {how}"
            raise RunError(what, fix="Give it when the run starts: run(…, servers={…}, allow_servers=[…])")

    async def replaced(self, client: ClaudeSDKClient, configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """These have been set in the place of the others: what each offers now is what it is known for.

        Gives those that do not run, and why: the CLI says so when they are set first, and not when they are set again.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                servers = await _settled(client, configs)
        except TimeoutError:
            servers = {}
        errors, self._known = {}, {}
        for name, config in configs.items():
            found = self._judged(name, servers)
            if found.get("status") == "connected":
                self._known[name] = {tool_name(name, tool["name"]) for tool in found.get("tools", ())}
            else:
                home, (_, since) = self._home if self.are_heard else None, self._set[name]
                failed = await _failure(name, config, found, home, since)
                errors[name] = safe_line(": ".join([failed.why, *failed.stderr.splitlines()[-1:]]), _ERROR_WIDTH)
        self._definitions.known = dict(self._known)
        self._configs = self._listening = {name: config for name, config in configs.items() if name in self._known}
        return errors

    def _judged(self, name: str, servers: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """What the CLI says of a server. To it one that fails to list its tools is connected, and has none."""
        found = servers.get(name, {"status": "failed", "error": "it does not answer"})
        is_without = found.get("status") == "connected" and not found.get("tools")
        why = self._definitions.why_without(name) if is_without else None
        return found if why is None else {"status": "failed", "error": why}

    def hear(self, server: str, line: bytes) -> bool:
        """Take a message of a server, by its name or address, that the CLI has not read yet; False keeps it back."""
        for name in servers_at(server, self._listening) if "/" in server else [server]:
            listed = self._definitions.hear(name, line)
            if listed is None:
                return False
            if listed and self._has_begun:
                with contextlib.suppress(OSError):  # a full disk: the next event of the turn says so
                    self.look(listed)
        return True

    def replacing(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """These are about to be set: what is known of one that is another now is forgotten."""
        was, now = self._set, time.time() - _CLOCK
        self._set = {
            name: was[name] if name in was and was[name][0] == config else (config, now)
            for name, config in configs.items()
        }
        self._definitions.forget([name for name in {*was, *configs} if was.get(name) != self._set.get(name)])
        self._listening = {**self._configs, **configs}

    def begin(self) -> None:
        """A turn has begun: tell of the servers that the run does without."""
        self._has_begun = True
        failed, self._failed = self._failed, []
        for one in failed:
            self._tell("server", "failed", one.server, error=one.why, stderr=one.stderr)

    def look(self, tools: Iterable[str]) -> None:
        """Tell of the tools among these that their server did not have when the run began, or had otherwise."""
        found: dict[str, list[str]] = {}
        for tool in tools:
            server = self._server_of(tool)
            if server is None or self._why(server, tool) is None:
                continue
            seen = (tool, self._definitions.now(server, tool))
            if seen not in self._told:
                self._told.add(seen)
                found.setdefault(server, []).append(tool)
        for server, names in found.items():
            self._tell("server", "changed", server, tools=names)

    def doubt(self, tool: str) -> str | None:
        """Why a call of this tool needs a person's approval, whatever the policy says; None where it does not."""
        server = self._server_of(tool)
        why = None if server is None else self._why(server, tool)
        if server is None or why is None:
            return None
        self.look([tool])
        return f"the server '{server}' {why}"

    def definition(self, tool: str) -> str | None:
        """What tells a tool of these as it is defined now from any other; None where none was heard."""
        server = self._server_of(tool)
        return None if server is None else self._definitions.now(server, tool)

    def _why(self, server: str, tool: str) -> str | None:
        """What there is to say against a tool of a server; None where it is as it was when the run began."""
        if tool not in self._known[server]:
            return "did not have it when the run began"
        if self.are_heard and is_heard(self._configs.get(server, {})) and self._definitions.has_changed(server, tool):
            return "has changed it since the run began"
        return None

    def _server_of(self, tool: str) -> str | None:
        """The server that a tool belongs to: of several that it may be of by its name, one that has it."""
        servers = [name for name in self._known if tool.startswith(tool_name(name, ""))]
        having = [name for name in servers if tool in self._known[name]]
        return max(having or servers, key=len, default=None)


def as_configured(
    servers: Mapping[str, Mapping[str, Any]], variables: Mapping[str, str] | None = None, *, is_heard: bool
) -> dict[str, dict[str, Any]]:
    """The configurations as the CLI takes them, without what is only for us, and with `args`, which it always reads.

    `variables` are for the servers that it starts; what a configuration itself says of one wins. With `is_heard`
    these say what they say by way of this process.
    """
    found = {}
    for name, one in servers.items():
        found[name] = {key: kept for key, kept in one.items() if key not in ("optional", "ca_file")}
        if is_heard and "url" in one and loopback_port(one["url"]) is not None:
            found[name]["url"] = heard_url(one["url"])
        if one.get("type", "stdio") == "stdio":
            found[name] = relayed(name, found[name]) if is_heard else {"args": [], **found[name]}
            if variables:
                found[name]["env"] = {**variables, **found[name].get("env", {})}
    return found


async def _failure(
    name: str, config: Mapping[str, Any], found: Mapping[str, Any], home: Path | None, since: float = 0.0
) -> ServerFailedError:
    """Why it failed, with what it wrote to stderr, which the CLI writes down with some delay."""
    stderr = ""
    if config.get("type", "stdio") == "stdio" and home is not None:
        end = asyncio.get_running_loop().time() + _STDERR_PATIENCE
        while not (stderr := await asyncio.to_thread(server_stderr, home, ODD.sub("-", name), since)):
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(_POLL)  # the CLI does not say when
    why = str(found.get("error") or found.get("status") or "unknown")
    port = loopback_port(config["url"]) if "url" in config else None
    facts = {} if port is None else await _looked_at(port, host_tls(config["url"], config.get("ca_file")))
    return ServerFailedError(name, why, stderr, is_remote="url" in config and port is None, **facts)


async def _looked_at(port: int, tls: HostTLS | None) -> dict[str, Any]:
    """What is wrong at a port of this machine's loopback interface, as far as it shows at once."""
    context, name = (None, None) if tls is None else (tls.context(), tls.name)
    try:
        async with asyncio.timeout(_STDERR_PATIENCE):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    except ssl.SSLError as wrong:
        return {"not_tls": why_not_tls(wrong)}
    except (OSError, TimeoutError):
        return {"silent_port": port}
    writer.close()
    return {}


async def check_patterns(client: ClaudeSDKClient, spec: RunSpec, policy: Policy, without: Collection[str] = ()) -> None:
    """Look up the policy's patterns about servers, now that these can tell their tools; `without` those that failed.

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
    told = {name: one["tools"] for name, one in servers.items() if "tools" in one and name not in without}
    tools = {name: [tool["name"] for tool in listed] for name, listed in told.items()}
    offer.check_connected(patterns, tools)


async def _settled(client: ClaudeSDKClient, wanted: Iterable[str]) -> dict[str, Any]:
    """The status of every server, once none of these is being connected any more."""
    while True:
        servers: dict[str, Any] = {one["name"]: one for one in (await client.get_mcp_status())["mcpServers"]}
        if not any(servers.get(name, {}).get("status") == "pending" for name in wanted):
            return servers
        await asyncio.sleep(_POLL)  # the CLI does not say when
