"""Jails for the tests of this folder: made the way the toolkit makes them, without a CLI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from toolkit.sandbox import JailLimits
from toolkit.sandbox.jail import Jail, Launcher, State, make_launcher, preflight
from toolkit.sandbox.limits import plan_limits

needs_jail = needs(not preflight(), "bubblewrap and socat are needed (./dev says how)")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="about jails that root starts")

_ENVIRONMENT = (("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/agent"))


@contextmanager
def a_jail(workspace: Path, **options: Any) -> Iterator[Launcher]:
    """A launcher for `workspace`; `options` are fields of Jail."""
    state = State()
    limits = options.setdefault("limits", JailLimits())
    jail = Jail(
        workspace=workspace,
        shown=state.shown,
        home=state.shown / "home",
        environment=_ENVIRONMENT,
        **options,
    )
    try:
        launcher = make_launcher(jail, plan_limits(limits, name=state.name), state)
    except BaseException:
        state.close()
        raise
    try:
        yield launcher
    finally:
        launcher.close()


def inside(launcher: Launcher, script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a jail."""
    return subprocess.run(
        [launcher.script, "/bin/bash", "-c", script], capture_output=True, text=True, timeout=60, check=False, **options
    )
