"""The page of all runs in a real browser: what it shows, and what can be done there."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Page, expect

from tests.report._browser import Opened, texts
from toolkit import Toolbox, ToolContext, tool
from toolkit.runs import Decision, load_run, run, start
from toolkit.runs.storage import FORMAT, runs_home
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text, tool_use
from toolkit.ui import UiServer, export_ui
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE = "<img src=x onerror=alert(1)> </script><script>alert(2)</script> \u202eevil"


@tool
def note(title: str) -> str:
    """Keep a note."""
    return f"noted {title}"


@dataclass
class Release:
    branch: str
    count: int
    kind: Literal["major", "minor"]
    push: bool = False


@tool
async def release(ctx: ToolContext) -> str:
    """Make a release."""
    told = await ctx.ask("What is to be released?", Release)
    GOT.append(told)
    return "done"


GOT: list[Any] = []


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


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.com", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def commit_all(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "The first.")


def work_on(section: WorkspaceSection, code: str = "RATE = 2\n") -> None:
    """What an agent might do."""
    copy = next(Path(str(section.temp_dir)).rglob("prices.py"))
    copy.write_text(code, encoding="utf-8")
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
        result = await asyncio.wait_for(live.result(), 60)
    assert (result.code, result.tools[0].ok) == ("ok", True)
    await expect(page.locator(".question")).to_have_count(0)
    assert opened.problems == []


async def test_a_run_is_stopped_in_the_browser(served: UiServer, opened: Opened) -> None:
    page = await opened(served.url)
    async with asking() as live:
        await open_run(page, live.id)
        await page.get_by_role("button", name="Stop", exact=True).click()
        result = await asyncio.wait_for(live.result(), 60)
    assert not result.ok


async def test_a_form_that_a_tool_asks_with_is_filled_in_on_a_phone(served: UiServer, opened: Opened) -> None:
    cli = FakeCLI(Turn([tool_use("mcp__n__release")]), [text("bye")], strict=False)
    page = await opened(served.url, width=390, height=844)
    async with start("Release.", tools=[Toolbox("n", [release])], transport=cli, approve="wait") as live:
        await page.get_by_label("branch").fill(HOSTILE)
        await page.get_by_label("kind").select_option("minor")
        await page.get_by_label("count").fill("1.5")
        await page.get_by_role("button", name="Send the answer").click()
        await expect(page.locator(".question .said.bad")).to_contain_text("a whole number")
        assert await page.locator(".question button", has_text="For the session").count() == 0
        await page.get_by_label("count").fill("2")
        await page.get_by_role("button", name="Send the answer").click()
        await asyncio.wait_for(live.result(), 60)
    assert [Release(HOSTILE, 2, "minor")] == GOT
    assert [one for one in opened.problems if "409" not in one] == []
    opened.problems.clear()  # the browser itself tells of an answer that was refused
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_turn_is_interrupted_in_the_browser(served: UiServer, opened: Opened) -> None:
    page = await opened(served.url)
    async with asking() as live:
        await open_run(page, live.id)
        await page.get_by_role("button", name="Interrupt the turn").click()
        result = await asyncio.wait_for(live.result(), 60)
    assert result.code == "aborted"


async def test_runs_are_filtered_and_grouped(served: UiServer, opened: Opened, tmp_path: Path) -> None:
    await finished("First.")
    await finished("Second.")
    page = await opened(served.url)
    await page.get_by_role("button", name="Failed").click()
    await expect(page.locator(".empty")).to_have_text("No run is like that.")
    await page.get_by_role("button", name="Done").click()
    await expect(page.locator(".run")).to_have_count(2)
    await page.select_option("#group", "project")
    await expect(page.locator(".group-title")).to_have_count(1)
    await expect(page.locator(".group-title .muted")).to_contain_text("2 runs")
    assert (await texts(page, "#costs dt"))[:2] == ["Today", "Last 7 days"]
    await expect(page.locator("#costs .cost-bar")).to_have_count(14)


async def test_a_conversation_goes_on_from_the_browser(
    served: UiServer, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedAPI([text("first")], [text("second")], otherwise=[text("more")], strict=False) as api:
        for name, value in {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "not-a-key"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        first = await run("Begin.", api_url=api.url, api_key="not-a-key")
        page = await opened(served.url)
        await open_run(page, first.run)
        await page.get_by_role("button", name="Go on").click()
        await page.get_by_label("Prompt").fill("And now?")
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.locator(".said")).to_contain_text("goes on with the conversation")
        await page.get_by_role("button", name="Close").click()
        await expect(page.locator(".run .chip", has_text="ok")).to_have_count(2, timeout=60_000)
    assert api.requests[-1].contains("And now?")


async def test_the_diff_is_shown_and_becomes_a_branch(served: UiServer, opened: Opened, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "prices.py").write_text("RATE = 1\n", encoding="utf-8")
    await asyncio.to_thread(commit_all, project)
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])
    async with start("Fix it.", transport=FakeCLI([text("done")]), workspace=section) as live:
        await live.result()
        work_on(section, "RATE = '<b>'\n")
    page = await opened(served.url)
    await open_run(page, live.id)
    await page.get_by_role("button", name="Take back").click()
    await page.get_by_text("The diff").click()
    assert "+RATE = '<b>'" in await texts(page, ".diff .plus")
    await page.get_by_label("Name of the branch").fill("agent/ui")
    await page.get_by_role("button", name="Put on a branch").click()
    await expect(page.locator(".drawer .said")).to_contain_text("agent/ui")
    assert await asyncio.to_thread(git, project, "show", "agent/ui:prices.py") == "RATE = '<b>'\n"
    assert (project / "prices.py").read_text(encoding="utf-8") == "RATE = 1\n"


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


async def test_changes_are_counted_alike_here_in_the_report_and_at_the_terminal(
    served: UiServer, opened: Opened, tmp_path: Path
) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "prices.py").write_text("RATE = 1\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])
    async with start("Fix it.", transport=FakeCLI([text("done")]), workspace=section) as live:
        await live.result()
        for name in ("lib/new.py", "__pycache__/prices.pyc", "prices.py"):
            path = Path(str(section.temp_dir)) / "shop" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("RATE = 2\n", encoding="utf-8")
    ignored = "caches, or ignored by the project: 1 file in "
    summary = load_run(live.id).changes().summary().splitlines()
    assert summary[-2] == "2 changes: 1 added, 1 modified"
    assert summary[-1].startswith(ignored)
    page = await opened(served.url)
    await open_run(page, live.id)
    await page.get_by_role("button", name="Take back 2 changes").click()
    await expect(page.locator(".marks .path")).to_have_count(2)
    await expect(page.get_by_text(ignored)).to_be_visible()
    await page.get_by_role("link", name="Open the report").click()
    tab = page.get_by_role("tab", name="Changes")
    await tab.click()
    await expect(tab.locator(".count")).to_have_text("2")
    await expect(page.locator("#panel-changes h2").first).to_have_text("2 changes")
    await expect(page.get_by_text(ignored)).to_be_visible()


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


async def test_the_report_of_a_run_under_way_follows_it(served: UiServer, opened: Opened) -> None:
    page = await opened(served.url, width=390, height=844)
    async with asking() as live:
        await open_run(page, live.id)
        await page.get_by_role("link", name="Open the report").click()
        await expect(page.locator("#badge")).to_have_text("running")
        (question,) = live.approvals.pending
        live.approvals.answer(question.id, Decision.ALLOW_ONCE)
        await asyncio.wait_for(live.result(), 20)
    await expect(page.locator("#badge")).to_have_text("ok")
    await expect(page.get_by_text("bye").first).to_be_visible()


async def test_costs_are_those_of_today_and_of_the_last_seven_days(served: UiServer, opened: Opened) -> None:
    day = time.localtime().tm_yday
    await asyncio.to_thread(write_many, 1)  # whose cost nobody knows
    name = await finished("Look.")
    for days, cost in ((0, 0.25), (3, 0.5), (9, 4.0)):
        folder = runs_home() / f"run-{days}"
        await asyncio.to_thread(shutil.copytree, runs_home() / name, folder)
        facts = json.loads((folder / "run.json").read_text())
        began = time.time() - days * 86_400
        (folder / "run.json").write_text(json.dumps({**facts, "run": folder.name, "began": began, "ended": began + 1}))
        result = json.loads((folder / "result.json").read_text())
        known = {"run": folder.name, "cost": cost, "known_cost": cost}
        (folder / "result.json").write_text(json.dumps({**result, **known}))
    await asyncio.to_thread(load_run(name).remove)
    page = await opened(served.url)
    figures = page.locator("#costs dd")
    await expect(figures.nth(1)).to_have_text("at least $0.7500")
    await expect(page.locator(".run")).to_have_count(4)
    assert time.localtime().tm_yday != day or await figures.first.text_content() == "at least $0.2500"


async def test_an_export_needs_no_server(opened: Opened, tmp_path: Path) -> None:
    name = await finished("Keep me.")
    page = await opened(export_ui(tmp_path / "site"))
    await open_run(page, name)
    await page.get_by_role("link", name="Open the report").click()
    await page.wait_for_selector("#panel-timeline .row")
    assert all(asked.startswith("file:") for asked in opened.requests)
    assert (tmp_path / "site" / "index.html").stat().st_mode & 0o077 == 0
