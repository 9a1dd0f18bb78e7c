"""What well-formed settings leave open: the protections that are missing, and the rules that never match.

Each finding names the place, what is (not) there, what follows, and the line to
write. Values of a wrong type are skipped: the form check speaks about those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from toolkit.errors import SettingsError
from toolkit.sandbox.domains import parse_domain

_RULE = re.compile(r"(?P<tool>[A-Za-z][\w-]*(?:\*)?)(?:\((?P<inside>.*)\))?", re.DOTALL)
_MATCHED_BY = {"Write": "Edit", "NotebookEdit": "Edit", "MultiEdit": "Edit", "Glob": "Read", "Grep": "Read"}


class Finding(NamedTuple):
    """One hole, or one thing worth knowing."""

    level: Literal["error", "note"]
    loc: tuple[str | int, ...]
    what: str
    consequence: str
    fix: str = ""


class _Must(NamedTuple):
    """A switch that has to stand as given, or a protection is lost."""

    loc: tuple[str, ...]
    value: bool
    consequence: str


_MUST = (
    _Must(("sandbox", "enabled"), True, "The sandbox is off: commands run with all your rights."),
    _Must(
        ("sandbox", "failIfUnavailable"),
        True,
        "Without bubblewrap or socat the CLI warns once and runs commands unsandboxed.",
    ),
    _Must(
        ("sandbox", "allowUnsandboxedCommands"),
        False,
        "The model can ask for a command outside the sandbox (dangerouslyDisableSandbox).",
    ),
    _Must(
        ("sandbox", "network", "strictAllowlist"),
        True,
        "Under bypassPermissions commands reach every host, listed or not.",
    ),
    _Must(
        ("permissions", "blockWritesOutsideWorkingDirectories"),
        True,
        "The sandbox confines Bash only: Write and Edit change files anywhere.",
    ),
)
_MUST_NOT = {
    ("sandbox", "filesystem", "disabled"): "Commands read and write all files.",
    ("sandbox", "network", "allowAllUnixSockets"): "Commands reach every local service, such as a container daemon.",
    ("sandbox", "allowNestedUserNamespaces"): "Commands get a larger part of the kernel to attack.",
    ("sandbox", "credentials", "allowPlaintextInject"): "Real credentials may travel unencrypted.",
}
_OPENING_LISTS = {
    ("sandbox", "excludedCommands"): "These commands run outside the sandbox.",
    ("permissions", "blockReadsExemptPaths"): "The file tools may read these although they lie outside.",
    ("permissions", "additionalDirectories"): "The agent works in these folders too.",
    ("sandbox", "filesystem", "allowWrite"): "Commands may write there as well.",
}
_MANAGED_ONLY = (
    ("sandbox", "bwrapPath"),
    ("sandbox", "socatPath"),
    ("sandbox", "enabledPlatforms"),
    ("sandbox", "network", "allowManagedDomainsOnly"),
    ("sandbox", "filesystem", "allowManagedReadPathsOnly"),
)
_MAC_ONLY = (
    ("sandbox", "network", "allowUnixSockets"),
    ("sandbox", "network", "allowLocalBinding"),
    ("sandbox", "network", "allowMachLookup"),
    ("sandbox", "enableWeakerNetworkIsolation"),
    ("sandbox", "allowAppleEvents"),
)
_RUNNING_KEYS = {
    "hooks": "Hooks run as you, outside the sandbox.",
    "apiKeyHelper": "The command runs as you, outside the sandbox.",
    "statusLine": "The command runs as you, outside the sandbox.",
    "enableAllProjectMcpServers": "MCP servers named in the workspace are started, outside the sandbox.",
    "enabledMcpjsonServers": "MCP servers named in the workspace are started, outside the sandbox.",
    "enabledPlugins": "Plugins bring hooks and servers that run outside the sandbox.",
}


def holes(data: Mapping[str, Any], *, is_project_file: bool) -> Iterator[Finding]:
    """Everything these settings leave open, in the order of the tables above."""
    yield from _switches(data)
    yield from _reads(data)
    for loc, consequence in _OPENING_LISTS.items():
        if isinstance(value := _at(data, loc), list) and value:
            level: Literal["error", "note"] = "error" if loc[-1] == "excludedCommands" else "note"
            yield Finding(level, loc, "is not empty", consequence, "Remove it unless you mean it.")
    yield from _domains(data)
    yield from _relative_paths(data)
    for name in ("allow", "deny", "ask"):
        yield from _rules(data, name)
    yield from _remarks(data)
    if is_project_file:
        yield Finding(
            "error",
            (),
            "is a project settings file",
            "The CLI ignores strictAllowlist there, and the agent can rewrite the file: the CLI reloads it at once.",
            'Pass the settings instead: claude --settings "$(cat FILE)" --setting-sources ""',
        )


def _switches(data: Mapping[str, Any]) -> Iterator[Finding]:
    for must in _MUST:
        value = _at(data, must.loc)
        if value is must.value or (value is not None and not isinstance(value, bool)):
            continue
        what = "is not set" if value is None else f"is {str(value).lower()}"
        yield Finding("error", must.loc, what, must.consequence, f'Write "{must.loc[-1]}": {str(must.value).lower()}')
    for loc, consequence in _MUST_NOT.items():
        if _at(data, loc) is True:
            yield Finding("error", loc, "is true", consequence, "Remove it.")
    if _at(data, ("permissions", "disableBypassPermissionsMode")) == "disable":
        yield Finding(
            "note",
            ("permissions", "disableBypassPermissionsMode"),
            "is set",
            "bypassPermissions becomes 'default' in silence: an unattended run stops at the first question.",
        )


def _reads(data: Mapping[str, Any]) -> Iterator[Finding]:
    names = ("blockReadsOutsideWorkingDirectories", "blockFileToolReadsOutsideWorkingDirectories")
    if not any(_at(data, ("permissions", name)) is True for name in names):
        yield Finding(
            "error",
            ("permissions", names[0]),
            "is not set",
            "The sandbox confines Bash only: Read and Grep open every file you can read.",
            f'Write "{names[0]}": true',
        )


def _domains(data: Mapping[str, Any]) -> Iterator[Finding]:
    loc = ("sandbox", "network", "allowedDomains")
    domains = _at(data, loc)
    for index, domain in enumerate(domains if isinstance(domains, list) else ()):
        if isinstance(domain, str):
            try:
                parse_domain(domain)
            except SettingsError as wrong:
                consequence = "It matches nothing, or more than you mean."
                yield Finding("error", (*loc, index), wrong.what, consequence, wrong.fix)


def _relative_paths(data: Mapping[str, Any]) -> Iterator[Finding]:
    for name in ("allowWrite", "denyWrite", "denyRead", "allowRead"):
        loc = ("sandbox", "filesystem", name)
        paths = _at(data, loc)
        for index, path in enumerate(paths if isinstance(paths, list) else ()):
            if isinstance(path, str) and not path.startswith(("/", "~")):
                yield Finding(
                    "error" if name.startswith("deny") else "note",
                    (*loc, index),
                    f"{path!r} is a relative path",
                    "It counts from the folder of the settings file (a temporary one for inline settings), "
                    "not from the workspace.",
                    "Write an absolute path; for the workspace use a rule such as Edit(./**) in permissions.deny",
                )


def _rules(data: Mapping[str, Any], name: str) -> Iterator[Finding]:
    rules = _at(data, ("permissions", name))
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        loc = ("permissions", name, index)
        match = _RULE.fullmatch(rule) if isinstance(rule, str) else None
        if match is None:
            if isinstance(rule, str) and rule != "*":
                yield Finding("error", loc, f"{rule!r} is no rule", "The CLI drops it.", "Write Tool or Tool(pattern).")
            continue
        tool, inside = match["tool"], match["inside"]
        if inside is None:
            continue
        if tool in _MATCHED_BY:
            better = f"{_MATCHED_BY[tool]}({inside})"
            yield Finding("error", loc, f"{rule!r} never matches", f"{tool} takes no path.", f"Write {better}")
        elif tool in ("Read", "Edit") and re.match(r"/[^/]", inside):
            yield Finding(
                "error",
                loc,
                f"{rule!r} begins with one slash",
                "It counts from the folder of the settings file, not from the root.",
                f"Write {tool}(/{inside})",
            )
        elif name == "deny" and inside.startswith("**/") and f"{tool}({inside[3:]})" not in rules:
            consequence = "A pattern that begins with ** holds the file tools, but not sandboxed commands."
            yield Finding("note", loc, f"{rule!r} stands alone", consequence, f"Add {tool}({inside[3:]})")


def _remarks(data: Mapping[str, Any]) -> Iterator[Finding]:
    for loc in _MANAGED_ONLY:
        if _at(data, loc) is not None:
            yield Finding("note", loc, "is for managed settings", "It has no effect in any other file.")
    for loc in _MAC_ONLY:
        if _at(data, loc) is not None:
            yield Finding("note", loc, "is for macOS", "It has no effect on Linux.")
    for key, consequence in _RUNNING_KEYS.items():
        if data.get(key):
            yield Finding("note", (key,), "starts programs", consequence, "Start the CLI in the jail.")
    if _at(data, ("sandbox", "enableWeakerNestedSandbox")) is True:
        consequence = "The sandbox shares /proc with the CLI: right inside the jail, weaker anywhere else."
        yield Finding("note", ("sandbox", "enableWeakerNestedSandbox"), "is true", consequence)


def _at(data: object, loc: tuple[str, ...]) -> Any:
    for name in loc:
        if not isinstance(data, Mapping):
            return None
        data = data.get(name)
    return data
