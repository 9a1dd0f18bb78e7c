"""What is verified and protected for root is so for an ordinary user: the same stories, run again as one."""

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

_STORIES = "first_fix or cheating or deep_file or set_back or lives_while"


@needs_jail
@pytest.mark.skipif(os.geteuid() != 0, reason="they run as an ordinary user anyway")
@needs(can_become_plain(), "setpriv and unshare are needed")
def test_verified_runs_pass_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        tests = [str(ROOT / "tests" / "runs" / "test_verified_runs.py"), "-k", _STORIES]
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
    assert "5 passed" in done.stdout
