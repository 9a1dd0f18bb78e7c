"""Jails for the tests of this folder: made the way the toolkit makes them, without a CLI."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from toolkit.sandbox.jail import ENVIRONMENT, Jail, JailFolder, OpenJail, open_jail, preflight

needs_jail = needs(not preflight(), "bubblewrap and socat are needed (./dev says how)")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="about jails that root starts")


@contextmanager
def a_jail(workspace: Path, **options: Any) -> Iterator[OpenJail]:
    """An open jail for `workspace`; `options` are fields of Jail."""
    with JailFolder() as folder:
        yield open_jail(Jail(workspace, environment=ENVIRONMENT, **options), folder)


def soon(condition: Callable[[], object], seconds: float = 60) -> bool:
    """Look until it holds; long enough for a machine that others use as well."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def inside(jail: OpenJail, script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a jail."""
    return subprocess.run(
        [jail.script, "/bin/bash", "-c", script], capture_output=True, text=True, timeout=60, check=False, **options
    )
