"""Every test of runs keeps its runs in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""
