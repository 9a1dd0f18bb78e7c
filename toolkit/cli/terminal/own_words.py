"""A mistake in an option of a run, in the words of `toolkit run` and not in those of Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from toolkit.errors import ToolkitError

_OPTIONS = {
    "agents": "--agents",
    "allow_control_files": "--allow-control-file",
    "allow_servers": "--allow-server",
    "api_headers": "--api-header",
    "api_url": "--api-url",
    "approval_timeout": "--approval-timeout",
    "at": "--at",
    "betas": "--beta",
    "branch": "--branch",
    "domains": "--allow-domain",
    "env": "--env",
    "fallback_model": "--fallback-model",
    "folders": "--folder",
    "fork_at": "--fork-at",
    "model": "--model",
    "native": "--native",
    "plugins": "--plugin",
    "policy": "--policy",
    "protect": "--protect",
    "readable": "--readable",
    "require": "--require",
    "resume": "--resume",
    "retry": "--retry",
    "safe": "--safe",
    "servers": "--server",
    "settings": "--settings",
    "setup": "--setup",
    "system": "--system",
    "thinking": "--thinking",
    "trace": "--trace",
    "verify": "--verify",
}
_LIMITS = {
    "cpu_seconds": "--max-cpu",
    "file_bytes": "--max-file",
    "memory_bytes": "--memory",
    "processes": "--max-processes",
    "seconds": "--deadline",
    "tmp_bytes": "--max-tmp",
    "tokens": "--max-tokens",
    "turns": "--max-turns",
    "usd": "--max-usd",
    "workspace_bytes": "--max-workspace",
}
_OPTION = re.compile(r"([a-z_]+)(?:\[[^\]]*\])?(?:=(?:'([^']*)'|([^\s:']+)))?(?=[: ])")
_LIMIT = re.compile(r"(?:Limits\(|limit )([a-z_]+)=([^\s)]+)\)?")
_PART = re.compile(r"prompt\[(\d+)\]")
_PYTHON = re.compile(r"\w=|\w\(|\w\.\w+\[")
_ALLOWING = re.compile(r'allow_servers=\["([^"]*)"\]')
_FIXES = {
    "at": "Write for example: --at /work",
    "branch": "Mount a repository: --mount DIR",
    "env": "Leave it out",
    "fork_at": "Take the 'message' of a lifecycle.started event: toolkit runs events RUN --json",
    "memory_bytes": "Write for example: --memory 4GB",
    "policy": "Leave it out",
    "prompt": 'Say what to do: toolkit run "Make the failing test pass."',
    "setup": "Work in a copy of what it prepares: --mount DIR",
}


def in_own_words(error: ToolkitError, given: Mapping[str, Any]) -> str:
    """The whole text of an error about what was given to `toolkit run`."""
    option = str(getattr(error, "option", ""))
    part = _PART.match(option)
    if part is not None and given["images"]:
        file = given["images"][int(part[1]) - 1]
        what = error.what.partition(": ")[2] or error.what
        return f"--image {shlex.quote(str(file))}: {what}\n  Give a PNG, JPEG, GIF or WebP picture"
    if option == "output" and given["output_schema"]:
        before, no_schema, why = error.what.partition("it is no JSON Schema")  # before it stands all of the file
        what = no_schema + why or before.removeprefix("output: ")
        told = [f"--output-schema {shlex.quote(str(given['output_schema']))}: {what}"]
        return "\n  ".join([*told, *([error.fix] if error.fix else [])])
    name = "fork_at" if option == "at" else option.partition("[")[0]
    what = error.what.replace("mount_path ", "--mount: the place ", 1)
    limit, written = _LIMIT.match(what), _OPTION.match(what)
    if limit is not None and limit[1] in _LIMITS:
        name, what = limit[1], f"{_LIMITS[limit[1]]} {limit[2]}{what[limit.end() :]}"
    elif written is not None and written[1] in _OPTIONS:
        value = written[2] if written[2] is not None else written[3]
        name = name if name == "fork_at" else written[1]
        what = f"{_OPTIONS[name]}{'' if value is None else f' {shlex.quote(value)}'}{what[written.end() :]}"
    fix = _ALLOWING.sub(r"--allow-server \1", error.fix)
    fix = _FIXES.get(name, "") if _PYTHON.search(fix) else fix
    return "\n  ".join([what, *error.where, *([fix] if fix else [])])
