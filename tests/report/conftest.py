"""One headless Chromium for all tests of the report; every test keeps its runs in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.report._browser import FLAGS, Opened

expect.set_options(timeout=30_000)  # a bound, for machines that have other things to do


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "the report is tested in Chromium, which was not found: apt-get install chromium"
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Browser) -> AsyncIterator[Opened]:
    """Opens pages and keeps a record of what they ask for and complain about."""
    record = Opened(browser)
    yield record
    await record.close()
    assert record.problems == []
