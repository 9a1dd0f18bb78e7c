"""What holds for root holds for an ordinary user: the tests of setups, run again as one."""

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

_CHOSEN = "pip_installed or failed_setup or cache_is or second_run or api_nor"


@needs_jail
@pytest.mark.skipif(os.geteuid() != 0, reason="they run as an ordinary user anyway")
@needs(can_become_plain(), "setpriv and unshare are needed")
def test_the_tests_of_setups_pass_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        tests = [str(ROOT / "tests" / "setups" / "test_setup.py"), "-k", _CHOSEN]
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(home / "t")]
        done = subprocess.run(
            as_plain_user([sys.executable, "-m", "pytest", *options, *tests], home),
            cwd=ROOT,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
