"""The report while the run goes on: the same page, for whoever has its address, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.report._browser import Opened, texts
from tests.report._runs import write_run
from toolkit.errors import RunError
from toolkit.report import LiveReport, write_report
from toolkit.runs import StoredRun, load_run, start
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = pytest.mark.asyncio(loop_scope="session")


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[tuple[StoredRun, threading.Event]]:
    """A run that has called one tool and waits for the event before it says its last words."""
    project = tmp_path / "project"
    project.mkdir()
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])

    def write(_: dict[str, object]) -> str:
        (section.temp_dir / "project" / "new.py").write_text("x = 1\n", encoding="utf-8")
        return "written"

    go_on = threading.Event()
    cli = FakeCLI(
        [text("First I write."), tool_use("Write", file_path="project/new.py", content="x = 1")],
        Turn([text("All done, <b>now</b>.")], hold=go_on),
        tools={"Write": write},
    )
    async with start("go", workspace=section, transport=cli, run_id="run-live") as live:
        async for event in live:
            if event.name == "tool.ended":
                break
        try:
            yield load_run("run-live"), go_on
        finally:
            go_on.set()
            await asyncio.wait_for(live.result(), 60)


async def ask(
    url: str, path: str | None = None, *, method: str = "GET", host: str | None = None
) -> tuple[int, str, bytes]:
    """The status, head and body of one request made by hand."""
    authority, _, rest = url.removeprefix("http://").partition("/")
    name, _, port = authority.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    target = f"/{rest}" if path is None else path
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: {host or authority}\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


async def test_the_page_follows_the_run_and_has_its_result_and_changes_at_the_end(
    tmp_path: Path, opened: Opened
) -> None:
    async with AsyncExitStack() as ending:
        async with running(tmp_path) as (run, go_on):
            report = await ending.enter_async_context(LiveReport(run))
            page = await opened(report.url)
            await expect(page.locator("#badge")).to_have_text("running")
            await expect(page.locator(".row.tool .result")).to_have_text("written")
            waiting = asyncio.create_task(report.wait())
            go_on.set()
            await expect(page.locator(".row.text")).to_have_count(2)
        await asyncio.wait_for(waiting, 60)

    await expect(page.locator("#badge")).to_have_text("ok")
    await expect(page.locator(".last-words .prose")).to_have_text("All done, <b>now</b>.")
    await page.keyboard.press("2")
    assert await texts(page, ".file-line") == ["added project/new.py +1"]
    with pytest.raises(ConnectionError):  # nobody serves any more
        await ask(report.url)


async def test_no_request_without_the_token_or_under_another_name_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as (run, _), LiveReport(run) as report:
        token = report.url.rstrip("/").rpartition("/")[2]
        other = token[:-1] + ("A" if token[-1] != "A" else "B")
        refused = {
            (await ask(report.url, path))[0]
            for path in (
                "/",
                "/events",
                f"/{other}/",
                f"/{other}/events",
                f"//{token}/",
                f"/?{token}",
                f"/{token[:-1]}/events",
            )
        }
        assert refused == {403}
        for host in (
            "evil.example",
            f"evil.example:{report.port}",
            "127.0.0.1",
            f"127.0.0.1:{report.port}.evil.example",
        ):
            status, _, body = await ask(report.url, host=host)
            assert (status, b"run-live" in body) == (403, False)
        assert (await ask(report.url, host=f"localhost:{report.port}"))[0] == 200
        assert (await ask(report.url, f"/{token}/other"))[0] == 404
        assert (await ask(report.url, f"/{token}/../events"))[0] == 404
        assert [(await ask(report.url, method=method))[0] for method in ("POST", "PUT", "OPTIONS", "HEAD")] == [405] * 4


async def test_the_page_may_not_be_kept_framed_or_passed_on(tmp_path: Path) -> None:
    async with running(tmp_path) as (run, _), LiveReport(run) as report:
        status, head, _ = await ask(report.url)
        assert status == 200
        assert "frame-ancestors 'none'" in head
        assert "connect-src 'self'" in head
        assert "Referrer-Policy: no-referrer" in head
        assert "Cache-Control: no-store" in head
        assert "access-control" not in head.lower()


async def test_a_file_made_while_the_run_goes_on_says_so(tmp_path: Path, opened: Opened) -> None:
    async with running(tmp_path) as (run, _):
        page = await opened(write_report(run, tmp_path / "now.html"))
        assert await texts(page, ".verdict") == ["The run was under way when this page was made."]
        assert await texts(page, ".row.tool .result") == ["written"]
        await page.keyboard.press("2")
        assert await texts(page, "#panel-changes") == ["The changes are shown when the run has ended."]


async def test_a_run_that_has_ended_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        async with LiveReport(write_run([])):
            pass
    assert caught.value.fix == "Look at it: toolkit report run-written"


async def test_noise_on_the_port_ends_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as (run, _), LiveReport(run) as report:
        for noise in (b"\r\n\r\n", b"GET\r\n\r\n", b"\xff" * 40_000 + b"\r\n\r\n", b"GET / HTTP/1.1\r\n", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", report.port)
            writer.write(noise)
            writer.write_eof()
            answer = await asyncio.wait_for(reader.read(), 60)
            assert answer == b"" or b" 403 " in answer.partition(b"\r\n")[0]
            writer.close()
        assert (await ask(report.url))[0] == 200


async def test_who_never_finishes_a_request_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.report._live._PATIENCE", 0.1)
    async with running(tmp_path) as (run, _), LiveReport(run) as report:
        reader, writer = await asyncio.open_connection("127.0.0.1", report.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
