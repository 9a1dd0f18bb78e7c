"""`RunSpec`, with its `Limits`: everything a run is asked to do, checked before anything starts."""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolkit._base.words import did_you_mean, safe_line
from toolkit.errors import RunError
from toolkit.runs.agents import with_betas
from toolkit.runs.asking.modes import Mode
from toolkit.runs.asking.policy import Policy
from toolkit.runs.fields import checked
from toolkit.runs.job.retry import Retry
from toolkit.runs.job.verify import Verify
from toolkit.runs.kinds import MOST, OptionError, check_names, path, shown
from toolkit.runs.prompts import PromptLike
from toolkit.sandbox import CREDENTIALS, HostTLS, find_api, host_tls, loopback_port, profile_text

if TYPE_CHECKING:
    from claude_agent_sdk import SessionStore, Transport

    from toolkit.runs.asking.approvals import Approver
    from toolkit.runs.job.setup import Setup
    from toolkit.runs.outcome.output import OutputShape
    from toolkit.runs.outcome.result import RunResult
    from toolkit.sandbox import Bookkeeper, Pace, SandboxSettings
    from toolkit.telemetry import Telemetry
    from toolkit.tools import Tool, Toolbox
    from toolkit_workspace import WorkspaceSection


_NO_LIMIT = "Leave it out for no limit"
_LIMITS_ELSEWHERE = {
    **dict.fromkeys(("deadline", "timeout", "max_seconds", "max_time"), "seconds=…"),
    "max_turns": "turns=…",
    **dict.fromkeys(("max_tokens", "max_total_tokens"), "tokens=…"),
    **dict.fromkeys(("max_usd", "max_budget_usd", "budget", "cost", "max_cost"), "usd=…"),
    **dict.fromkeys(("memory", "max_memory"), "memory_bytes=…"),
}
"""Limits by the names they have elsewhere, and what to write here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run. Time, turns, tokens and money are unlimited unless given; the machine has the jail's defaults.

    Raises:
        RunError: a limit that is negative, zero or not a number.
    """

    seconds: float | None = None
    """Wall-clock time from the prompt on."""
    turns: int | None = None
    """Model calls of the main conversation that ask for tools."""
    tokens: int | None = None
    """All tokens of all model calls, read from cache or not."""
    usd: float | None = None
    """Cost as the CLI counts it."""
    memory_bytes: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    """The largest single file."""
    workspace_bytes: int | None = None
    """All files of the workspace together."""
    cpu_seconds: int | None = None
    tmp_bytes: int | None = None
    """The size of /tmp inside the jail."""

    def __new__(cls, *args: Any, **limits: Any) -> Limits:
        """Answer a name that is no limit's in words, before Python says that it is no argument."""
        if args:
            fix = "Write for example: Limits(seconds=600, usd=2)"
            raise OptionError("limits", f"Limits({shown(args[0])}): a limit has a name", fix=fix)
        check_names("Limits", limits, [limit.name for limit in dataclasses.fields(cls)], _LIMITS_ELSEWHERE)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for limit in dataclasses.fields(self):
            value = getattr(self, limit.name)
            if value is None:
                continue
            whole = "int" in str(limit.type) and "float" not in str(limit.type)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 < value < math.inf or (whole and value != int(value)):
                kind = "a whole number above zero" if whole else "a number above zero"
                raise RunError(f"Limits({limit.name}={shown(value)}): a limit is {kind}", fix=_NO_LIMIT)
            if value > MOST:
                raise RunError(f"Limits({limit.name}={shown(value)}): a limit is {MOST} at most", fix=_NO_LIMIT)

    def given(self) -> dict[str, float]:
        """The limits that were given, by name."""
        values = {limit.name: getattr(self, limit.name) for limit in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def largest_workspace(self) -> int | None:
        """What all files of the workspace may have together, whether or not it was given."""
        from toolkit.sandbox import JailLimits

        return self.workspace_bytes or JailLimits().workspace_bytes

    def of_the_machine(self) -> dict[str, int]:
        """The limits that were given and that the jail holds."""
        names = ("memory_bytes", "processes", "file_bytes", "workspace_bytes", "cpu_seconds", "tmp_bytes")
        return {name: int(value) for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class InPlace:
    """A host folder that the agent changes directly: there is no copy, so nothing to review, apply or undo.

    Raises:
        OptionError: it is no path.
    """

    folder: Path | str

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | Path) or not str(self.folder):
            raise OptionError("workspace", f"InPlace({shown(self.folder)}): it is a folder, as a text or a Path")
        path("workspace", self.folder)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run is asked to do. Picklable when its parts are, so that it can be sent to another machine.

    Raises:
        OptionError: an option that is not what it may be; `option` names it.
        ToolkitError: options that do not go together, such as two servers of one name.
    """

    prompt: PromptLike
    """What to do: a text, texts and pictures in a list, or an async iterator of these, each of which is a turn."""
    _: dataclasses.KW_ONLY
    workspace: WorkspaceSection | InPlace | None = None
    """A WorkspaceSection (a copy), InPlace(folder) (the host's own files), or nothing: then an empty folder."""
    setup: Setup | None = None
    """A command that prepares the workspace before the agent, with network, once; a text is taken for the command."""
    tools: Sequence[Toolbox | Tool[..., Any] | Path | str] = ()
    """Toolboxes, TARGETs that are loaded when the run starts, or single tools: those are put into a box `tools`."""
    verify: Verify | None = None
    """What the launcher itself runs when the agent says it is done; a command, a function, a tool, or `Verify(…)`."""
    protect: Sequence[Path | str] = ()
    """Files and folders of the mounts that the agent cannot change, such as `tests/`."""
    retry: Retry | None = None
    """What is tried again because it is not the agent's fault: `Retry(…)`, or how often."""
    limits: Limits = field(default_factory=Limits)
    """A mapping with the same names is taken, too."""
    output: Any = None
    """The type the result's `output` shall have, or a JSON Schema."""
    model: str | None = None
    fallback_model: str | None = None
    """The model to go on with when the model API has no room for the first."""
    effort: str | None = None
    """How thorough the model is: `low`, `medium`, `high`, `xhigh` or `max`; the CLI's choice if not given."""
    thinking: int | Literal["adaptive", "off"] | None = None
    """How much it thinks: the most tokens for it, `adaptive`, or `off`; the CLI's choice if not given."""
    betas: Sequence[str] = ()
    """Betas of the model API to ask for, by name."""
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Subagents by name, each with a `description` and a `prompt`; then the CLI's tool Agent is offered, too."""
    plugins: Sequence[Path | str] = ()
    """Host folders with plugins of the CLI, shown read-only; what they start runs inside the jail."""
    folders: Sequence[Path | str] = ()
    """Further host folders that the agent may read, at their own paths."""
    hooks: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Functions of yours by event, as the SDK calls them; before a tool call they come after the guard."""
    system: str | None = None
    """Added to the CLI's system prompt."""
    native: Sequence[str] | None = None
    """The CLI's own tools to offer; the usual file tools and Bash if not given."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further MCP servers, as the SDK configures them; stdio ones start inside the jail. The run needs each of them,
    unless its configuration has `"optional": True`."""
    allow_servers: Sequence[str] = ()
    """Names of `servers` on this machine's own loopback that the CLI may reach."""
    profile: str | None = None
    domains: Sequence[str] = ()
    toolchain: bool = True
    """Lend the owner's tools for the mounts: virtual environments, node_modules, and what runs them."""
    readable: Sequence[Path | str] = ()
    """Host paths shown read-only inside the jail."""
    require: Sequence[str] = ()
    """Limits without which the run must not start."""
    allow_control_files: Sequence[str] = ()
    settings: SandboxSettings | None = None
    """Settings of the CLI that tighten the profile (`toolkit.sandbox.SandboxSettings`, or the same as a mapping)."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for the agent's commands and for tools."""
    api_url: str | None = None
    """Base URL of the model API; `ANTHROPIC_BASE_URL` if not given."""
    api_key: str | None = field(default=None, repr=False)
    """`ANTHROPIC_API_KEY` if no credential is given; it never enters the jail, and neither do the following."""
    api_key_file: Path | str | None = None
    auth_token: str | None = field(default=None, repr=False)
    """A gateway's token, sent as `Authorization: Bearer`; `ANTHROPIC_AUTH_TOKEN`."""
    oauth_token: str | None = field(default=None, repr=False)
    """A subscription's token; `CLAUDE_CODE_OAUTH_TOKEN`."""
    api_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers for every request to the model API; `ANTHROPIC_CUSTOM_HEADERS`."""
    cli_path: Path | str | None = None
    mode: Mode = "yolo"
    """`yolo`, `normal`, `read-only`, or one of the CLI's own permission modes, such as `plan`."""
    policy: Mapping[str, str] = field(default_factory=dict)
    """`allow`, `ask`, `deny`, `defer` or `disable` by tool pattern; the first that matches decides."""
    safe: Sequence[str] = ()
    """Tools that never need asking."""
    approve: Approver | Literal["wait"] | None = None
    """Who answers: a callback, or "wait" for `live.approvals.answer`; nobody if not given."""
    approval_timeout: float | None = None
    """Seconds after which a question counts as refused."""
    resume: str | None = None
    """A session to go on with: `result.session` of an earlier run."""
    fork: bool = False
    """Go on in a new session and leave the old one as it is."""
    at: str | None = None
    """With `fork`: the message to go on from; what came after it is forgotten."""
    store: SessionStore | None = None
    """Where conversations are kept; a folder beside the runs if not given."""
    trace: str | None = None
    """An id of the caller's, carried by every event."""
    telemetry: Telemetry | None = None
    """Where traces and metrics of the run go; nowhere if not given."""
    branch: str | None = None
    """Make the work a branch of this name at the end, if it was verified, or nothing was to be and the run is ok."""
    before_run: Callable[[RunSpec], str | Awaitable[str | None] | None] | None = None
    """Called before the prompt is sent; text it gives is put before the prompt."""
    after_run: Callable[[RunResult[Any]], Awaitable[None] | None] | None = None
    """Called once with the result, however the run ended."""
    listener_timeout: float = 30.0
    """Seconds that leaving the run waits for listeners that are behind."""
    pace: Pace | None = field(default=None, repr=False)
    """When requests to the model API leave, for runs that share a rate: `toolkit.fleets.rate.Rate().of_run()`."""
    books: Bookkeeper | None = field(default=None, repr=False)
    """Who is told of each model call before it leaves and when it has ended, for runs whose machine may be lost."""
    run_id: str = field(default_factory=lambda: f"run-{uuid.uuid4().hex[:12]}")
    home: Path | str | None = None
    """Where runs are stored; `TOOLKIT_HOME`, else the platform's state folder."""
    transport: Transport | None = None
    """A FakeCLI, for tests: nothing is started, so nothing is confined."""

    def __new__(cls, *args: Any, **options: Any) -> RunSpec:
        """Answer a name that is no option's in words, before Python says that it is no argument."""
        _check_names(options)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, value in checked(
            {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        ).items():
            object.__setattr__(self, name, value)
        names = [*(box.name for box in self.tools if not isinstance(box, str)), *self.servers]
        for name in names:
            if names.count(name) > 1:
                raise RunError(f"two servers are called '{name}'", fix="Give one Toolbox another name")
        if self.resume is None and (self.fork or self.at is not None):
            raise RunError("there is no session to fork", fix="Name it: run(…, resume=result.session, fork=True)")
        if self.at is not None and not self.fork:
            raise RunError("at=… goes back in a session, which needs a fork", fix="Write fork=True as well")
        self._check_setup()
        if self.protect:
            from toolkit.runs.attempts.protect import check_on_host

            check_on_host(self)
        self.host_ports()
        self.host_tls()
        if self.env and self.transport is None:
            from toolkit.sandbox import checked_env  # with the jail's own variables, which take a moment to load

            checked_env(self.env)
        if self.fallback_model is not None and self.fallback_model == self.model:
            raise RunError("the fallback model is the model itself", fix="Name another one, or leave it out")
        if self.agents and self.native is not None and "Agent" not in self.native:
            raise RunError("subagents need the CLI's tool Agent", fix='Offer it: native=[…, "Agent"]')
        has_no_copy = isinstance(self.workspace, InPlace) or (self.workspace is None and self.resume is None)
        if self.branch is not None and has_no_copy:
            raise OptionError(
                "branch",
                "branch: it is made of what an agent changed in a copy, and there is none",
                fix="Give it a workspace of mounts: WorkspaceSection([HostMount(…)], allowed_host_roots=[…])",
            )
        self.rules()
        profile_text(
            self.jail_profile,
            domains=self.domains,
            allow_control_files=self.allow_control_files,
            settings=self.settings,
            nested=True,
        )

    def _check_setup(self) -> None:
        if self.setup is None:
            return
        if self.transport is not None:
            raise OptionError(
                "setup", "a setup runs in the jail, and a transport has none", fix="Leave one of them out"
            )
        if isinstance(self.workspace, InPlace):
            what = "a setup needs a copy: in place, what it makes would stand in the host's own folder"
            raise OptionError(
                "setup", what, fix="Run it there yourself, or work in a copy: workspace=WorkspaceSection(…)"
            )
        if self.workspace is None and self.resume is None:
            what = "a setup needs a workspace: there is nothing mounted that it could prepare"
            raise OptionError("setup", what, fix="Write workspace=WorkspaceSection(…), or --mount DIR")

    @property
    def jail_profile(self) -> str:
        """The profile of the jail: the mode can ask for a stricter one."""
        return "read-only" if self.mode == "read-only" else self.profile_name

    @property
    def profile_name(self) -> str:
        """The profile that was chosen; without one it follows from the domains."""
        return self.profile or ("allowlist" if self.domains else "offline")

    def shape(self) -> OutputShape | None:
        """The form of the output; None where none was asked for."""
        if self.output is None or self.output is type(None):
            return None
        from toolkit.runs.outcome.output import OutputShape

        return OutputShape(self.output)

    def host_ports(self) -> list[int]:
        """The ports of this machine that the servers of the run are reached at.

        Raises:
            RunError: a server is on this machine and not allowed, or allowed and not there.
            SandboxError: its URL is none that the jail can use.
        """
        found = self.ports_of(self.servers)
        for name in self.allow_servers:
            if name not in found:
                raise RunError(f"allow_servers: no server '{name}' is on this machine{did_you_mean(name, found)}")
        return list(dict.fromkeys(found.values()))

    def host_tls(self) -> dict[int, HostTLS]:
        """The ports among these where TLS is spoken."""
        return {port: tls for port, tls in self.ways_to(self.servers).items() if tls is not None}

    def ways_to(self, servers: Mapping[str, Mapping[str, Any]]) -> dict[int, HostTLS | None]:
        """How the servers on this machine are spoken to, by their ports: in TLS, or None for plain HTTP.

        Raises:
            RunError: two of them have one port and are to be spoken to differently.
            SandboxError: a certificate file cannot be used.
        """
        found: dict[int, HostTLS | None] = {}
        for name, port in self.ports_of(servers).items():
            way = host_tls(servers[name]["url"], servers[name].get("ca_file"))
            if found.setdefault(port, way) != way:
                what = f"server '{name}' is at port {port} of this machine, where another is spoken to differently"
                raise RunError(what, fix="Write both with the same scheme, host and ca_file")
            if way is not None:
                way.context()
        return found

    def ports_of(self, servers: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """The ports of this machine that servers are reached at, by their names.

        Raises:
            RunError: one is on this machine and not allowed, or is elsewhere and not optional.
            SandboxError: its URL is none that the jail can use.
        """
        found: dict[str, int] = {}
        for name, config in servers.items():
            is_web = config.get("type") in ("http", "sse")
            port = loopback_port(config["url"]) if is_web else None
            if is_web and port is None and not config.get("optional") and self.transport is None:
                raise RunError(
                    f"server '{name}' is not on this machine, and the jail reaches no other",
                    fix="Let it run here: started by a command in the jail, or on 127.0.0.1 and allowed by its name",
                )
            if port is not None and name not in self.allow_servers and self.transport is None:
                raise RunError(
                    f"server '{name}' is on this machine, which the jail does not reach",
                    where=[f"port {port} of the loopback interface"],
                    fix=f'To let the CLI use it: allow_servers=["{name}"]',
                )
            found |= {} if port is None else {name: port}
        return found

    def reach(self) -> dict[str, Any]:
        """The options that say where the model API is and what it is reached with, for `find_api` and `confine`."""
        names = ("api_url", "api_key", "api_key_file", "auth_token", "oauth_token")
        found = {name: getattr(self, name) for name in names}
        return found | {"api_headers": with_betas(self.api_headers, self.betas)}

    def check_key(self) -> None:
        """Refuse a run that has no credential for the model API.

        Raises:
            RunError: there is neither a credential nor a base URL to do without one.
            SandboxError: one of them cannot be used.
        """
        if find_api(**self.reach()).lacks_key:
            raise RunError(
                "there is no key for the model API",
                where=[f"{', '.join(CREDENTIALS.values())} and ANTHROPIC_BASE_URL are not set"],
                fix="Set ANTHROPIC_API_KEY, or try it without one: toolkit demo",
            )

    def check_tools(self) -> None:
        """Load the tools and look up every tool that an option names; nothing is started.

        Raises:
            ToolkitError: tools that do not load, or a name that means none of them.
        """
        from toolkit.runs.agents import check_tool_names
        from toolkit.runs.boxes import load_boxes, make_offer

        offer = make_offer(self, load_boxes(self))
        self.rules().about(offer)
        check_tool_names(self, offer)

    def rules(self, is_read_only: Callable[[str], bool] = lambda tool: False) -> Policy:
        """The policy of the run."""
        return Policy(self.mode, self.policy, self.safe, is_read_only)


def make_spec(prompt: PromptLike | RunSpec, options: Mapping[str, Any]) -> RunSpec:
    """The spec for `run(prompt, **options)`; an option that does not exist is named.

    Raises:
        RunError: an unknown option, or a spec that is not good.
    """
    _check_names(options, given=["prompt"])
    if isinstance(prompt, RunSpec):
        return dataclasses.replace(prompt, **options) if options else prompt
    return RunSpec(prompt, **options)


def _check_names(options: Mapping[str, Any], given: Iterable[str] = ()) -> None:
    """Raise unless every name is that of an option which is not `given` already; say what was probably meant."""
    known = {entry.name for entry in dataclasses.fields(RunSpec)}.difference(given)
    for name, value in options.items():
        if name not in known:
            raise _unknown(name, value, known - {"prompt"})


_MEANT = {
    "deadline": "limits=Limits(seconds={})",
    "timeout": "limits=Limits(seconds={})",
    "max_turns": "limits=Limits(turns={})",
    "max_tokens": "limits=Limits(tokens={})",
    "max_usd": "limits=Limits(usd={})",
    "max_budget_usd": "limits=Limits(usd={})",
    "budget": "limits=Limits(usd={})",
    "mounts": "workspace=WorkspaceSection(mounts, allowed_host_roots=[…])",
    "mount": "workspace=WorkspaceSection([HostMount({0})], allowed_host_roots=[{0}])",
    "cwd": "workspace=WorkspaceSection([HostMount({0})], allowed_host_roots=[{0}])",
    "add_dirs": "folders={}",
    "fork_session": "fork={}",
    "continue_conversation": "resume=result.session",
    "max_thinking_tokens": "thinking={}",
    "cli": "cli_path={}",
    "toolbox": "tools=[box]",
    "toolboxes": "tools=[box]",
    "system_prompt": "system={}",
    "append_system_prompt": "system={}",
    "permission_mode": "mode={}",
    "mcp_servers": "servers={}",
    "allowed_tools": "native=[…]",
    "disallowed_tools": 'policy={{"Bash": "disable"}}',
    "can_use_tool": "approve=function",
    "on_approval": "approve=function",
    "output_format": "output={}",
    "output_type": "output={}",
    "allow_domains": "domains={}",
    "session": "resume={}",
    "session_id": "resume={}",
    "check": "verify={}",
    "attempts": "verify=Verify(command, attempts={})",
    "retries": "retry={}",
    "key": "api_key=…",
    "base_url": "api_url={}",
    "api_base": "api_url={}",
    "in_place": "workspace=InPlace({})",
    "prompt_file": "Path({}).read_text() as the prompt",
    "memory": "limits=Limits(memory_bytes=…)",
    "on_event": "async with start(…) as live: live.bus.subscribe(function)",
}
"""Options by the names they have elsewhere, and what to write here."""


def _unknown(name: str, value: object, known: Iterable[str]) -> OptionError:
    limits = {limit.name for limit in dataclasses.fields(Limits)}
    meant = _MEANT.get(name) or (f"limits=Limits({name}={{}})" if name in limits else None)
    if meant is None:
        return OptionError(name, f"a run has no option '{name}'{did_you_mean(name, sorted(known))}")
    shown = safe_line(repr(value), 40)
    return OptionError(name, f"a run has no option '{name}'; did you mean {meant.format(shown)}?")
