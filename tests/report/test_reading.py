"""Finding one's way: search, filters, keys, themes, narrow screens, and very long runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.report._browser import Opened, texts
from tests.report._many import many_events
from tests.report._runs import finished, worked_run, write_run
from toolkit.report import write_report
from toolkit.runs import RunResult

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def selected(page: Page) -> list[str]:
    return await texts(page, ".row.selected .tool-name, .row.selected .word, .row.selected .prose")


async def test_search_and_filters_show_what_was_asked_for(tmp_path: Path, opened: Opened) -> None:
    page = await opened(write_report(await worked_run(tmp_path)))

    await page.keyboard.press("/")
    await page.keyboard.type("Line.COUNT for")
    await expect(page.locator("#found")).to_have_text("2 of 15")
    assert await texts(page, ".row .tool-name") == ["Edit"]
    assert await page.evaluate("CSS.highlights.get('found').size") >= 1
    await page.keyboard.press("Escape")
    assert await page.locator(".row").count() == 15
    await page.get_by_role("button", name="Problems").click()
    assert await texts(page, ".row .tool-name") == ["WebFetch"]
    await page.get_by_role("button", name="Everything").click()
    await page.select_option("#tool-name", "Bash")
    assert await texts(page, ".row .tool-name") == ["Bash", "Bash"]
    await page.fill("#search", "nothing like this")
    await page.wait_for_selector(".empty")
    assert await texts(page, "#panel-timeline") == ["Nothing here matches."]


async def test_the_keyboard_is_enough(tmp_path: Path, opened: Opened) -> None:
    page = await opened(write_report(await worked_run(tmp_path)))

    await page.keyboard.press("j")
    assert await selected(page) == ["Prompt"]
    await page.keyboard.press("j")
    thought = page.locator(".row.selected .prose")
    assert await thought.count() == 0
    await page.keyboard.press("o")
    assert "before touching anything" in await thought.inner_text()
    await page.keyboard.press("n")
    assert await selected(page) == ["WebFetch"]
    await page.keyboard.press("k")
    assert await selected(page) == ["Is this known?"]
    await page.keyboard.press("G")
    assert await selected(page) == ["End of the turn"]
    await page.keyboard.press("?")
    assert await page.locator("#help").is_visible()
    await page.keyboard.press("Escape")
    assert not await page.locator("#help").is_visible()
    await page.keyboard.press("Escape")
    assert await selected(page) == []


async def test_light_and_dark_follow_the_system_until_someone_chooses(tmp_path: Path, opened: Opened) -> None:
    file = write_report(write_run([]))
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = await opened(file), await opened(file, dark=True)
    assert [await light.evaluate(paper), await dark.evaluate(paper)] == ["rgb(250, 249, 246)", "rgb(23, 24, 27)"]
    await dark.close()  # a browser need not draw two pages at once, and waits for what it does not draw

    async def turns(colour: str) -> None:
        is_paper = "colour => getComputedStyle(document.body).backgroundColor === colour"
        await light.wait_for_function(is_paper, arg=colour, polling=50)

    await light.keyboard.press("t")
    await turns("rgb(23, 24, 27)")
    await light.reload()
    await turns("rgb(23, 24, 27)")
    await light.locator("#theme").click()
    await turns("rgb(250, 249, 246)")


async def test_a_phone_shows_everything_without_scrolling_sideways(tmp_path: Path, opened: Opened) -> None:
    page = await opened(write_report(await worked_run(tmp_path)), width=390, height=844)

    for key in ("1", "2", "3", "4"):
        await page.keyboard.press(key)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
    await page.keyboard.press("1")
    row = page.locator(".row.tool").first
    above, below = await row.locator(".arguments").bounding_box(), await row.locator(".result").bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"] + 1
    assert await page.locator("#badge").is_visible()


async def test_a_long_result_is_cut_until_someone_asks_for_all_of_it(opened: Opened) -> None:
    lines = "\n".join(f"line {number}" for number in range(5000))
    done = {"name": "Bash", "ok": True, "text": lines, "ms": 9, "denied": False, "interrupted": False}
    events = [
        {"name": "tool.started", "id": "c", "data": {"name": "Bash", "arguments": {"count": 12345678901234567890}}},
        {"name": "tool.ended", "id": "c", "data": done},
        finished(RunResult(run="run-written", code="ok")),
    ]
    page = await opened(write_report(write_run(events)))

    result = page.locator(".row .result")
    assert (await result.inner_text()).count("line ") < 20
    assert "12345678901234567890" in await page.locator(".arguments").inner_text()
    await page.get_by_role("button", name="Show all · 5,000 lines").click()
    assert await result.locator("pre").text_content() == lines
    await page.get_by_role("button", name="Show less").click()
    assert (await result.inner_text()).count("line ") < 20


async def test_all_of_a_run_of_ten_thousand_events_can_be_reached(opened: Opened) -> None:
    page = await opened(write_report(write_run(many_events(10_000))))

    every = int((await texts(page, ".tab .count"))[0].replace(",", ""))
    assert every > 3300
    await page.keyboard.press("G")
    assert await selected(page) == ["End of the turn"]
    assert await page.locator(".row.selected").is_visible()
    await page.fill("#search", "step 1234")
    await page.wait_for_selector("#found:not(:empty)")
    assert await texts(page, "#found") == [f"1 of {every:,}"]
    assert await page.locator(".row.tool .argument").first.text_content() == "commandstep 1234"
    assert await page.locator(".bar-group").count() < 400
