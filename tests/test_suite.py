"""A session of this suite does not depend on what other sessions on the machine do or leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from _pytest.pathlib import maybe_delete_a_numbered_dir

from tests.fleets.conftest import ROOT, own_address


def test_a_tree_too_deep_for_pytest_is_removed_with_the_session_that_left_it(tmp_path: Path) -> None:
    old = tmp_path / "pytest-0"
    old.mkdir()
    here = os.open(old, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    maybe_delete_a_numbered_dir(old)
    assert list(tmp_path.iterdir()) == []


def test_no_two_sessions_start_a_scheduler_at_one_address() -> None:
    words = [sys.executable, "-c", "from tests.fleets.conftest import own_address as a; print(*a(), *a())"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert told[0] == told[2] != own_address()[0]
    assert told[1] != told[3]
