"""The page of a batch in a real browser: what it shows, that nothing of it runs, and where its links lead."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.batches._batches import began, ended, make, tasks, write_journal
from tests.cli._command import toolkit
from tests.report._browser import Opened, texts
from tests.report._hostile import Attacks
from toolkit.fleets.looking import BatchTable
from toolkit.report.batches import batch_data, make_batch_page, write_batch
from toolkit.runs.batches import Batch, Task, work_off

pytestmark = pytest.mark.asyncio(loop_scope="session")
NOWHERE = "http://127.0.0.1:9/"


def decision(at: float, base: float, **more: Any) -> dict[str, Any]:
    return {"number": 1, "why": "raised", "base": base, "at": at, **more}


def mixed() -> Batch:
    """A batch with tasks in every state."""
    batch = Batch.begin("b", tasks(7))
    now = time.time()
    for number, (code, cause) in enumerate([("ok", None), ("unverified", "2 failed"), ("unverified", "9 failed")]):
        write_journal(batch, began(f"t{number}", at=now - 60), ended(f"t{number}", code, cause=cause) | {"ended": now})
    write_journal(batch, began("t3", at=now - 60), ended("t3", "api_error", cause="it was down") | {"ended": now - 9})
    write_journal(batch, began("t4", at=now - 30, machine="worker-7"))
    write_journal(batch, began("t5"), ended("t5", cost=None, known_cost=0.0))
    lines = [decision(now - 60, 2.0, why="begin"), decision(now - 30, 1.0, why="lowered", status=429)]
    (batch.folder / "rate.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return batch


async def test_the_page_has_outcomes_cost_time_causes_and_the_rate(opened: Opened) -> None:
    page = await opened(write_batch(BatchTable(mixed())))
    assert (await texts(page, "#badge"))[0] == "5 of 7 done"
    sums = dict(zip(await texts(page, ".numbers dt"), await texts(page, ".numbers dd"), strict=True))
    assert [sums[name] for name in ("Tasks", "Ok", "Failed", "Cost")] == ["7", "2", "3", "at least $1.00"]
    assert {"Time", "Time of runs"} < sums.keys()
    assert await texts(page, ".failure .chip") == ["unverified", "api_error"]
    assert await texts(page, ".failure .many") == ["2 tasks", "1 task"]
    assert await page.locator(".run-bar").count() == 6
    assert await page.locator(".rate-stop").count() == 1
    assert "lowered 1 time" in " ".join(await texts(page, "#charts figcaption"))
    assert "unknown" in (await texts(page, '.task[data-task="t5"] .money'))[0]
    assert "unknown" in (await texts(page, '.task[data-task="t4"] .wide'))[1]


async def test_tasks_are_filtered_searched_and_ordered(opened: Opened) -> None:
    page = await opened(write_batch(BatchTable(mixed())))
    await page.get_by_role("button", name="Failed").click()
    await expect(page.locator(".task[data-task]")).to_have_count(3)
    await page.locator("#search").fill("down")
    await expect(page.locator(".task[data-task]")).to_have_count(1)
    assert await texts(page, "#found") == ["1 of 7"]
    await page.locator("#search").fill("no such")
    await expect(page.locator("#tasks .empty")).to_have_count(1)
    await page.locator("#search").fill("")
    await page.get_by_role("button", name="All").click()
    await page.locator("#order").select_option("time")
    await expect(page.locator(".task[data-task]").first).to_have_attribute("data-task", re.compile("t[012]"))


async def test_every_run_is_one_click_away_also_where_the_page_was_moved(opened: Opened, tmp_path: Path) -> None:
    batch = Batch.begin("b", tasks(2))
    await work_off(batch, make)
    batch.again("t0")
    await work_off(batch, make)
    written = write_batch(BatchTable(batch), tmp_path / "my batch.html")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for place in (written, written.with_name("my batch-runs")):
        place.rename(moved / place.name)
    page = await opened(moved / "my batch.html")
    await page.locator('.task[data-task="t0"] a').first.click()
    await page.wait_for_selector("#panel-timeline .row")
    assert await texts(page, "#name") == ["b.t0.2"]
    await page.go_back()
    await page.get_by_role("link", name="b.t0.1").click()
    await page.wait_for_selector("#panel-timeline .row")
    assert all(asked.startswith("file:") for asked in opened.requests)
    assert (moved / "my batch.html").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
async def test_whatever_tasks_say_is_text_and_nothing_runs(opened: Opened, width: int, dark: bool) -> None:
    attack = Attacks(NOWHERE)
    batch = Batch.begin("b", [Task(f"t{number}", attack()) for number in range(6)])
    for number in range(4):
        end = ended(f"t{number}", cause=attack(), code=attack() if number else "api_error", verified=attack())
        write_journal(batch, began(f"t{number}", machine=attack()), end)
    write_journal(batch, began("t4", machine=attack()))
    lines = [decision(1000.0, 2.0, why=attack(), status=attack(), machine=attack()), {"at": attack(), "base": attack()}]
    (batch.folder / "rate.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    data = batch_data(BatchTable(batch), lambda run: attack())
    data["tasks"][0]["runs"] = [
        {"id": attack(), "report": link}
        for link in ("javascript:pwned(1)", "//evil/x", "data:text/html,x", "/etc/passwd")
    ]
    file = batch.folder / "report.html"
    file.write_text(make_batch_page(data), encoding="utf-8")
    page = await opened(file, width=width, dark=dark)
    for summary in await page.locator(".failure summary").all():
        await summary.click()
    assert await page.evaluate("typeof pwned") == "undefined"
    assert await page.locator("main img, main iframe, main script, main link, main base, main meta").count() == 0
    assert await page.locator("main a").count() == 0
    assert "\u202e" not in await page.locator("body").inner_text()
    assert "</script>" in str(await page.locator("#tasks").text_content())
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.requests == [file.as_uri()]


async def test_thousands_of_tasks_are_shown_step_by_step(opened: Opened) -> None:
    batch = Batch.begin("b", tasks(3000))
    with (batch.folder / "journal.jsonl").open("w", encoding="utf-8") as out:
        for number in range(3000):
            out.write(
                json.dumps(began(f"t{number}", at=1000.0 + number)) + "\n" + json.dumps(ended(f"t{number}")) + "\n"
            )
    page = await opened(write_batch(BatchTable(batch)))
    assert await page.locator(".task[data-task]").count() == 500
    await page.get_by_role("button", name=re.compile("500 more of 2,500")).click()
    await expect(page.locator(".task[data-task]")).to_have_count(1000)
    await page.locator("#search").fill("t2999")
    await expect(page.locator(".task[data-task]")).to_have_count(1)


async def test_reports_that_are_there_are_not_made_again_and_damaged_runs_have_no_link() -> None:
    batch = Batch.begin("b", tasks(2))
    await work_off(batch, make)
    table = BatchTable(batch)
    told: list[tuple[int, int]] = []
    file = write_batch(table, on_run=lambda number, of: told.append((number, of)))
    assert told == [(1, 2), (2, 2)]
    first = file.with_name("report-runs") / "b.t0.1.html"
    made = first.stat().st_ino
    (table.runs / "b.t1.1" / "run.json").write_text("nonsense", encoding="utf-8")
    write_batch(table)
    assert first.stat().st_ino == made
    assert "report-runs/b.t0.1.html" in file.read_text(encoding="utf-8")
    assert "report-runs/b.t1.1.html" not in file.read_text(encoding="utf-8")


def command(*words: str, cwd: Path) -> Any:
    return toolkit("batch", "report", *words, cwd=cwd, env={"TOOLKIT_HOME": os.environ["TOOLKIT_HOME"]})


async def test_the_command_writes_it_prints_it_or_says_what_is_wrong(tmp_path: Path) -> None:
    mixed()
    done = command("b", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "<here>/toolkit-home/batches/b/report.html\n", "")
    page = command("b", "-o", "-", cwd=tmp_path)
    assert page.out.startswith("<!doctype html>")
    data = json.loads(command("b", "--json", cwd=tmp_path).out)
    assert (data["counts"]["failed"], len(data["failures"]), len(data["rate"])) == (3, 2, 2)
    assert command("b", "--alone", "-o", "x.html", cwd=tmp_path).code == 0
    assert not (tmp_path / "x-runs").exists()
    assert command("none", cwd=tmp_path).code == 2
    assert command("b", "--open", "-o", "-", cwd=tmp_path).code == 2
    assert "cannot be written" in command("b", "-o", "no/such/x.html", cwd=tmp_path).err
