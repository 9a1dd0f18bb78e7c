"""Take the pictures of the report that the documentation shows: `python -m tests.report.images`."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from tests.report._browser import FLAGS
from tests.report._runs import worked_run
from toolkit.report import write_report

FOLDER = Path(__file__).parents[2] / "docs" / "images"
PACE = 0.9
"""Seconds of each answer: a run that takes no time looks like none."""


async def take_all(file: Path) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)

        async def take(name: str, width: int, height: int, scheme: Any, *, to: str | None = None) -> None:
            page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            await page.goto(file.as_uri())
            await page.wait_for_selector("html[data-ready]")
            if to is not None:
                await page.locator(to).first.evaluate("row => row.scrollIntoView({ block: 'start' })")
            await page.screenshot(path=FOLDER / f"report-{name}.png")

        await take("light", 1280, 900, "light")
        await take("dark", 1280, 900, "dark", to=".row.problem")
        await take("phone", 390, 844, "light")
        await browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TOOLKIT_HOME"] = folder
        run = asyncio.run(worked_run(Path(folder), pace=PACE))
        FOLDER.mkdir(parents=True, exist_ok=True)
        asyncio.run(take_all(write_report(run)))


if __name__ == "__main__":
    main()
