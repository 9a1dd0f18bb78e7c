"""Ready settings for the CLI, by name.

    offline    no network at all
    allowlist  sandboxed commands reach the named domains, nothing else
    read-only  offline, and nothing in the workspace can be changed
    minimal    the popular recipe (sandbox on, no domains): not enough on its own

Every profile fails closed: it refuses to start without a sandbox, honours no
request to leave it, denies hosts that are not listed, keeps the file tools in
the working directory and protects the files that steer the CLI or git. What
settings cannot do (confine hooks, MCP servers and the CLI itself) is the work
of the jail, `toolkit.sandbox.confine`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean, nearest
from toolkit.errors import SettingsError
from toolkit.sandbox.domains import parse_domains

if TYPE_CHECKING:
    from toolkit.sandbox.settings import SandboxSettings

PROFILES = {
    "offline": "No network at all: the choice for unattended work.",
    "allowlist": "Sandboxed commands reach the domains you name, nothing else.",
    "read-only": "Offline, and nothing in the workspace can be changed.",
    "minimal": "The popular recipe (sandbox on, no domains), made to fail closed: not enough on its own.",
}
"""The names of the profiles, with a sentence for each."""

CONTROL_FILES = (".claude", ".mcp.json", ".git/hooks", ".git/config", "CLAUDE.md", "CLAUDE.local.md")
"""Files and folders in a workspace that steer the CLI or git, in this run or the next."""

NATIVE_TOOLS = (
    "Agent",
    "Bash",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "Glob",
    "Grep",
    "ListAgents",
    "Monitor",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskStop",
    "TaskUpdate",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
)
"""The CLI's own tools, as `native=` may name them. The CLI leaves out a name it does not know, and does not say so."""
OLD_NAMES = {"Task": "Agent"}
"""What the CLI still calls one of them in places, and takes as its name."""
TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "NotebookEdit")
"""The CLI's own tools an agent is offered."""
READ_ONLY_TOOLS = ("Read", "Grep", "Glob")
"""Those of them that change nothing. A command can change anything it reaches, so Bash is none of them."""

# Tools that reach the network, or leave something running, from the unconfined CLI itself.
_REACHING_TOOLS = (
    "WebFetch",
    "WebSearch",
    "Monitor",
    "CronCreate",
    "RemoteTrigger",
    "PushNotification",
    "SendUserFile",
)
_ADDING = (
    "permissions.deny",
    "sandbox.credentials.envVars",
    "sandbox.credentials.files",
    "sandbox.filesystem.denyRead",
    "sandbox.filesystem.denyWrite",
    "sandbox.ignoreViolations",
    "sandbox.network.deniedDomains",
)
"""Lists that only take away from what an agent can do, and what is reported."""
_PATHS = ("sandbox.filesystem.denyRead", "sandbox.filesystem.denyWrite")
_SWITCHING_ON = (
    "permissions.blockFileToolReadsOutsideWorkingDirectories",
    "permissions.blockReadsOutsideWorkingDirectories",
    "permissions.denyInsteadOfPrompting",
    "permissions.disableAutoMode",
)
_WRITING_TOOLS = ("Edit", "Write", "NotebookEdit")

_PROXY_PORTS = ("httpProxyPort", "socksProxyPort")
"""With one of them missing, the CLI starts a proxy of its own, and waits for it."""


def profile(
    name: str,
    *,
    domains: Sequence[str] = (),
    deny_read: Sequence[str] = (),
    allow_control_files: Sequence[str] = (),
    nested: bool = False,
    home: str | None = None,
    proxy_port: int | None = None,
    settings: SandboxSettings | None = None,
) -> SandboxSettings:
    """Complete settings for one profile.

    Args:
        name: One of `PROFILES`.
        domains: For `allowlist`: the hosts sandboxed commands may reach.
        deny_read: Further paths, absolute or from `~/`, that neither tools nor commands may read.
        allow_control_files: Names from `CONTROL_FILES` that may be changed after all.
        nested: For use inside a jail: the weaker sandbox that works there.
        home: With `nested`: the home of the commands, which they may write to like any temp folder.
        proxy_port: A loopback port that leads to the gate of a jail, in place of proxies of the CLI's own.
        settings: Further settings of yours. They may only tighten the profile: hide more, deny more.

    Raises:
        SettingsError: unknown profile, domains where none are meant or none where some are, a bad domain,
            path or control file, or a setting that would open what the profile closes.
    """
    from toolkit.sandbox.settings import SandboxSettings

    made = SandboxSettings.parse(
        _data(name, domains, deny_read, allow_control_files, nested=nested, home=home, proxy_port=proxy_port)
    )
    return made if settings is None else _tightened(made, settings, name, nested=nested)


def profile_text(
    name: str,
    *,
    domains: Sequence[str] = (),
    allow_control_files: Sequence[str] = (),
    nested: bool = False,
    home: str | None = None,
    proxy_port: int | None = None,
    settings: SandboxSettings | None = None,
) -> str:
    """`profile` as the CLI takes it; raises as that does.

    Without settings of the caller's there is nothing to judge, and the model of all settings is not loaded.
    """
    if settings is None:
        data = _data(name, domains, (), allow_control_files, nested=nested, home=home, proxy_port=proxy_port)
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return profile(
        name,
        domains=domains,
        allow_control_files=allow_control_files,
        nested=nested,
        home=home,
        proxy_port=proxy_port,
        settings=settings,
    ).as_json()


def _data(
    name: str,
    domains: Sequence[str],
    deny_read: Sequence[str],
    allow_control_files: Sequence[str],
    *,
    nested: bool,
    home: str | None,
    proxy_port: int | None,
) -> dict[str, Any]:
    """The settings of a profile, spelt and ordered as `SandboxSettings` writes them."""
    if name not in PROFILES:
        meant = nearest(str(name), PROFILES)
        hint = f"Did you mean '{meant}'? " if meant else ""
        raise SettingsError(f"there is no profile '{name}'", fix=f"{hint}The profiles are: {', '.join(PROFILES)}")
    allowed = parse_domains(domains)
    if allowed and name != "allowlist":
        raise SettingsError(f"profile '{name}' reaches no domains", where=list(allowed), fix="Use profile 'allowlist'")
    if name == "allowlist" and not allowed:
        raise SettingsError("profile 'allowlist' names no domain", fix="Name one (--allow-domain), or use 'offline'")
    hidden = [_checked_path(path) for path in deny_read]
    network = {"allowedDomains": list(allowed), "strictAllowlist": True, "allowAllUnixSockets": False}
    sandbox: dict[str, Any] = {
        "enabled": True,
        "failIfUnavailable": True,
        "allowUnsandboxedCommands": False,
        "network": network | ({} if proxy_port is None else dict.fromkeys(_PROXY_PORTS, proxy_port)),
        **_filesystem(hidden, home),
    }
    permissions: dict[str, Any] = {
        "deny": [*_control_rules(allow_control_files), *_tool_rules(name), *_read_rules(hidden)]
    }
    # The first also makes Bash ask for every path outside, and nobody is there to answer. In a jail
    # there is nothing outside to read, so there the file tools alone are held.
    if not nested:
        permissions["blockReadsOutsideWorkingDirectories"] = True
    permissions["blockWritesOutsideWorkingDirectories"] = True
    if nested:
        sandbox["enableWeakerNestedSandbox"] = True
        permissions["blockFileToolReadsOutsideWorkingDirectories"] = True
    return {"sandbox": sandbox, "permissions": permissions}


def _tightened(made: SandboxSettings, more: SandboxSettings, profile: str, *, nested: bool) -> SandboxSettings:
    """The profile's settings with more of them.

    Raises:
        SettingsError: one that is not known to tighten.
    """
    has = dict(_leaves(made.as_dict()))
    for key, value in _leaves(more.as_dict()):
        if key == "permissions.deny":
            _check_rules(value)
        if key in _PATHS:
            _check_paths(key, value, nested=nested)
        if key in _ADDING or (key in _SWITCHING_ON and value in (True, "disable")) or has.get(key) == value:
            continue
        before = f"the profile '{profile}' has {json.dumps(has[key])}" if key in has else "it may open what is closed"
        raise SettingsError(
            f"settings key '{key}' cannot be set beside a profile",
            where=[f"{before}, and not {json.dumps(value)[:80]}"],
            fix=f"Leave it out. These may be set: {', '.join((*_ADDING, *_SWITCHING_ON))}",
            key=key,
        )
    return made.with_more(more)


def _check_paths(key: str, paths: Sequence[str], *, nested: bool) -> None:
    for path in paths:
        if not path.startswith("/" if nested else ("/", "~/")):
            raise SettingsError(
                f"{key}: {path!r} is no absolute path",
                where=["the CLI counts it from a temporary folder, or from a home that commands do not have"],
                fix="Write it from the root, as the agent knows it; patterns go into permissions.deny: Read(**/name)",
                key=key,
            )


def _check_rules(rules: Sequence[str]) -> None:
    known = (*NATIVE_TOOLS, *_REACHING_TOOLS)
    for rule in rules:
        tool = rule.partition("(")[0]
        if not tool.startswith("mcp__") and not any(fnmatchcase(name, tool) for name in known):
            what = f"permissions.deny: the CLI has no tool '{tool}'{did_you_mean(tool, known)}"
            raise SettingsError(what, fix="Name one that it has: such a rule denies nothing", key="permissions.deny")


def _leaves(data: dict[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key; what is in a mapping of the user's own counts as one."""
    for name, value in data.items():
        key = f"{place}.{name}" if place else name
        if isinstance(value, dict) and key not in _ADDING:
            yield from _leaves(value, key)
        else:
            yield key, value


def _filesystem(hidden: Sequence[str], home: str | None) -> dict[str, Any]:
    if home is None:
        return {"filesystem": {"denyRead": list(hidden)}} if hidden else {}
    # bash reads .bashrc before the system call filter of the CLI's sandbox is in force.
    allowed = [home, "/tmp", "/var/tmp", "/dev/shm"]
    return {"filesystem": {"allowWrite": allowed, "denyWrite": [f"{home}/.bashrc"], "denyRead": list(hidden)}}


def _control_rules(allowed: Sequence[str]) -> list[str]:
    for name in allowed:
        if name not in CONTROL_FILES:
            raise SettingsError(f"'{name}' is no control file", fix=f"They are: {', '.join(CONTROL_FILES)}")
    rules = []
    for name in (name for name in CONTROL_FILES if name not in allowed):
        # A plain path also binds sandboxed commands, at the top of the workspace; a pattern binds the file
        # tools in every folder.
        rules += [f"Edit({name})", f"Edit(**/{name})"]
        if name in (".claude", ".git/hooks"):
            rules += [f"Edit({name}/**)", f"Edit(**/{name}/**)"]
    return rules


def _tool_rules(name: str) -> tuple[str, ...]:
    if name == "minimal":
        return ()
    # Edit(./**) is what keeps sandboxed commands from writing; a relative denyWrite would be read from the
    # folder of the settings, not of the workspace.
    return (*_WRITING_TOOLS, "Edit(./**)", *_REACHING_TOOLS) if name == "read-only" else _REACHING_TOOLS


def _read_rules(paths: Sequence[str]) -> list[str]:
    # In a rule an absolute path begins with two slashes; one slash means "from the settings' own folder".
    rooted = [f"/{path}" if path.startswith("/") else path for path in paths]
    return [f"Read({path}{rest})" for path in rooted for rest in ("", "/**")]


def _checked_path(text: str) -> str:
    path = PurePosixPath(text)
    is_rooted = text.startswith(("/", "~/"))
    if not is_rooted or ".." in path.parts or not text.isprintable() or any(char in text for char in "*?[](){}"):
        raise SettingsError(
            f"path {text!r} cannot be hidden", fix="Give one path, absolute or from ~/, without '..' and wildcards"
        )
    if path == PurePosixPath("/"):
        raise SettingsError("hiding '/' would leave nothing to run", fix="Name the folders to hide")
    return str(path)
