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
from toolkit.sandbox.jail import ENVIRONMENT, Jail, JailFolder, OpenJail, open_jail, preflight

needs_jail = needs(not preflight(), "bubblewrap and socat are needed (./dev says how)")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="about jails that root starts")


@contextmanager
def a_jail(workspace: Path, **options: Any) -> Iterator[OpenJail]:
    """An open jail for `workspace`; `options` are fields of Jail."""
    with JailFolder() as folder:
        yield open_jail(Jail(workspace, environment=ENVIRONMENT, **options), folder)


def inside(jail: OpenJail, script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a jail."""
    return subprocess.run(
        [jail.script, "/bin/bash", "-c", script], capture_output=True, text=True, timeout=60, check=False, **options
    )
