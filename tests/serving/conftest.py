"""What every test of serving begins with."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has OpenTelemetry's SDK is served by mcp alone; other tests of the same process may have loaded it."""
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace", raising=False)
