"""The real CLI runs for a plain user as it does for root."""

from __future__ import annotations

import os
import pwd
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys
from toolkit.testing import RealCLI, ScriptedAPI, text, tool_use

async def main():
    async with ScriptedAPI([tool_use("Bash", command="id -u")], [text("done")]) as api, RealCLI(api) as cli:
        heard = [message async for message in cli.query("go")]
    print(os.getuid(), api.tool_results()[0], heard[0].data["permissionMode"], heard[-1].result, cli.processes())

asyncio.run(main())
"""


def as_user(uid: int, *command: str, home: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command for another user, with a home and an import path and nothing else."""
    switch = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    env = {"HOME": str(home), "TMPDIR": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": path}
    return subprocess.run([*switch, *command], env=env, cwd=home, capture_output=True, text=True, timeout=120)


def python_for(uid: int, home: Path) -> str | None:
    """An interpreter of this version that the user may execute: ours may stand in a private folder."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = [sys.executable, *(f"{place}/python{version}" for place in ("/usr/local/bin", "/usr/bin"))]
    for name in names:
        show = "import sys; print('%d.%d' % sys.version_info[:2])"
        if Path(name).exists() and as_user(uid, name, "-c", show, home=home).stdout.strip() == version:
            return name
    return None


def readable_packages(uid: int, python: str, home: Path) -> str:
    """An import path with everything we need; linked, or else copied, to where the user can read it."""
    places = [Path(place) for place in site.getsitepackages()]
    source = [Path(__file__).parents[2] / part for part in ("", "servers", "workspace")]
    path = os.pathsep.join(map(str, [*source, *places]))
    if as_user(uid, python, "-c", "import toolkit.testing, claude_agent_sdk", home=home, path=path).returncode == 0:
        return path
    copy = home / "packages"
    for place in (*places, source[0] / "toolkit", source[1] / "toolkit_servers", source[2] / "toolkit_workspace"):
        into = copy if place in places else copy / place.name
        shutil.copytree(place, into, dirs_exist_ok=True, copy_function=_link_or_copy)
    return str(copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.mark.skipif(os.getuid() != 0, reason="this already is a plain user: every other test here shows it")
def test_the_real_cli_runs_for_a_plain_user(tmp_path: Path) -> None:
    uid = pwd.getpwnam("nobody").pw_uid
    home = Path(tempfile.mkdtemp(prefix="toolkit-plain-user-", dir="/tmp"))
    try:
        shutil.chown(home, uid, uid)
        python = python_for(uid, home)
        if python is None:
            pytest.skip("no interpreter of this version that 'nobody' may execute")
        done = as_user(uid, python, "-c", PROGRAM, home=home, path=readable_packages(uid, python, home))
        assert done.stdout.strip() == f"{uid} {uid} bypassPermissions done []", done.stderr
        assert [entry.name for entry in home.iterdir() if entry.name.startswith("toolkit-cli")] == []
    finally:
        shutil.rmtree(home)
