"""The keys of a project file: the fields of `RunSpec`, `HostMount` and `Limits` that a team can write down once.

Every field of `RunSpec` is a key, or stands in `LEFT_OUT` with the reason, and so does every option of
`toolkit run`; a test compares the lists, so that the next option cannot be forgotten. The value of a
key is judged by the rule of its field (`toolkit/runs/fields.py`).
"""

from __future__ import annotations

from typing import Any

from toolkit.runs.projects.reading.forms import (
    Form,
    Spot,
    anything,
    by_kind,
    closed,
    duration,
    flag,
    forms_of,
    list_of,
    path,
    table_of,
    text,
    whole,
)
from toolkit.runs.spec import Limits, RunSpec
from toolkit_workspace import HostMount

OF_A_RUN = (
    "setup",
    "tools",
    "limits",
    "verify",
    "protect",
    "retry",
    "model",
    "fallback_model",
    "effort",
    "thinking",
    "betas",
    "agents",
    "plugins",
    "folders",
    "system",
    "native",
    "servers",
    "allow_servers",
    "profile",
    "domains",
    "toolchain",
    "readable",
    "require",
    "allow_control_files",
    "settings",
    "env",
    "mode",
    "policy",
    "safe",
    "approval_timeout",
)
"""Fields of `RunSpec`."""

OF_ALL_MOUNTS = ("exclude_glob", "lend", "gitignore", "git", "leave_out_secrets")
"""Fields of `HostMount` that can be said for all mounts at once, at the top of the file."""

_WITH_THE_RUN = "it is said with each run and not in a file"
_IN_PYTHON = "it is a Python object: give it to run() or RunSpec"
_SECRET = (
    "a project file is read by everybody who has the project, so it holds no keys; set {} in the environment, "
    "where it stays on this machine and out of the jail"
)
_WHOSE_KEY = "whoever writes a project file must not say {}"

LEFT_OUT: dict[str, str] = {
    "prompt": _WITH_THE_RUN,
    "workspace": "write mounts = […], and beside it what belongs to them: exclude_glob, lend, git, at",
    "output": _WITH_THE_RUN,
    "hooks": _IN_PYTHON,
    "api_url": _WHOSE_KEY.format("where your key is sent; set ANTHROPIC_BASE_URL in the environment"),
    "api_key": _SECRET.format("ANTHROPIC_API_KEY"),
    "api_key_file": _WHOSE_KEY.format("which of your files is sent as a key; set ANTHROPIC_API_KEY in the environment"),
    "auth_token": _SECRET.format("ANTHROPIC_AUTH_TOKEN"),
    "oauth_token": _SECRET.format("CLAUDE_CODE_OAUTH_TOKEN"),
    "api_headers": _SECRET.format("ANTHROPIC_CUSTOM_HEADERS"),
    "cli_path": _WHOSE_KEY.format("which program of your machine is started; set CLAUDE_BIN in the environment"),
    "approve": _IN_PYTHON,
    "resume": _WITH_THE_RUN,
    "fork": _WITH_THE_RUN,
    "at": "as a field of RunSpec it is about one conversation; the key 'at' is where the agent finds the mounts",
    "store": _IN_PYTHON,
    "trace": _WITH_THE_RUN,
    "telemetry": "where traces go is about this machine and not about the project: --otel, and the OTEL_… variables",
    "branch": _WITH_THE_RUN,
    "before_run": _IN_PYTHON,
    "after_run": _IN_PYTHON,
    "listener_timeout": "it is about a program's own listeners: give it to run() or RunSpec",
    "pace": _IN_PYTHON,
    "books": _IN_PYTHON,
    "run_id": _WITH_THE_RUN,
    "home": "it is about this machine and not about the project; set TOOLKIT_HOME in the environment",
    "transport": _IN_PYTHON,
}
"""Fields of `RunSpec` that are no keys, and why: it is what the user reads who writes one."""

MEANT: dict[str, str] = {
    "mount": "did you mean 'mounts'?",
    "allow_root": "did you mean 'allowed_host_roots'?",
    "exclude": "did you mean 'exclude_glob'?",
    "no_toolchain": "did you mean toolchain = false?",
    "allow_domain": "did you mean 'domains'?",
    "deadline": "did you mean 'seconds' in the table [limits]?",
    "max_usd": "did you mean 'usd' in the table [limits]?",
    "max_tokens": "did you mean 'tokens' in the table [limits]?",
    "max_turns": "did you mean 'turns' in the table [limits]?",
    "memory": "did you mean 'memory_bytes' in the table [limits]?",
    "max_processes": "did you mean 'processes' in the table [limits]?",
    "max_cpu": "did you mean 'cpu_seconds' in the table [limits]?",
    "max_file": "did you mean 'file_bytes' in the table [limits]?",
    "max_workspace": "did you mean 'workspace_bytes' in the table [limits]?",
    "max_tmp": "did you mean 'tmp_bytes' in the table [limits]?",
    "attempts": "did you mean 'attempts' in the table [verify]?",
    "verify_deadline": "did you mean 'deadline' in the table [verify]?",
    "setup_domain": "did you mean 'domains' in the table [setup]?",
    "setup_keyed_by": "did you mean 'keyed_by' in the table [setup]?",
    "setup_deadline": "did you mean 'deadline' in the table [setup]?",
    "setup_env": "did you mean 'env' in the table [setup]?",
    "beta": "did you mean 'betas'?",
    "plugin": "did you mean 'plugins'?",
    "folder": "did you mean 'folders'?",
    "server": "did you mean the table [servers.NAME]?",
    "allow_server": "did you mean 'allow_servers'?",
    "optional_server": "did you mean optional = true in the table [servers.NAME]?",
    "allow_control_file": "did you mean 'allow_control_files'?",
    "fork_at": _WITH_THE_RUN,
    "api_header": LEFT_OUT["api_headers"],
    "output_schema": _WITH_THE_RUN,
    "prompt_file": _WITH_THE_RUN,
    "image": _WITH_THE_RUN,
    "backend": "how a copy is made is about this machine and not about the project: say --backend with each run",
    "in_place": "it leaves nothing to undo, so it is said with each run and not in a file",
    "ask_elsewhere": _WITH_THE_RUN,
    "keep_workspace": _WITH_THE_RUN,
    "drop_workspace": _WITH_THE_RUN,
    "with_secrets": "did you mean leave_out_secrets = false?",
    "no_gitignore": "did you mean gitignore = false?",
    "otel": LEFT_OUT["telemetry"],
    "plan": _WITH_THE_RUN,
    "json": _WITH_THE_RUN,
    "stream_json": _WITH_THE_RUN,
    "config": "a project file names no other one",
    "no_config": "a project file names no other one",
    "trust": "no file can vouch for itself",
}
"""Options of `toolkit run` whose names are no keys: what they are called here, or why they are not here."""


def _server(spot: Spot, value: Any) -> Any:
    """A server's configuration, which the rule of its field judges; the file it may name lies relative to this one."""
    found = anything(spot, value)
    if isinstance(found, dict) and isinstance(found.get("ca_file"), str):
        return {**found, "ca_file": spot.host_path(found["ca_file"])}
    return found


_VERIFY = {"command": text, "attempts": whole, "deadline": duration, "max_output": whole}
_RETRY = {"times": whole, "on": list_of(text), "wait": duration, "longest_wait": duration}
MOUNT: Form = by_kind("a path, or a table with host_path", str=path, dict=closed(forms_of(HostMount, git=text)))
SETUP: dict[str, Form] = {
    "command": text,
    "domains": list_of(text, "host names"),
    "keyed_by": list_of(text, "files of a mount"),
    "deadline": duration,
    "env": table_of(text, "a table of variables"),
}
FORMS: dict[str, Form] = {
    "mounts": list_of(MOUNT, "mounts"),
    "allowed_host_roots": list_of(path, "paths"),
    "at": text,
    **forms_of(HostMount, OF_ALL_MOUNTS, git=text),
    "env_from": list_of(text, "names of variables"),
    "ready": list_of(text),
    **forms_of(
        RunSpec,
        OF_A_RUN,
        setup=by_kind("a command, or a table with one", str=text, dict=closed(SETUP)),
        tools=list_of(text, "TARGETs"),
        limits=closed(forms_of(Limits)),
        verify=by_kind("a command, or a table with a command", str=text, dict=closed(_VERIFY)),
        protect=list_of(text, "paths"),
        retry=by_kind("a number, or a table with times", int=whole, dict=closed(_RETRY)),
        thinking=by_kind('a number of tokens, "adaptive" or "off"', int=whole, str=text),
        agents=table_of(anything, "a table of subagents"),
        servers=table_of(_server, "a table of servers"),
        settings=table_of(anything, "a table of settings"),
        toolchain=flag,
        mode=text,
    ),
}
"""What each key's value may be, as far as TOML is concerned."""

WHOLE: Form = closed(FORMS, also={name: why for name, why in {**LEFT_OUT, **MEANT}.items() if name not in FORMS})
"""A project file."""
