"""The page of all runs with 5,000 runs against one with 500, in headless Chromium: opening, scrolling, searching, news.

Both pages are live, served in this process, and take turns in one browser, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from tests.bench._common import Pair, Row
from tests.bench.bench_report import JUMP, WHEEL
from tests.report._browser import FLAGS
from toolkit.runs.storage import FORMAT, runs_home
from toolkit.ui import UiServer

MANY, FEW = 5_000, 500
ROUNDS = 5
# Milliseconds of the page's own work for one search, drawn.
SEARCH = """async (words) => {
  const search = document.getElementById("search");
  const begun = performance.now();
  search.value = words;
  search.dispatchEvent(new Event("input"));
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def write_runs(home: Path, count: int) -> None:
    """Runs that have ended, as they lie on disk."""
    for number in range(count):
        folder = runs_home(home) / f"run-{number:06}"
        folder.mkdir(parents=True, mode=0o700)
        began = time.time() - number * 60
        facts = {
            "format": FORMAT,
            "run": folder.name,
            "began": began,
            "prompt": f"Task {number} of the day",
            "cwd": "/p",
        }
        (folder / "run.json").write_text(json.dumps({**facts, "ended": began + 30}), encoding="utf-8")
        (folder / "events.jsonl").touch()
        (folder / "lock").touch()


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        homes = {count: Path(folder) / str(count) for count in (MANY, FEW)}
        for count, home in homes.items():
            write_runs(home, count)
        yield from asyncio.run(_measured(homes))


async def _measured(homes: dict[int, Path]) -> list[Row]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    async with async_playwright() as playwright, UiServer(home=homes[MANY]) as many, UiServer(home=homes[FEW]) as few:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        urls = {MANY: many.url, FEW: few.url}
        opening = await _opening(browser, urls)
        pages = {count: await _open(browser, url) for count, url in urls.items()}
        wheel = await _each(pages, WHEEL, [40] * ROUNDS)
        jumps = await _each(pages, JUMP, [place / 20 for place in range(1, 20)])
        searches = await _each(pages, SEARCH, ["task 12", "day", "nothing", "run-0000", ""] * 3)
        news = await _news(pages, homes)
        await browser.close()
    slow = Pair([_high(wheel.ours)], [_high(wheel.theirs)])
    return [
        opening.row(f"ui, opening {MANY:,} runs / {FEW}", 12.0, unit="ms"),
        wheel.row("ui, a frame while scrolling (median)", 1.5, unit="ms"),
        slow.row("ui, a slow frame while scrolling (95 %)", 2.0, unit="ms"),
        jumps.row("ui, a jump anywhere", 3.0, unit="ms"),
        searches.row("ui, a search", 12.0, unit="ms"),
        news.row("ui, from a new run on disk to its row", 6.0, unit="ms"),
    ]


def _high(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


async def _open(browser: Browser, url: str) -> Page:
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(url)
    await page.wait_for_selector("html[data-ready]")
    return page


async def _opening(browser: Browser, urls: dict[int, str]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for _ in range(ROUNDS):
        for count, url in urls.items():
            begun = time.perf_counter()
            page = await _open(browser, url)
            taken[count].append(time.perf_counter() - begun)
            await page.close()
    return Pair(taken[MANY], taken[FEW])


async def _each(pages: dict[int, Page], script: str, arguments: Sequence[object]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for given in arguments:
        for count, page in pages.items():
            await page.bring_to_front()
            found = await page.evaluate(script, given)
            taken[count] += [one / 1000 for one in (found if isinstance(found, list) else [found])]
    return Pair(taken[MANY], taken[FEW])


async def _news(pages: dict[int, Page], homes: dict[int, Path]) -> Pair:
    taken: dict[int, list[float]] = {MANY: [], FEW: []}
    for round_ in range(ROUNDS):
        for count, page in pages.items():
            await page.bring_to_front()
            await page.evaluate("scrollTo(0, 0)")
            folder = runs_home(homes[count]) / f"run-new-{round_}"
            await asyncio.to_thread(_write_one, folder)
            begun = time.perf_counter()
            await page.wait_for_selector(f'.run[data-run="{folder.name}"]', timeout=60_000)
            taken[count].append(time.perf_counter() - begun)
    return Pair(taken[MANY], taken[FEW])


def _write_one(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    facts = {"format": FORMAT, "run": folder.name, "began": time.time() + 60, "prompt": "New", "cwd": "/p"}
    (folder / "events.jsonl").touch()
    (folder / "lock").touch()
    (folder / "run.json").write_text(json.dumps({**facts, "ended": time.time() + 90}), encoding="utf-8")
