"""An overlay works for an ordinary user as it does for root: the same tests, run again as one."""

from __future__ import annotations

import pytest

from tests.escape.plain import for_plain_user, pass_as_plain_user
from tests.workspace.overlays import needs_overlay

_FEW = "not (any_change or whatever or moved_and_then_edited) or 3]"
"""Of the tests that roll dice, some; not what holds for root only."""


@for_plain_user
@needs_overlay
@pytest.mark.parametrize(
    "file", ["runs/test_overlaid_runs.py", "workspace/test_overlay.py", "workspace/test_kept_copies.py"]
)
def test_overlays_work_for_an_ordinary_user(file: str) -> None:
    assert " skipped" not in pass_as_plain_user(file, only=_FEW)
