"""What a run needs besides a CLI in a jail: packages, a place for runs, room on the disk, a key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.files import nearest_existing
from toolkit._base.words import count_text
from toolkit.doctor.finding import Finding
from toolkit.doctor.versions import versions
from toolkit.errors import SandboxError
from toolkit.runs.storage import runs_home
from toolkit.sandbox import CREDENTIALS, CUSTOM_HEADERS, find_api

_PACKAGES = ("mcp", "claude-agent-sdk", "pydantic", "pathspec", "watchfiles", "click", "anyio", "docstring-parser")
_LITTLE_SPACE = 1024**3
_FIXED_BUBBLEWRAP = (0, 12)


def installed() -> list[Finding]:
    """Python and the packages it would import."""
    return [_python(), *_packages()]


def provided() -> list[Finding]:
    """What the machine and its user provide."""
    return [*_bubblewrap(), _stored_runs(), *_disk(), _key()]


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    return Finding(
        "python", ok, f"{sys.version.split()[0]} at {sys.executable}", "" if ok else "Use Python 3.11 or newer"
    )


def _packages() -> Iterator[Finding]:
    found = versions(_PACKAGES)
    for name in _PACKAGES:
        if (version := found[name]) is not None:
            yield Finding(name, True, version)
        else:
            yield Finding(name, False, "not installed", f"pip install {name}, or install the toolkit's wheel again")


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
        f"{version} at {path}: versions before 0.12 have the flaw CVE-2026-87766. "
        "Our jails are built so that an agent cannot use it"
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
        existing = nearest_existing(folder)
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
