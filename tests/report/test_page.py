"""What a person sees of a run, in a real browser, from one file on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.report._browser import Opened, texts
from tests.report._runs import PROMPT, finished, worked_run, write_run
from toolkit.report import render_report, write_report
from toolkit.runs import DeniedCall, RunResult

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_first_look_says_how_it_ended_and_what_it_used(tmp_path: Path, opened: Opened) -> None:
    page = await opened(write_report(await worked_run(tmp_path)))

    assert await texts(page, "#badge") == ["ok"]
    assert await texts(page, "h1") == [PROMPT]
    assert await texts(page, ".verdict") == ["The run finished."]
    assert await page.title() == "ok · run-7f3a90c1d2e4"
    figures = dict(zip(await texts(page, ".numbers dt"), await texts(page, ".numbers dd"), strict=True))
    assert (figures["Tokens"], figures["Model calls"], figures["Tool calls"], figures["Refused"]) == (
        "83k",
        "7",
        "8",
        "1",
    )
    assert figures["Cost"].startswith("$0.0")
    assert "1 refused" in (await texts(page, "#key-figures"))[0]
    assert (await texts(page, ".last-words"))[0].startswith("Answer The failing test passes now.")


async def test_a_run_that_failed_says_why_and_that_its_cost_is_not_all_known(opened: Opened) -> None:
    known: RunResult[str] = RunResult(run="run-written", code="ok", ms=5, cost=0.25, known_cost=0.25)
    ended: RunResult[str] = RunResult(run="run-written", code="crashed", cause="The cable was cut.", ms=5)
    both: RunResult[str] = RunResult(run="run-written", code="crashed", cause="The cable was cut.", known_cost=0.25)
    events = [finished(known), finished(ended, turn=2)]
    page = await opened(write_report(write_run(events, result=both.to_data())))

    assert await texts(page, "#hero .cause") == ["The cable was cut."]
    figures = dict(zip(await texts(page, ".numbers dt"), await texts(page, ".numbers dd"), strict=True))
    assert figures["Cost"] == "at least $0.2500"
    rows = await texts(page, ".row.end")
    assert "$0.2500" in rows[0]
    assert "unknown" in rows[1]
    assert "The cable was cut." in rows[1]


async def test_the_chart_has_a_bar_for_each_call_and_leads_to_what_was_said(tmp_path: Path, opened: Opened) -> None:
    page = await opened(write_report(await worked_run(tmp_path)))

    bars = page.locator(".bar-group")
    assert await bars.count() == 7
    assert await bars.nth(1).locator("title").text_content() == (
        "Call 2\n9,120 read from cache\n1,210 written to cache\n640 input\n118 output\nclaude-scripted-1"
    )
    await bars.nth(1).click()
    assert await texts(page, ".row.selected .prose") == ["The total ignores count. Let me look at the code."]


async def test_a_call_shows_its_arguments_beside_its_result_and_a_refusal_is_marked(
    tmp_path: Path, opened: Opened
) -> None:
    page = await opened(write_report(await worked_run(tmp_path)))

    tools = await texts(page, ".row.tool .tool-name")
    assert tools == ["Bash", "Read", "Read", "WebFetch", "Edit", "Write", "desk note_decision", "Bash"]
    first = page.locator(".row.tool").first
    left, right = first.locator(".arguments"), first.locator(".result")
    assert "python -m pytest -q shop" in await left.inner_text()
    assert "assert 1250 == 1750" in await right.inner_text()
    assert "\x1b" not in await right.inner_text()
    boxes = await left.bounding_box(), await right.bounding_box()
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]
    refused = page.locator(".row.problem")
    assert [await refused.locator(".tool-name").inner_text(), await refused.locator(".chip").inner_text()] == [
        "WebFetch",
        "refused",
    ]


async def test_the_changes_are_shown_file_by_file_with_colour(tmp_path: Path, opened: Opened) -> None:
    page = await opened(write_report(await worked_run(tmp_path)))
    await page.keyboard.press("2")

    assert await texts(page, ".file-line") == ["added shop/CHANGES.md +1", "modified shop/invoice.py +1 −1"]
    changed = page.locator(".file").nth(1)
    assert await changed.locator(".minus .text").all_inner_texts() == ["    return sum(line.cents for line in lines)"]
    assert await changed.locator(".plus .text").all_inner_texts() == [
        "    return sum(line.cents * line.count for line in lines)"
    ]
    assert await changed.locator(".plus .text .key").all_inner_texts() == ["return", "for", "in"]
    assert await changed.locator(".same .str").all_inner_texts() == ['"""The total in cents."""']
    assert "toolkit runs apply run-7f3a90c1d2e4" in await page.locator(".take").inner_text()


async def test_changes_that_were_applied_or_dropped_are_still_named(tmp_path: Path, opened: Opened) -> None:
    run = await worked_run(tmp_path)
    run.apply(paths=["shop/CHANGES.md"])
    page = await opened(write_report(run))
    await page.keyboard.press("2")
    assert await texts(page, ".file-line") == ["added shop/CHANGES.md", "modified shop/invoice.py +1 −1"]
    assert "Not shown: it was applied since." in await page.locator(".file").first.inner_text()

    run.drop_workspace()
    page = await opened(write_report(run))
    await page.keyboard.press("2")
    assert await texts(page, ".file-line") == ["added shop/CHANGES.md", "modified shop/invoice.py"]
    assert await texts(page, "#panel-changes .empty") == ["The workspace of run run-7f3a90c1d2e4 was removed."]
    assert await page.locator(".take").count() == 0
    assert "null" not in await page.locator("#panel-changes").inner_text()


async def test_what_the_cli_itself_refused_counts_as_refused(opened: Opened) -> None:
    told = {"name": "Read", "text": "/etc/shadow is outside", "ms": 3, "denied": False, "interrupted": False}
    events = [
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go"}},
        {"name": "tool.started", "id": "toolu_1", "data": {"name": "Read", "arguments": {"file_path": "/etc/shadow"}}},
        {"name": "tool.ended", "id": "toolu_1", "data": {**told, "ok": False}},
        finished(
            RunResult(run="run-written", code="ok", denied=(DeniedCall("toolu_1", "Read", "refused by the CLI"),))
        ),
    ]
    page = await opened(write_report(write_run(events)))
    await expect(page.locator(".numbers > div", has_text="Refused").locator("dd")).to_have_text("1")
    await expect(page.locator(".row.tool .chip")).to_have_text("refused")


async def test_a_call_that_waits_for_an_answer_has_not_failed(opened: Opened) -> None:
    told = {"name": "mcp__notes__add", "text": "", "ms": 3, "denied": False, "interrupted": False, "deferred": True}
    events = [
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go"}},
        {"name": "tool.started", "id": "toolu_1", "data": {"name": "mcp__notes__add", "arguments": {}}},
        {"name": "tool.ended", "id": "toolu_1", "data": {**told, "ok": False}},
        finished(RunResult(run="run-written", code="pending")),
    ]
    page = await opened(write_report(write_run(events)))
    await expect(page.locator(".row.tool .chip")).to_have_text("waits")
    assert "waits for an answer" in (await texts(page, ".row.tool"))[0]


async def test_the_prompt_is_there_to_the_letter_and_so_are_the_limits(tmp_path: Path, opened: Opened) -> None:
    run = await worked_run(tmp_path)
    page = await opened(write_report(run))
    sent = next(event.data["prompt"] for event in run.events() if event.name == "lifecycle.started")
    assert sent.startswith(PROMPT)
    assert sent != PROMPT

    await page.keyboard.press("3")
    assert await page.locator("#panel-prompt pre").text_content() == sent
    await page.keyboard.press("4")
    rows = await texts(page, "#panel-limits tbody tr")
    assert rows[0].startswith("Time 10 m 0 s")
    assert re.match(r"Tokens 200,000 83,\d{3}", rows[2])
    assert rows[4] == "Memory 2.0 GiB not enforced"
    assert "WebFetch is not allowed in this run" in await page.locator("#panel-limits").inner_text()


LENT = [
    {"host": "/p/.venv", "inside": "/p/.venv", "what": "virtual environment"},
    {"host": "/p/data", "inside": "/work/data", "what": "lent"},
    {"host": "/p/.git/objects", "inside": "/run/toolkit/git/0", "what": "git history"},
]


@pytest.mark.parametrize(
    ("lent", "told"),
    [
        (LENT, ["virtual environment: /p/.venv, /p/data, git history: /p/.git/objects"]),
        ("<b>odd</b>", []),
        (None, []),
    ],
    ids=["lent", "odd", "none"],
)
async def test_what_the_host_lent_is_named(lent: object, told: list[str], opened: Opened) -> None:
    ended: RunResult[str] = RunResult(run="run-written", code="ok", ms=5, cost=0.25, known_cost=0.25)
    run = write_run([finished(ended)], facts={"lent": lent}, result=ended.to_data())
    page = await opened(write_report(run))
    await page.keyboard.press("4")
    names = await texts(page, "#panel-limits .facts dt")
    values = await texts(page, "#panel-limits .facts dd")
    shown = [value for name, value in zip(names, values, strict=True) if name.startswith("Lent by the host")]
    assert shown == told


async def test_what_a_subagent_did_stands_below_the_call_it_worked_for(opened: Opened) -> None:
    def call(id: str, name: str, parent: str | None = None) -> dict[str, object]:
        return {"name": "tool.started", "id": id, "parent": parent, "data": {"name": name, "arguments": {}}}

    def ended(id: str, name: str, parent: str | None = None) -> dict[str, object]:
        data = {"name": name, "ok": True, "text": "done", "ms": 3, "denied": False, "interrupted": False}
        return {"name": "tool.ended", "id": id, "parent": parent, "data": data}

    started = {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go"}}
    both = [
        call("a", "Task"),
        call("b", "Task"),
        call("b1", "Grep", "b"),
        call("a1", "Read", "a"),
        call("a2", "Bash", "a1"),
    ]
    over = [
        ended("b1", "Grep", "b"),
        ended("a2", "Bash", "a1"),
        ended("a1", "Read", "a"),
        ended("a", "Task"),
        ended("b", "Task"),
    ]
    page = await opened(
        write_report(write_run([started, *both, *over, finished(RunResult(run="run-written", code="ok"))]))
    )

    names = await texts(page, ".row.tool .tool-name")
    depths = [
        await row.evaluate("row => row.style.getPropertyValue('--depth')")
        for row in await page.locator(".row.tool").all()
    ]
    assert list(zip(names, depths, strict=True)) == [
        ("Task", "0"),
        ("Read", "1"),
        ("Bash", "2"),
        ("Task", "0"),
        ("Grep", "1"),
    ]
    await page.locator(".fold").first.click()
    assert await texts(page, ".row.tool .tool-name") == ["Task", "Task", "Grep"]


async def test_verifications_and_what_was_sent_back_are_shown(opened: Opened) -> None:
    used = {"tokens": {"input": 1, "output": 1, "cache_read": 0, "cache_write": 0}, "cost": None}
    failed = {"attempt": 1, "passed": False, "exit_code": 1, "output": "2 != 3", "ms": 1500, "ended_by": None}
    events = [
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go", "verify": "pytest -q"}},
        {"name": "lifecycle.retry", "data": {"attempt": 1, "of": 3, "delay_ms": 1500, "code": "throttled"}},
        {"name": "verify.started", "data": {"attempt": 1, "of": 2, "what": "pytest -q"}},
        {"name": "verify.ended", "data": {**failed, **used, "error": None}},
        {"name": "lifecycle.continued", "data": {"turn": 1, "prompt": "Mend that."}},
        {"name": "verify.started", "data": {"attempt": 2, "of": 2, "what": "pytest -q"}},
        {"name": "verify.ended", "data": {**failed, **used, "attempt": 2, "passed": True, "exit_code": 0}},
        finished(RunResult(run="run-written", code="ok")),
    ]
    page = await opened(write_report(write_run(events)))
    first, second = await texts(page, ".row.verify")
    assert "not verified" in first
    assert "attempt 1 · exit code 1 · 1.5 s" in first
    assert "2 != 3" in first
    assert "exit code 0" in second
    assert "Mend that." in (await texts(page, ".row.mend"))[0]
    assert "Tried again after 1.5 s, 1 of 3." in (await texts(page, ".row.retry"))[0]


async def test_the_setup_and_the_branch_are_shown(opened: Opened) -> None:
    setup = {"command": "npm ci", "key": "1f0c" * 8}
    made = {"ok": True, "made": True, "ms": 2500, "places": ["shop/node_modules"], "bytes": 36_000_000, "files": 9}
    branch = {
        "name": "agent/fix",
        "repository": "/home/me/shop",
        "commit": "c" * 40,
        "commits": 2,
        "onto": "9c1f0e2" * 5,
    }
    events = [
        {"name": "setup.started", "data": {**setup, "domains": ["packages.example.org"], "inputs": [], "deadline": 9}},
        {"name": "setup.output", "data": {"text": "added 1 package\n"}},
        {"name": "setup.output", "data": {"text": "audited 1 package\n"}},
        {"name": "setup.ended", "data": {**setup, **made}},
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go"}},
        {"name": "lifecycle.delivered", "data": {"branches": [branch], "left": [], "marks": {}}},
        finished(RunResult(run="run-written", code="ok")),
    ]
    page = await opened(write_report(write_run(events)))
    (first,) = await texts(page, ".row.setup")
    for words in ("npm ci", "done", "2.5 s · layer 1f0c1f0c1f0c · shop/node_modules, 34 MiB", "packages.example.org"):
        assert words in first
    assert "added 1 package audited 1 package" in first
    (last,) = await texts(page, ".row.delivered")
    assert "agent/fix 2 commits on 9c1f0e2 in /home/me/shop" in " ".join(last.split())


async def test_a_setup_that_failed_and_a_branch_that_was_not_made_are_problems(opened: Opened) -> None:
    setup = {"command": "npm ci", "key": "1f0c" * 8}
    events = [
        {"name": "setup.ended", "data": {**setup, "ok": False, "made": False, "ms": 5, "why": "exit code 7"}},
        {"name": "lifecycle.delivered", "data": {"branches": [], "why": "it was not verified"}},
        finished(RunResult(run="run-written", code="setup_failed")),
    ]
    page = await opened(write_report(write_run(events)))
    (first,) = await texts(page, ".row.setup.problem")
    assert "failed" in first
    assert "exit code 7" in first
    assert "it was not verified" in (await texts(page, ".row.delivered.problem"))[0]


async def test_retries_warnings_approvals_and_compaction_are_shown(opened: Opened) -> None:
    asked = {
        "call": "c1",
        "tool": "Bash",
        "input": {"command": "rm x"},
        "read_only": False,
        "reason": "the policy says ask",
        "suggestions": [],
    }
    refused = {"what": "CONNECT a.com:443", "rule": "domain", "why": "not allowed", "fix": "--allow-domain a.com"}
    events = [
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go"}},
        {"name": "lifecycle.retry", "data": {"attempt": 2, "delay_ms": 1500, "status": 529, "error": "overloaded"}},
        {"name": "lifecycle.warning", "data": {"what": "rate limit: near"}},
        {"name": "tool.started", "id": "c1", "data": {"name": "Bash", "arguments": {"command": "rm x"}}},
        {"name": "approval.asked", "id": "ask-1", "data": asked},
        {
            "name": "approval.answered",
            "id": "ask-1",
            "data": {"decision": "deny", "message": "not today", "by": "callback"},
        },
        {
            "name": "tool.ended",
            "id": "c1",
            "data": {"name": "Bash", "ok": False, "text": "not today", "ms": 9, "denied": True, "interrupted": False},
        },
        {"name": "gate.refused", "data": {**refused, "times": 1}},
        {"name": "gate.refused", "data": {**refused, "times": 12}},
        {"name": "compaction.started", "data": {"trigger": "auto"}},
        {"name": "compaction.ended", "data": {"trigger": "auto", "before": 150_000, "after": 9000}},
        finished(RunResult(run="run-written", code="deadline")),
    ]
    page = await opened(write_report(write_run(events)))

    assert await texts(page, ".verdict") == ["The run reached its deadline."]
    assert "did not answer (529); attempt 2 after 1.5 s." in (await texts(page, ".row.retry"))[0]
    assert "rate limit: near" in (await texts(page, ".row.warning"))[0]
    (refusal,) = await texts(page, ".row.refused")
    assert "12 times" in refusal
    assert "CONNECT a.com:443: not allowed" in refusal
    assert "--allow-domain a.com" in refusal
    assert "from 150,000 to 9,000 tokens" in (await texts(page, ".row.compaction"))[0]
    row = (await texts(page, ".row.tool"))[0]
    assert "refused not approved" in row
    assert "Asked: the policy says ask — deny, by callback, after 400 ms. not today" in row


async def test_a_run_that_was_killed_shows_what_it_was_saying(opened: Opened) -> None:
    events = [
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go"}},
        {"name": "assistant.text", "id": "m", "data": {"text": "I was about "}},
        {"name": "tool.started", "id": "c1", "data": {"name": "Bash", "arguments": {"command": "sleep 9"}}},
        {"name": "assistant.text", "id": "m", "data": {"text": "to"}},
    ]
    page = await opened(write_report(write_run(events)))

    assert await texts(page, "#badge") == ["crashed"]
    assert await texts(page, ".row.text") == ["+0.4 s I was about to"]
    assert "never answered" in (await texts(page, ".row.tool"))[0]


async def test_the_page_is_one_file_that_asks_nobody_for_anything(tmp_path: Path, opened: Opened) -> None:
    run = await worked_run(tmp_path)
    file = write_report(run)
    alone = tmp_path / "elsewhere" / "page.html"
    alone.parent.mkdir()
    alone.write_bytes(file.read_bytes())
    await opened(alone)

    assert opened.requests == [alone.as_uri()]
    assert not re.search(
        r"""<link|<script[^>]+src=|@import|url\(|https?://(?!www\.w3\.org/2000/svg|example\.com)""", render_report(run)
    )
    assert file.stat().st_mode & 0o777 == 0o600
