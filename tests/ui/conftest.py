"""The browser of the report's tests, and runs that are kept to the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.report.conftest import browser as browser, opened as opened
from toolkit.ui import UiServer

expect.set_options(timeout=30_000)  # a bound, for machines that have other things to do


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


@pytest_asyncio.fixture(loop_scope="session")
async def served() -> AsyncIterator[UiServer]:
    async with UiServer() as server:
        yield server
