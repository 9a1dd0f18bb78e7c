"""A result is one fold over the events: live, stored and rebuilt from the events alone, it is the same."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.runs.play import ADD, BOX, SOON, STORY, Generous, call, delegating
from toolkit.errors import RunError
from toolkit.runs import InPlace, Limits, RunResult, load_run, run, run_many, start
from toolkit.runs.outcome import result_of
from toolkit.testing import FakeCLI, Status, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@dataclass
class Verdict:
    fine: bool
    words: list[str] = dataclasses.field(default_factory=list)


def agree(result: RunResult[Any]) -> None:
    """The stored result and the fold of the stored events say what the live result says."""
    stored = load_run(result.run)
    folded = result_of(result.run, stored.events())
    written = json.loads((stored.folder / "result.json").read_text(encoding="utf-8"))
    del written["changes"]
    assert json.loads(json.dumps(folded.to_data())) == written
    plain = dataclasses.replace(result, output=folded.output, changes=None)
    assert plain == folded == stored.result()


SCRIPTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ok": (FakeCLI([text("done")]), {}),
    "a story": (Generous(*STORY, tools={"Bash": "never"}), {"native": ["Read"]}),
    "a subagent": (delegating(), {"native": ["Agent", "Read"]}),
    "an API error": (FakeCLI(Status(529)), {}),
    "a process that dies": (FakeCLI(Turn([text("half of the"), text("x")], chunk=100), dies_after=8, exit_code=-9), {}),
    "a deadline": (FakeCLI(Turn([text("so far"), text("x")], stall_after=1)), {"limits": Limits(seconds=SOON)}),
    "a budget": (FakeCLI([call("toolu_1", ADD, title="a")], [text("x")]), {"limits": Limits(tokens=1)}),
    "an output": (FakeCLI([tool_use("StructuredOutput", {"fine": True})]), {"output": Verdict}),
    "no output": (FakeCLI([text("no")], [text("still not")]), {"output": Verdict}),
    "a refused call": (FakeCLI([call("toolu_1", ADD, title="a")], [text("x")]), {"policy": {ADD: "deny"}}),
}


CODES = {
    "an API error": "throttled",
    "a process that dies": "crashed",
    "a deadline": "deadline",
    "a budget": "budget",
    "no output": "bad_output",
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_result_is_the_fold_of_its_stored_events(name: str) -> None:
    cli, options = SCRIPTS[name]
    result = await run("Go.", tools=[BOX], transport=cli, **options)
    assert result.code == CODES.get(name, "ok")
    agree(result)


async def test_an_output_is_stored_as_its_type_writes_it() -> None:
    cli = FakeCLI([tool_use("StructuredOutput", {"fine": True})])
    result = await run("Go.", output=Verdict, transport=cli)
    assert result.output == Verdict(fine=True)
    assert load_run(result.run).result().output == {"fine": True, "words": []}


async def test_a_run_of_several_turns_is_one_result_and_each_turn_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(tmp_path)], allowed_host_roots=[tmp_path])
    told: list[RunResult[Any]] = []
    usage = {"input_tokens": 10, "output_tokens": 1}
    cli = FakeCLI(
        Turn([call("toolu_1", ADD, title="a")], usage=usage), Turn([text("one")]), Turn([text("two")], usage=usage)
    )
    options = {"tools": [BOX], "workspace": section, "after_run": told.append}
    async with start("Go.", transport=cli, run_id="run-1", **options) as live:
        first = await live.result()
        second = await live.send("And now?")
    assert [(turn.text, len(turn.tools), len(turn.calls)) for turn in (first, second)] == [("one", 1, 2), ("two", 0, 1)]
    (whole,) = told
    assert (whole.text, whole.total, whole.ms) == ("two", first.total + second.total, first.ms + second.ms)
    agree(whole)


async def test_a_turn_that_was_cancelled_keeps_what_it_gave() -> None:
    cli = FakeCLI(Turn([text("so far"), text("x")], stall_after=1))

    async def leave_early() -> None:
        async with start("Go.", transport=cli, run_id="run-1") as live:
            async for event in live:
                if event.name == "assistant.block":
                    raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await leave_early()
    result = load_run("run-1").result()
    assert (result.code, result.text) == ("aborted", "so far")
    assert result_of("run-1", load_run("run-1").events()) == result


async def test_a_run_that_was_refused_is_stored_as_its_caller_was_told() -> None:
    [result] = await run_many(["Go."])
    assert result.code == "bad_request"
    nowhere = start("Go.", transport=FakeCLI(), workspace=InPlace("/proc/no/such/folder"), run_id="run-1")
    with pytest.raises(RunError):
        async with nowhere as live:
            await live.result()
    stored = load_run("run-1")
    assert stored.result() == result_of("run-1", stored.events())
    assert (stored.result().code, "not a folder" in stored.result().debug["detail"]) == ("bad_request", True)


async def test_what_a_killed_run_had_told_is_in_its_result() -> None:
    cli = FakeCLI([call("toolu_1", ADD, title="a")], [text("x")])
    whole = await run("Go.", tools=[BOX], transport=cli, policy={ADD: "deny"}, run_id="run-1")
    events = list(load_run("run-1").events())
    killed = result_of("run-1", events[:-1])
    assert killed.code == "crashed"
    same = ("text", "session", "stop", "calls", "total", "tools", "denied", "model", "unenforced")
    assert [getattr(killed, name) for name in same] == [getattr(whole, name) for name in same]


async def test_parts_of_a_run_that_has_not_begun_are_missed_in_words() -> None:
    live = start("Go.", transport=FakeCLI([text("x")]))
    for part in ("bus", "approvals"):
        with pytest.raises(RunError, match="has not begun"):
            getattr(live, part)
    with pytest.raises(RunError, match="async with start"):
        await live.result()
