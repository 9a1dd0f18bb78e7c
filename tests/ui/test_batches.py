"""Batches on the page of all runs: a line for each, their own pages, and figures for a dashboard."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.batches._batches import began, ended, make, tasks, write_journal
from tests.report._browser import Opened, texts
from toolkit.runs.batches import Batch, work_off
from toolkit.ui import UiServer, export_ui
from toolkit.ui.metrics import metrics_text

pytestmark = pytest.mark.asyncio(loop_scope="session")


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("width", [1280, 390])
async def test_runs_are_grouped_by_batch_below_its_line_and_lead_to_its_page(opened: Opened, width: int) -> None:
    await work_off(Batch.begin("nightly", tasks(2)), make)
    waits = Batch.begin("weekly", tasks(3))
    async with UiServer() as served:
        page = await opened(served.url, width=width)
        await page.locator("#group").select_option("batch")
        line = page.locator('[data-batch="nightly"]')
        await expect(line).to_contain_text("2 of 2 tasks done")
        await expect(page.locator(".run")).to_have_count(2)
        await expect(page.locator('[data-batch="weekly"]')).to_contain_text("0 of 3 tasks done, 3 waiting")
        write_journal(waits, began("t0", name="weekly"), ended("t0", "unverified", name="weekly"))
        await expect(page.locator('[data-batch="weekly"]')).to_contain_text("1 of 3 tasks done, 1 failed, 2 waiting")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await line.get_by_role("link", name="nightly").click()
        await page.wait_for_selector("html[data-ready] #tasks .task")
        assert await texts(page, "h1") == ["nightly"]
        await page.locator('.task[data-task="t0"] a').first.click()
        await page.wait_for_selector("#panel-timeline .row")
        assert await texts(page, "#name") == ["nightly.t0.1"]
        assert all(asked.startswith(served.url) for asked in opened.requests)


async def test_a_batch_is_found_by_its_own_name_only(served: UiServer) -> None:
    Batch.begin("nightly", tasks(1))
    for name in ("none", "..%2fruns", "nightl"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            await asyncio.to_thread(fetched, f"{served.url}batch/{name}/")
        caught.value.close()
        assert caught.value.code == 404


async def test_a_damaged_batch_has_a_line_that_says_so(opened: Opened) -> None:
    batch = Batch.begin("nightly", tasks(1))
    (batch.folder / "journal.jsonl").write_text("<img src=x onerror=alert(1)>\n", encoding="utf-8")
    async with UiServer() as served:
        page = await opened(served.url)
        await page.locator("#group").select_option("batch")
        await expect(page.locator('[data-batch="nightly"]')).to_contain_text("is damaged")


async def test_an_export_has_the_pages_of_batches(opened: Opened, tmp_path: Path) -> None:
    await work_off(Batch.begin("nightly", tasks(1)), make)
    page = await opened(export_ui(tmp_path / "site"))
    await page.locator("#group").select_option("batch")
    await page.get_by_role("link", name="nightly").click()
    await page.wait_for_selector("html[data-ready] #tasks .task")
    await page.locator('.task[data-task="t0"] a').first.click()
    await page.wait_for_selector("#panel-timeline .row")
    assert all(asked.startswith("file:") for asked in opened.requests)


async def test_queue_and_rate_are_metrics_without_names() -> None:
    batch = Batch.begin("secret-name", tasks(3))
    write_journal(batch, began("t0", name="secret-name"), ended("t0", name="secret-name"))
    lines = [{"why": "begin", "base": 2.0}, {"why": "lowered", "base": 1.5}]
    (batch.folder / "rate.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    with batch.worked_on():
        async with UiServer() as served:
            text = await asyncio.to_thread(fetched, f"{served.url}metrics")
    assert 'toolkit_batch_tasks{state="waiting"} 2' in text
    assert 'toolkit_batch_tasks{state="ok"} 1' in text
    assert "toolkit_batch_rate_requests 1.5" in text
    assert "toolkit_batch_rate_lowered_total 1" in text
    assert "secret" not in text
    assert "toolkit_batches_worked_on 0" in metrics_text([])


async def test_an_idle_batch_is_not_read_again() -> None:
    from toolkit.ui.batches import BatchLines

    batch = Batch.begin("nightly", tasks(1))
    lines = BatchLines()
    assert lines.look()
    lines._next = 0.0
    [before] = lines.lines()
    assert not lines.look()
    assert lines.lines()[0] is before
    write_journal(batch, began("t0", name="nightly"), ended("t0", name="nightly"))
    lines._next = 0.0
    assert lines.look()
