"""What a run holds cannot do anything in the page: nothing runs, nothing is fetched, nothing becomes markup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.report._browser import Opened
from tests.report._hostile import Attacks, hostile_events, hostile_facts, hostile_result
from tests.report._runs import write_run
from toolkit.report import render_report, write_report
from toolkit.runs import StoredRun, load_run, run
from toolkit.testing import FakeCLI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOREIGN = "img, iframe, object, embed, link, base, form, a, video, audio, template, svg svg, title title"


class Bait:
    """A server on loopback that notes everybody who comes."""

    def __init__(self) -> None:
        self.visits: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits.append(await reader.readline())
        writer.close()


@pytest_asyncio.fixture(loop_scope="session")
async def bait() -> AsyncIterator[Bait]:
    baited = Bait()
    server = await asyncio.start_server(baited.serve, "127.0.0.1", 0)
    baited.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    yield baited
    server.close()


def written_run(attack: Attacks) -> StoredRun:
    id = "run-hostile"
    return write_run(hostile_events(attack), id=id, facts=hostile_facts(attack), result=hostile_result(attack, id))


async def look_everywhere(page: Page) -> None:
    """Open, search and unfold everything that there is on the page."""
    for _ in range(8):  # what is opened may have something to open inside
        closed = page.locator("button.more:has-text('Show all'), .thought[aria-expanded=false]")
        if not await closed.count():
            break
        await closed.first.click()
    for key in ("j", "j", "o", "n", "G", "?", "Escape", "t", "2", "3", "4", "1"):
        await page.keyboard.press(key)
    await page.fill("#search", "<script>")
    await page.wait_for_selector("#found:not(:empty)")
    await page.select_option("#tool-name", index=1)
    await page.locator(".kind-button").nth(2).click()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")


async def harm(page: Page) -> list[Any]:
    """What an attack would have left behind."""
    return [
        await page.evaluate("typeof pwned"),
        await page.locator(FOREIGN).count(),
        await page.locator("script").count(),
        await page.evaluate(
            "[...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(n => n.startsWith('on') || n === 'href' || n === 'src')).length"
        ),
    ]


NO_HARM = ["undefined", 0, 2, 0]


async def test_no_field_of_any_event_result_or_fact_runs_or_fetches_anything(opened: Opened, bait: Bait) -> None:
    attack = Attacks(bait.url)
    file = write_report(written_run(attack))
    page = await opened(file)
    await look_everywhere(page)

    assert await harm(page) == NO_HARM
    assert (bait.visits, opened.requests) == ([], [file.as_uri()])
    assert attack.count > 70


async def test_every_attack_is_shown_as_the_words_it_is(opened: Opened, bait: Bait) -> None:
    attack = Attacks(bait.url)
    events = [
        {"name": "lifecycle.started", "data": {"prompt": attack()}},
        {"name": "assistant.block", "id": "m", "data": {"type": "text", "text": attack()}},
    ]
    page = await opened(write_report(write_run(events)))

    shown = await page.locator(".row.text .prose").inner_text()
    assert "F2: </script></style></textarea><script>pwned('2')</script><img src=" in shown
    marks = await page.locator(".row.text .odd").all_inner_texts()
    assert marks == ["␛", "␇", "U+202E", "U+2066", "U+2028", "U+200B", "U+FEFF", "␀", "U+DC80"]
    await page.keyboard.press("3")
    assert "␛" in await page.locator("#panel-prompt").inner_text()
    assert not set("\u202e\u2066\u2028\x1b") & set(await page.locator("body").inner_text())


async def test_raw_causes_of_a_failure_are_not_in_the_page(bait: Bait) -> None:
    attack = Attacks(bait.url)
    stored = written_run(attack)
    page = render_report(stored)
    *_, end = stored.events()
    for debug in (stored.result().debug, end.data["debug"]):
        assert f"{debug['secret'].split(':')[0]}: " not in page
    assert f"{stored.result().text.split(':')[0]}: " in page


async def test_names_and_contents_of_changed_files_stay_words(tmp_path: Path, opened: Opened, bait: Bait) -> None:
    attack = Attacks(bait.url)
    project = tmp_path / "project"
    project.mkdir()
    (project / "old.html").write_text("<p>\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])
    names = [
        "<img src=x onerror=pwned(1)>.js",
        "</script><svg onload=pwned(1)>.py",
        "\u202egnp.exe",
        "new\nline",
        "'\"&.html",
        "@@ -1 +1 @@",
        "__proto__",
    ]

    def words() -> str:
        return attack().replace("\0", "")  # it would make a file binary

    def spoil(_: dict[str, Any]) -> str:
        inside = section.temp_dir / "project"
        for name in names:
            file = inside / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(
                f"'''{words()}\n+++ b/x\n@@ -1,2 +1,2 @@\n".encode("utf-8", "surrogateescape")
                + b"\xff\r\n/* `${pwned()}\n"
            )
        (inside / "old.html").write_text(words().encode("utf-8", "replace").decode(), encoding="utf-8")
        (inside / "link").symlink_to("</script><script>pwned(1)</script>")
        return "done"

    done = await run(
        "go", workspace=section, transport=FakeCLI([tool_use("Bash", command="x")], [text("ok")], tools={"Bash": spoil})
    )
    file = write_report(load_run(done.run))
    page = await opened(file)
    await page.keyboard.press("2")
    for closed in await page.locator("details:not([open]) summary").all():
        await closed.click()

    assert await harm(page) == NO_HARM
    assert (bait.visits, opened.requests) == ([], [file.as_uri()])
    paths = await page.locator(".file-line .path").all_inner_texts()
    wanted = [name.replace("\u202e", "U+202E").replace("\n", "␊") for name in [*names, "old.html", "link"]]
    assert {f"project/{name}" for name in wanted} <= set(paths)
    body = await page.locator("#panel-changes").text_content() or ""
    assert "<script>pwned('1')</script>" in body
    assert "\u202e" not in body


async def test_the_policy_refuses_scripts_markup_and_requests_even_to_our_own_script(
    opened: Opened, bait: Bait
) -> None:
    page = await opened(write_report(write_run([])))
    tries = {
        "markup": "() => { document.body.innerHTML = '<b>x</b>'; }",
        "script": "() => { document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'})); }",
        "handler": "() => { document.body.setAttribute('onclick', 'window.ran = 1'); document.body.click(); }",
        "eval": "() => { (0, eval)('window.ran = 1'); }",
        "fetch": f"() => fetch('{bait.url}')",
        "picture": f"() => new Promise((ok, no) => {{ const i = new Image(); i.onload = ok; i.onerror = no; i.src = '{bait.url}'; }})",
        "frame": f"() => {{ document.body.append(Object.assign(document.createElement('iframe'), {{src: '{bait.url}'}})); }}",
        "style": "() => { document.body.append(Object.assign(document.createElement('style'), {textContent: 'body { color: red }'})); }",
    }
    for attempt in tries.values():
        later = f"() => new Promise(done => setTimeout(async () => {{ try {{ await ({attempt})(); }} catch {{ }} done(); }}))"
        await page.evaluate(later)  # later: what a debugger calls itself may use eval

    assert await page.evaluate("typeof ran") == "undefined"
    assert await page.evaluate("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    assert bait.visits == []
    assert len(opened.problems) >= len(tries) - 1  # every refusal is said on the console
    opened.problems.clear()


class Elements(HTMLParser):
    """The elements of a page as any other reader of HTML finds them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


async def test_hostile_content_changes_no_element_of_the_file(bait: Bait) -> None:
    harmless = Elements(render_report(write_run([], id="run-harmless")))
    assert Elements(render_report(written_run(Attacks(bait.url)))).tags == harmless.tags
