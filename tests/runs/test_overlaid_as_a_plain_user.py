"""An overlay works for an ordinary user as it does for root: the same tests, run again as one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.escape.users import ROOT, as_plain_user, can_become_plain
from tests.needs import needs
from tests.sandbox.jails import needs_jail
from tests.workspace.overlays import needs_overlay

_FEW = "not (any_change or whatever) or 3]"
"""Of the tests that roll dice, some."""


@needs_jail
@needs_overlay
@pytest.mark.skipif(os.geteuid() != 0, reason="they run as an ordinary user anyway")
@needs(can_become_plain(), "setpriv and unshare are needed")
@pytest.mark.parametrize(
    "file", ["runs/test_overlaid_runs.py", "workspace/test_overlay.py", "workspace/test_kept_copies.py"]
)
def test_overlays_work_for_an_ordinary_user(file: str) -> None:
    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        tests = [str(ROOT / "tests" / file), "-k", _FEW]
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(home / "t")]
        done = subprocess.run(
            as_plain_user([sys.executable, "-m", "pytest", *options, *tests], home),
            cwd=ROOT,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout
