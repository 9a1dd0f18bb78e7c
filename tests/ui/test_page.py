"""The page of all runs in a real browser: what it shows, and what can be done there."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.report._browser import Opened, texts
from toolkit import Toolbox, tool
from toolkit.runs import load_run, run, start
from toolkit.runs.storage import FORMAT, runs_home
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.ui import UiServer, export_ui
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE = "<img src=x onerror=alert(1)> </script><script>alert(2)</script> \u202eevil"


@tool
def note(title: str) -> str:
    """Keep a note."""
    return f"noted {title}"


def asking() -> Any:
    cli = FakeCLI(Turn([tool_use("mcp__n__note", title=HOSTILE)]), [text("bye")], strict=False)
    return start("Tidy up.", mode="normal", tools=[Toolbox("n", [note])], transport=cli, approve="wait")


async def finished(prompt: str, **options: Any) -> str:
    return (await run(prompt, transport=FakeCLI([text("done")]), **options)).run


def write_many(count: int) -> None:
    """Runs that have ended, as they lie on disk."""
    for number in range(count):
        folder = runs_home() / f"run-{number:06}"
        folder.mkdir(parents=True, mode=0o700)
        facts = {"format": FORMAT, "run": folder.name, "began": time.time() - number * 60, "prompt": f"Task {number}"}
        (folder / "run.json").write_text(json.dumps({**facts, "ended": time.time(), "cwd": "/p"}), encoding="utf-8")
        (folder / "events.jsonl").write_text("", encoding="utf-8")
        (folder / "lock").touch()


def work_on(section: WorkspaceSection) -> None:
    """What an agent might do."""
    copy = next(Path(str(section.temp_dir)).rglob("prices.py"))
    copy.write_text("RATE = 2\n", encoding="utf-8")
    (copy.parent / "CLAUDE.md").write_text("Obey.\n", encoding="utf-8")


async def open_run(page: Page, name: str) -> None:
    await page.locator(f'.run[data-run="{name}"]').click()
    await page.wait_for_selector(".drawer[open]")


async def test_runs_are_listed_with_their_task_and_found_by_a_word(served: UiServer, opened: Opened) -> None:
    await finished("Make the failing test pass.")
    await finished("Write the changelog.")
    page = await opened(served.url)
    await expect(page.locator(".run .task b")).to_have_text(["Write the changelog.", "Make the failing test pass."])
    await page.fill("#search", "changelog")
    await expect(page.locator(".run .task b")).to_have_text(["Write the changelog."])
    assert await texts(page, "#found") == ["1 of 2"]


async def test_a_run_appears_and_ends_on_an_open_page(served: UiServer, opened: Opened) -> None:
    page = await opened(served.url)
    await expect(page.locator(".empty")).to_be_visible()
    name = await finished("Later.")
    row = page.locator(f'.run[data-run="{name}"]')
    await expect(row.locator(".chip")).to_have_text("ok")
    load_run(name).remove()
    await expect(row).to_have_count(0)


async def test_a_question_is_answered_in_the_browser(served: UiServer, opened: Opened) -> None:
    page = await opened(served.url, width=390, height=844, dark=True)
    async with asking() as live:
        await page.get_by_role("button", name="Allow once").click()
        result = await asyncio.wait_for(live.result(), 20)
    assert (result.code, result.tools[0].ok) == ("ok", True)
    await expect(page.locator(".question")).to_have_count(0)
    assert opened.problems == []


async def test_a_run_is_stopped_in_the_browser(served: UiServer, opened: Opened) -> None:
    page = await opened(served.url)
    async with asking() as live:
        await open_run(page, live.id)
        await page.get_by_role("button", name="Stop", exact=True).click()
        result = await asyncio.wait_for(live.result(), 20)
    assert not result.ok


async def test_changes_are_shown_with_their_marks_before_they_are_applied(
    served: UiServer, opened: Opened, tmp_path: Path
) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "prices.py").write_text("RATE = 1\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])

    async with start("Fix it.", transport=FakeCLI([text("done")]), workspace=section) as live:
        await live.result()
        work_on(section)
    page = await opened(served.url)
    await open_run(page, live.id)
    await page.get_by_role("button", name="Take back").click()
    await expect(page.locator(".marks .path")).to_have_count(2)
    assert any("CLAUDE.md" in one for one in await texts(page, ".marks li:has(.why)"))
    assert (project / "prices.py").read_text(encoding="utf-8") == "RATE = 1\n"
    await page.get_by_role("button", name="Apply to the host").click()
    await expect(page.locator(".said")).to_contain_text("prices.py")
    assert (project / "prices.py").read_text(encoding="utf-8") == "RATE = 2\n"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
async def test_what_a_run_says_is_text_at_every_size_and_nothing_runs(
    served: UiServer, opened: Opened, width: int, dark: bool
) -> None:
    name = await finished(HOSTILE)
    page = await opened(served.url, width=width, dark=dark)
    await open_run(page, name)
    assert await page.locator(".drawer img, .run img, .drawer script").count() == 0
    assert "<img" in (await texts(page, ".drawer h2"))[0]
    assert "\u202e" not in await page.locator("body").inner_text()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert all(asked.startswith(served.url) for asked in opened.requests)


async def test_thousands_of_runs_are_few_elements(served: UiServer, opened: Opened) -> None:
    await asyncio.to_thread(write_many, 3000)
    page = await opened(served.url)
    await expect(page.locator("#key-figures b")).to_have_text("3,000")
    assert await page.locator(".run").count() < 60
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(page.locator('.run[data-run="run-002999"]')).to_be_visible()
    assert await page.locator(".run").count() < 60


async def test_the_report_of_a_run_is_one_click_away(served: UiServer, opened: Opened) -> None:
    name = await finished("Look.")
    page = await opened(served.url)
    await open_run(page, name)
    await page.get_by_role("link", name="Open the report").click()
    await page.wait_for_selector("#panel-timeline .row")
    assert await texts(page, "#name") == [name]


async def test_an_export_needs_no_server(opened: Opened, tmp_path: Path) -> None:
    name = await finished("Keep me.")
    page = await opened(export_ui(tmp_path / "site"))
    await open_run(page, name)
    await page.get_by_role("link", name="Open the report").click()
    await page.wait_for_selector("#panel-timeline .row")
    assert all(asked.startswith("file:") for asked in opened.requests)
    assert (tmp_path / "site" / "index.html").stat().st_mode & 0o077 == 0
