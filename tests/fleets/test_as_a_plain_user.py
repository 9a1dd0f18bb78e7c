"""A plain user has a batch done on workers, with the real command, the real CLI and real jails, as root has."""

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

_TESTS = [
    "test_interrupting.py::test_a_run_on_a_worker_is_interrupted_by_a_key_and_the_others_go_on",
    "test_isolated.py::test_runs_come_back_from_workers_that_never_saw_the_project[through a store]",
]


@needs_jail
@pytest.mark.skipif(os.geteuid() != 0, reason="they run as a plain user anyway")
@needs(can_become_plain(), "setpriv and unshare are needed")
def test_a_batch_is_done_on_workers_for_a_plain_user() -> None:
    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        tests = [str(ROOT / "tests" / "fleets" / name) for name in _TESTS]
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(home / "t")]
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        done = subprocess.run(
            as_plain_user([sys.executable, "-m", "pytest", *options, *tests], home),
            cwd=ROOT,
            env={"PATH": path, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 passed" in done.stdout
