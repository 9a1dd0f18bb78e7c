"""Copies of a few files, made as large copies are."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["alone", "shared"])
def crew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether a second process takes part from the first file on; otherwise it does so in large copies only."""
    if request.param == "shared":
        monkeypatch.setattr("toolkit_workspace.copying.second.ENOUGH_FILES", 0)
    return str(request.param)
