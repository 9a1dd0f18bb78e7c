"""Tests that passed for root, run again as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.escape.users import ROOT, as_plain_user, can_become_plain
from tests.needs import needs
from tests.sandbox.jails import needs_jail

_SECONDS = 900
_Test = TypeVar("_Test", bound=Callable[..., Any])


def for_plain_user(test: _Test) -> _Test:
    """Run a test only where root can become an ordinary user, with a jail."""
    for mark in (
        needs_jail,
        pytest.mark.skipif(os.geteuid() != 0, reason="they run as an ordinary user anyway"),
        needs(can_become_plain(), "setpriv and unshare are needed"),
    ):
        test = mark(test)
    return test


def pass_as_plain_user(*files: str, only: str = "") -> str:
    """What pytest says of these files of tests, run by an ordinary user: they pass, and some were run."""
    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(home / "t"), *(["-k", only] if only else [])]
        tests = [str(ROOT / "tests" / file) for file in files]
        done = subprocess.run(
            as_plain_user([sys.executable, "-m", "pytest", *options, *tests], home),
            cwd=ROOT,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
    return done.stdout
