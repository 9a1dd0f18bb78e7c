"""What a machine has that the results of runs depend on."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import toolkit
from toolkit.errors import SandboxError, ToolkitError
from toolkit.runs.storage import runs_home
from toolkit.sandbox import check, find_api, find_cli

_OWN = ("toolkit", "toolkit_servers", "toolkit_workspace")


@dataclass(frozen=True, slots=True)
class About:
    """One machine, as a process on it sees it."""

    machine: str
    toolkit: str
    """The version, and a hash of the source: two copies of one version may differ."""
    cli: str
    sdk: str
    python: str
    jail: str | None = None
    """Why no run can be confined there; None where it can."""
    key: bool = False
    """Whether there is a credential for the model API."""
    home: str | None = None
    """Why no run can be stored there; None where it can."""

    @classmethod
    def of(cls, data: object) -> About | None:
        """What a worker said of itself; None where it said something else."""
        names = {one.name for one in fields(cls)}
        if not isinstance(data, dict) or not set(data) <= names:
            return None
        texts = all(isinstance(data.get(name), str) for name in ("machine", "toolkit", "cli", "sdk", "python"))
        return cls(**data) if texts else None


def about_me(*, confined: bool = True) -> About:
    """This machine. With `confined` it is proven that a jail holds here."""
    return About(
        machine=platform.node(),
        toolkit=f"{toolkit.__version__} ({_source()})",
        cli=_cli(),
        sdk=_version("claude-agent-sdk"),
        python=platform.python_version(),
        jail=_jail() if confined else None,
        key=_has_key(),
        home=_home(),
    )


async def tell_about_me(confined: bool) -> dict[str, Any]:
    """The same as plain values, for whoever asks a worker; its loop goes on meanwhile."""
    return asdict(await asyncio.to_thread(about_me, confined=confined))


@cache
def _source() -> str:
    """A hash of the toolkit's own files, as they are installed."""
    digest = hashlib.sha256()
    for name in _OWN:
        folder = Path(str(sys.modules[name].__file__)).parent if name in sys.modules else _folder_of(name)
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{name}/{file.relative_to(folder)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


def _folder_of(name: str) -> Path:
    import importlib.util

    found = importlib.util.find_spec(name)
    assert found is not None, name
    assert found.origin is not None, name
    return Path(found.origin).parent


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


@cache
def _cli() -> str:
    """The version of the CLI that a run would use."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir(), "DISABLE_AUTOUPDATER": "1"}
    try:
        asked = [os.fspath(find_cli(None)), "--version"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True, env=environment)
        return said.stdout.split()[0]
    except (SandboxError, OSError, subprocess.SubprocessError, IndexError):
        return "none"


def _jail() -> str | None:
    try:
        failed = check().failed
    except (ToolkitError, OSError) as error:
        return error.what if isinstance(error, ToolkitError) else str(error)
    return "; ".join(row.detail for row in failed) or None


def _has_key() -> bool:
    try:
        return not find_api().lacks_key
    except ToolkitError:
        return False


def _home() -> str | None:
    home = runs_home()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return None
    except OSError as error:
        return f"{home}: {error.strerror}"
