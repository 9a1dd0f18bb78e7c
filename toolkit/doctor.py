"""What would stop a run on this machine, and what an agent would have in a project: one finding a line."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit._base.words import count_text, safe_line
from toolkit.errors import SandboxError
from toolkit.runs.storage import runs_home
from toolkit.sandbox import CREDENTIALS, CUSTOM_HEADERS, ShellOptions, check, find_api, find_cli, run_confined

if TYPE_CHECKING:
    from toolkit.runs import RunPlan

_PACKAGES = ("mcp", "claude-agent-sdk", "pydantic", "pathspec", "watchfiles", "click", "anyio", "docstring-parser")
_LITTLE_SPACE = 1024**3
_FIXED_BUBBLEWRAP = (0, 12)
_LONGEST_LOOK = 60.0
_PROGRAMS = {
    "python": ("python python3", "Make an environment in the project: python3 -m venv .venv"),
    "pytest": ("pytest", "Install it into the project's environment: .venv/bin/python -m pip install pytest"),
    "node": ("node", "Install node for all users, or with nvm; it is lent to projects with a package.json"),
    "git": ("git", "Install it for all users: apt install git"),
    "compiler": ("cc gcc clang", "Install one for all users: apt install build-essential"),
}
"""Programs that an agent often wants: the names it may have, and what to do where there is none."""
_LOOK = r"""
look() {
    local name=$1 path= said=; shift
    for one; do path=$(type -P "$one") && break; done
    [[ -n $path ]] && { said=$(timeout 20 "$path" --version 2>&1 < /dev/null); code=$?; } || code=
    [[ $code == 0 ]] && said=${said%%$'\n'*} || said=${said##*$'\n'}  # what went wrong is said last
    printf '%s\t%s\t%s\t%s\n' "$name" "$path" "$code" "${said//$'\t'/ }" >> found
}"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    stops: bool = True
    """Whether a run cannot start while it is not ok."""


def examine() -> Iterator[Finding]:
    """Look at everything a run needs; never raises for what it finds."""
    yield _python()
    yield from _packages()
    yield _cli()
    yield from _sandbox()
    yield from _bubblewrap()
    yield _stored_runs()
    yield from _disk()
    yield _key()


def examine_project(plan: RunPlan) -> Iterator[Finding]:
    """Start the usual programs in a jail with what a run would be lent, and say which are there.

    None of them stops a run; never raises for what it finds.
    """
    known = {row["inside"]: row["what"] for row in plan.lent}
    with tempfile.TemporaryDirectory(prefix="toolkit-doctor-") as folder:
        try:
            options = ShellOptions(lent=plan.layout.lent, seconds=_LONGEST_LOOK)
            run_confined(["/bin/bash", "-c", _look(plan)], folder, options)
            rows = [line.split("\t") for line in (Path(folder) / "found").read_text(errors="replace").splitlines()]
        except (OSError, SandboxError) as error:
            what = error.what if isinstance(error, SandboxError) else str(error)
            yield Finding("the agent's tools", False, f"could not be looked at: {what}", stops=False)
            return
    found = {row[0]: row[1:] for row in rows if len(row) == 4}
    for name, (_, fix) in _PROGRAMS.items():
        path, code, version = found.get(name, ("", "", ""))
        if not path:
            yield Finding(f"agent's {name}", False, "none" if name in found else "not looked at", fix, stops=False)
            continue
        at = f"{safe_line(path, 200)} ({_origin(path, known)})"
        if code == "0":
            yield Finding(f"agent's {name}", True, f"{safe_line(version, 80)} at {at}", stops=False)
        else:
            yield Finding(f"agent's {name}", False, f"{at} does not start: {safe_line(version, 80)}", fix, stops=False)
    history = "git has that of the mount" if plan.has_git else "none: the mount is no git repository"
    yield Finding("agent's history", True, history, stops=False)


def _look(plan: RunPlan) -> str:
    """A script that starts each program and writes down what it said."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    lines += [f"export PATH={shlex.quote(':'.join(plan.path))}", _LOOK]
    lines += [f"look {shlex.quote(name)} {words}" for name, (words, _) in _PROGRAMS.items()]
    return "\n".join(lines)


def _origin(path: str, known: dict[str, str]) -> str:
    """Whose program it is."""
    above = (str(one) for one in Path(path).parents)
    return next((known[one] for one in above if one in known), "the system's")


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    return Finding(
        "python", ok, f"{platform.python_version()} at {sys.executable}", "" if ok else "Use Python 3.11 or newer"
    )


def _packages() -> Iterator[Finding]:
    for name in _PACKAGES:
        try:
            yield Finding(name, True, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, "not installed", f"pip install {name}, or install the toolkit's wheel again")


def _cli() -> Finding:
    try:
        path = find_cli(None)
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=True, env=_clean()
        )
    except SandboxError as error:
        return Finding("cli", False, error.what, error.fix)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("cli", False, f"it does not start: {error}", "pip install --force-reinstall claude-agent-sdk")
    why = "named by CLAUDE_BIN" if os.environ.get("CLAUDE_BIN") else "bundled with claude-agent-sdk"
    if "claude_agent_sdk" not in str(path) and not os.environ.get("CLAUDE_BIN"):
        why = "found where the SDK looks"
    return Finding("cli", True, f"{asked.stdout.strip()} at {path} ({why})")


def _clean() -> dict[str, str]:
    """An environment without anything of the user's: a version is asked for, nothing else."""
    quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir(), **quiet}


def _sandbox() -> Iterator[Finding]:
    report = check()
    if report.ok:
        yield Finding("sandbox", True, f"{len(report.rows)} rules hold, proven in {report.seconds:.1f} s")
    for row in report.failed:
        yield Finding(f"sandbox {row.name}", False, f"{row.detail} ({row.rule} would be lost)", row.fix)
    for name in report.not_enforced:
        yield Finding(f"limit {name}", False, "cannot be enforced here", "See: toolkit sandbox check", stops=False)


def _bubblewrap() -> Iterator[Finding]:
    """Its version: one without the fix is told, together with what that means for our jails."""
    path = shutil.which("bwrap")
    if path is None:
        return  # the sandbox row says so
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)
        version = asked.stdout.split()[-1]
        has_fix = tuple(int(part) for part in version.split(".")[:2]) >= _FIXED_BUBBLEWRAP
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        yield Finding("bubblewrap", False, f"{path} does not tell its version", "See: bwrap --version", stops=False)
        return
    if has_fix:
        yield Finding("bubblewrap", True, f"{version} at {path}")
        return
    found = (
        f"{version} at {path}: before 0.12 it makes mount points behind a link in the folders above (CVE-2026-87766). "
        "In a jail every folder above a mount point is held, so that no agent can put one there"
    )
    yield Finding("bubblewrap", False, found, "Upgrade bubblewrap to 0.12 or newer when you can", stops=False)


def _stored_runs() -> Finding:
    home = runs_home()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        return Finding("stored runs", False, f"{home}: {error.strerror}", "Set TOOLKIT_HOME to a folder of yours")
    return Finding("stored runs", True, f"{home}, {count_text(sum(1 for _ in home.iterdir()), 'run')}")


def _disk() -> Iterator[Finding]:
    for name, folder in (("disk", runs_home()), ("disk for workspaces", Path(tempfile.gettempdir()))):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        fix = "" if free > _LITTLE_SPACE else "toolkit runs remove --older-than 30d; toolkit workspace clean"
        yield Finding(name, free > _LITTLE_SPACE, f"{free / 1024**3:.1f} GiB free at {existing}", fix, stops=False)


def _key() -> Finding:
    try:
        api = find_api()
    except SandboxError as error:
        return Finding("model API", False, error.what, error.fix)
    if api.lacks_key:
        missing = f"none of {', '.join(CREDENTIALS.values())} and ANTHROPIC_BASE_URL is set"
        return Finding("model API", False, missing, "Set ANTHROPIC_API_KEY; without one: toolkit demo")
    also = {"ANTHROPIC_BASE_URL": os.environ.get("ANTHROPIC_BASE_URL"), CUSTOM_HEADERS: api.headers}
    used = [*(CREDENTIALS[kind] for kind in api.kinds), *(name for name, is_used in also.items() if is_used)]
    return Finding("model API", True, f"{' and '.join(used)} set")
