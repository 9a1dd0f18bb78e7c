"""What the CLI is started with, as the SDK would start it: arguments and variables.

The SDK has this for its own process only, and once it is loaded. A test starts a program with both and
compares what it got.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_DISTRIBUTION = "claude_agent_sdk-"


def command_line(options: Mapping[str, Any]) -> list[str]:
    """The arguments for the options of a run, by the names that `ClaudeAgentOptions` has for them."""
    words = ["--output-format", "stream-json", "--verbose"]
    if "append" in options["system_prompt"]:
        words += ["--append-system-prompt", options["system_prompt"]["append"]]
    for name, flag in _PLAIN.items():
        value = options.get(name)
        if value:
            words += [flag, ",".join(value) if isinstance(value, list) else str(value)]
        elif value == [] and name == "tools":
            words += [flag, ""]
    if options.get("can_use_tool") is not None:
        words += ["--permission-prompt-tool", "stdio"]
    words += _session(options)
    for folder in options.get("add_dirs") or ():
        words += ["--add-dir", str(folder)]
    if options.get("mcp_servers"):
        words += ["--mcp-config", json.dumps({"mcpServers": _servers(options["mcp_servers"])})]
    words += [flag for name, flag in _SWITCHES.items() if options.get(name)]
    words.append(f"--setting-sources={','.join(options['setting_sources'])}")
    for plugin in options.get("plugins") or ():
        words += ["--plugin-dir", plugin["path"]]
    for flag, value in (options.get("extra_args") or {}).items():
        words += [f"--{flag}", str(value)]
    words += _thinking(options.get("thinking"))
    if options.get("effort") is not None:
        words += ["--effort", options["effort"]]
    if options.get("output_format") is not None:
        words += ["--json-schema", json.dumps(options["output_format"]["schema"])]
    return [*words, "--input-format", "stream-json"]


_PLAIN = {
    "tools": "--tools",
    "max_turns": "--max-turns",
    "max_budget_usd": "--max-budget-usd",
    "disallowed_tools": "--disallowedTools",
    "model": "--model",
    "fallback_model": "--fallback-model",
    "betas": "--betas",
    "permission_mode": "--permission-mode",
    "settings": "--settings",
}
"""Those that are a word or a list of words."""
_SWITCHES = {
    "include_partial_messages": "--include-partial-messages",
    "strict_mcp_config": "--strict-mcp-config",
    "fork_session": "--fork-session",
    "session_store": "--session-mirror",
}


def _session(options: Mapping[str, Any]) -> Iterator[str]:
    """With an equals sign each: the CLI would take a value that begins with a dash for another option."""
    for name in ("resume", "session_id", "resume_session_at"):
        if options.get(name):
            yield f"--{name.replace('_', '-')}={options[name]}"


def _servers(servers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The servers without those of this process, which the CLI asks by way of the SDK."""
    return {name: {key: kept for key, kept in one.items() if key != "instance"} for name, one in servers.items()}


def _thinking(thinking: Mapping[str, Any] | None) -> list[str]:
    if thinking is None:
        return []
    if thinking["type"] == "enabled":
        return ["--max-thinking-tokens", str(thinking["budget_tokens"])]
    return ["--thinking", str(thinking["type"])]


def variables(options: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The environment of the launcher, which lets in what the SDK tells the CLI of itself and nothing else."""
    inherited = {name: value for name, value in os.environ.items() if name != "CLAUDECODE"}
    return {
        "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
        **inherited,
        "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
        **(options.get("env") or {}),
        "CLAUDE_AGENT_SDK_VERSION": sdk_version(),
        "PWD": str(folder),
    }


def sdk_version() -> str:
    """The version of the SDK that is installed, by the name of its metadata: reading them takes a parser of mails."""
    from importlib.util import find_spec

    found = find_spec("claude_agent_sdk")
    assert found is not None
    assert found.origin is not None
    for name in os.listdir(Path(found.origin).parent.parent):  # noqa: PTH208
        if name.startswith(_DISTRIBUTION) and name.endswith(".dist-info"):
            return name[len(_DISTRIBUTION) : -len(".dist-info")]
    from importlib.metadata import version

    return version("claude-agent-sdk")
