"""A report of 10,000 events against one of 500, in headless Chromium: opening, scrolling, jumping, searching, stepping.

Both pages are open in one browser and take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from tests.bench._common import Pair, Row
from tests.report._browser import FLAGS
from tests.report._many import many_events
from tests.report._runs import write_run
from toolkit.report import write_report

MANY, FEW = 10_000, 500
ROUNDS = 5

# Milliseconds between frames while the page is scrolled as by a wheel, from where it stands.
WHEEL = """async (count) => {
  const frames = [];
  let last = performance.now();
  for (let i = 0; i < count; i++) {
    scrollBy(0, 100);
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  return frames;
}"""
# Milliseconds from a jump to any place of the page until two frames later, when it is drawn.
JUMP = """async (share) => {
  const begun = performance.now();
  scrollTo(0, document.documentElement.scrollHeight * share);
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""
# Milliseconds of the page's own work for one search, or one key.
SEARCH = """async (words) => {
  const search = document.getElementById("search"), found = document.getElementById("found");
  search.value = words;
  search.dispatchEvent(new Event("input"));
  const begun = performance.now();
  while (!found.textContent) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""
KEY = """async (key) => {
  const begun = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  document.body.offsetHeight;
  return performance.now() - begun;
}"""


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TOOLKIT_HOME"] = folder
        files = {count: write_report(write_run(many_events(count), id=f"run-{count}")) for count in (MANY, FEW)}
        yield from asyncio.run(_measured(files))


async def _measured(files: dict[int, Path]) -> list[Row]:
    async with async_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        opening = await _opening(browser, files)
        pages = {count: await _open(browser, file) for count, file in files.items()}
        wheel = await _wheel(pages)
        jumps = await _each(pages, JUMP, [place / 20 for place in range(1, 20)])
        keys = await _each(pages, KEY, ["j"] * 60)
        search = await _searches(pages)
        await browser.close()
    return [
        opening.row(f"report, opening {MANY:,} events / {FEW}", 6.0, unit="ms"),
        wheel.row("report, a frame while scrolling (median)", 1.5, unit="ms"),
        Row("report, a slow frame while scrolling (95 %)", _high(wheel.ours), _high(wheel.theirs), 2.0),
        jumps.row("report, a jump anywhere", 3.0, unit="ms"),
        keys.row("report, the next row (j)", 3.0, unit="ms"),
        search.row("report, a search", 6.0, unit="ms"),
    ]


def _high(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1] * 1000


async def _open(browser: Browser, file: Path) -> Page:
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(file.as_uri())
    await page.wait_for_selector("html[data-ready]")
    return page


async def _opening(browser: Browser, files: dict[int, Path]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for _ in range(ROUNDS):
        for count, file in files.items():
            begun = time.perf_counter()
            page = await _open(browser, file)
            taken[count].append(time.perf_counter() - begun)
            await page.close()
    return Pair(taken[MANY], taken[FEW])


async def _wheel(pages: dict[int, Page]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for _ in range(ROUNDS):
        for count, page in pages.items():
            await page.bring_to_front()
            taken[count] += [frame / 1000 for frame in await page.evaluate(WHEEL, 60)]
    return Pair(taken[MANY], taken[FEW])


async def _each(pages: dict[int, Page], script: str, arguments: list[Any]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for start in range(0, len(arguments), 10):
        for count, page in pages.items():
            await page.bring_to_front()
            taken[count] += [await page.evaluate(script, given) / 1000 for given in arguments[start : start + 10]]
    return Pair(taken[MANY], taken[FEW])


async def _searches(pages: dict[int, Page]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for words in ("step 12", "runs the tests", "part_3", "nothing like it", "agent"):
        for count, page in pages.items():
            await page.bring_to_front()
            taken[count].append(await page.evaluate(SEARCH, words) / 1000)
            await page.evaluate(KEY, "Escape")
    return Pair(taken[MANY], taken[FEW])
