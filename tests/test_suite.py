"""A session of this suite does not depend on what other sessions on the machine do or leave behind."""

from __future__ import annotations

import os
from pathlib import Path

from _pytest.pathlib import maybe_delete_a_numbered_dir


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
