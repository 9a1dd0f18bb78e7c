"""A run whose undo was killed half way: the pages say so, and it can be ended there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.report._browser import Opened
from tests.runs.half_undone import NEW, OLD, applied_run, files_of, half_undone_run, kill_undo, project_in
from tests.ui.test_page import open_run
from toolkit.report import as_markdown, render_report
from toolkit.ui import UiServer
from toolkit.ui.table import RunTable

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(("button", "left"), [("Apply the rest", NEW), ("Take it back", OLD)])
async def test_the_page_of_all_runs_says_so_and_ends_it(
    served: UiServer, opened: Opened, tmp_path: Path, button: str, left: dict[str, str]
) -> None:
    project = project_in(tmp_path)
    run = await half_undone_run(project)
    page = await opened(served.url)
    row = page.locator(f'[data-run="{run.id}"]')
    await expect(row).to_contain_text("ok, half applied")
    await open_run(page, run.id)
    await expect(page.locator(".drawer .note.warn")).to_contain_text(f"toolkit runs apply {run.id} --resume")
    await expect(page.get_by_role("button", name="Take back")).to_have_count(0)
    await page.get_by_role("button", name=button).click()
    await expect(page.locator(".said")).to_contain_text("the host")
    assert files_of(project) == left
    await expect(row).not_to_contain_text("half applied")


async def test_the_report_says_so_in_both_forms(opened: Opened, tmp_path: Path) -> None:
    run = await half_undone_run(project_in(tmp_path))
    file = tmp_path / "report.html"
    file.write_text(render_report(run), encoding="utf-8")
    page = await opened(file.as_uri())
    await expect(page.locator("#hero .note.warn")).to_contain_text(f"toolkit runs apply {run.id} --resume")
    assert "was interrupted" in as_markdown(run)
    await asyncio.to_thread(run.undo_apply)
    assert "half_applied" in render_report(run)
    assert "was interrupted" not in as_markdown(run)


async def test_what_is_interrupted_later_is_noticed_in_twenty_looks(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    run = await applied_run(project)
    table = RunTable()
    assert [row["half_applied"] for row in table.look()[0]] == [None]
    await asyncio.to_thread(kill_undo, run, project)
    found = [row["half_applied"] for _ in range(20) for row in table.look()[0]]
    assert len(found) == 1
    assert f"toolkit runs apply {run.id} --undo" in found[0]
    await asyncio.to_thread(run.undo_apply)
    assert [row["half_applied"] for row in table.look()[0]] == [None]
