"""A person in the loop: who is asked, how often, and what happens when nobody answers."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ToolPermissionContext
from claude_agent_sdk.types import PermissionRuleValue, PermissionUpdate

from tests.runs.play import SOON
from toolkit import Toolbox, tool
from toolkit.runs import Approvals, Decision, InPlace, Limits, OptionError, Question, RunResult, load_run, run, start
from toolkit.runs.asking import Policy, Remembered
from toolkit.testing import FakeCLI, Turn, text, tool_use

NOTE = "mcp__notes__note"


class Notes:
    """A tool that remembers what it did, and the box it is in."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.box = Toolbox("notes", [self.note, self.find])

    @tool
    def note(self, title: str) -> str:
        self.done.append(title)
        return "noted"

    @tool(read_only=True)
    def find(self) -> str:
        return "found"


def calls(*titles: str) -> list[dict[str, Any]]:
    return [tool_use(NOTE, title=title) for title in titles]


async def ran(notes: Notes, *turns: Any, **options: Any) -> RunResult[Any]:
    cli = FakeCLI(*turns, [text("bye")], strict=False)
    options = {"mode": "normal", "tools": [notes.box], "transport": cli, **options}
    return await asyncio.wait_for(run("go", **options), 60)


def answering(decision: Decision | bool, asked: list[Question] | None = None) -> Callable[[Question], Decision | bool]:
    def approve(question: Question) -> Decision | bool:
        if asked is not None:
            asked.append(question)
        return decision

    return approve


async def test_a_call_runs_only_after_a_yes() -> None:
    notes, asked = Notes(), list[Question]()
    result = await ran(notes, calls("a"), approve=answering(True, asked))
    assert (result.code, notes.done) == ("ok", ["a"])
    assert (asked[0].tool, dict(asked[0].input), asked[0].read_only) == (NOTE, {"title": "a"}, False)


async def test_a_no_is_told_to_the_model_and_the_run_goes_on() -> None:
    notes = Notes()
    result = await ran(notes, calls("a"), approve=answering(Decision.deny("not on a Sunday")))
    assert (result.code, result.text, notes.done) == ("ok", "bye", [])
    assert [(denied.name, denied.reason) for denied in result.denied] == [(NOTE, "not on a Sunday")]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "normal"},
        {"mode": "yolo", "policy": {NOTE: "ask"}},
        {"mode": "default"},
        {"mode": "default", "policy": {NOTE: "ask"}},
        {"mode": "acceptEdits"},
        {"mode": "plan"},
    ],
    ids=str,
)
async def test_a_no_that_ends_the_run_has_one_code_in_every_mode(options: dict[str, Any]) -> None:
    notes = Notes()
    result = await ran(notes, calls("a"), approve=answering(Decision.deny("enough", stop=True)), **options)
    assert (result.ok, result.code, notes.done) == (False, "stopped", [])
    assert [(denied.name, denied.reason) for denied in result.denied] == [(NOTE, "enough")]


async def test_the_input_can_be_rewritten() -> None:
    notes = Notes()
    await ran(notes, calls("a"), approve=answering(Decision.allow({"title": "b"})))
    assert notes.done == ["b"]


async def test_without_an_approver_ask_is_a_refusal_at_once() -> None:
    notes = Notes()
    result = await ran(notes, calls("a"))
    assert notes.done == []
    assert result.denied[0].reason == (
        f"{NOTE} needs approval, and nobody is there to give it ({NOTE} may change things)"
    )


async def test_read_only_tools_are_not_asked_about_in_normal_mode() -> None:
    notes, asked = Notes(), list[Question]()
    result = await ran(notes, [tool_use("mcp__notes__find")], approve=answering(True, asked))
    assert (result.tools[0].ok, asked) == (True, [])


async def test_read_only_mode_refuses_a_writer_whatever_the_callback_says() -> None:
    notes = Notes()
    result = await ran(notes, [*calls("a"), tool_use("mcp__notes__find")], mode="read-only", approve=answering(True))
    assert notes.done == []
    assert [use.ok for use in result.tools] == [False, True]


async def test_a_disabled_tool_is_not_offered_at_all() -> None:
    notes = Notes()
    cli = FakeCLI([text("bye")])
    await run("go", tools=[notes.box], policy={NOTE: "disable"}, transport=cli)
    assert NOTE not in str(cli.tools())
    assert "mcp__notes__find" in str(cli.tools())


async def test_allow_for_the_session_asks_exactly_once_also_for_parallel_calls() -> None:
    notes, asked = Notes(), list[Question]()
    await ran(notes, calls("a", "b", "c"), calls("d"), approve=answering(Decision.ALLOW_SESSION, asked))
    assert (notes.done, len(asked)) == (["a", "b", "c", "d"], 1)


async def test_allow_once_asks_every_time() -> None:
    notes, asked = Notes(), list[Question]()
    await ran(notes, calls("a", "b"), approve=answering(Decision.ALLOW_ONCE, asked))
    assert (sorted(notes.done), len(asked)) == (["a", "b"], 2)


@pytest.mark.parametrize(
    ("decision", "elsewhere"), [(Decision.ALLOW_PROJECT, 1), (Decision.ALLOW_ALWAYS, 0), (Decision.ALLOW_SESSION, 1)]
)
async def test_a_kept_decision_holds_in_the_next_run(decision: Decision, elsewhere: int, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    notes, asked = Notes(), list[Question]()
    await ran(notes, calls("a"), workspace=InPlace(here), approve=answering(decision, asked))
    await ran(notes, calls("b"), workspace=InPlace(here), approve=answering(True, asked))
    expected = 2 if decision.kind == "ALLOW_SESSION" else 1
    assert len(asked) == expected
    await ran(notes, calls("c"), workspace=InPlace(there), approve=answering(True, asked))
    assert len(asked) == expected + elsewhere
    assert notes.done == ["a", "b", "c"]


async def test_a_kept_decision_is_about_the_tool_as_it_was_defined() -> None:
    asked = list[Question]()
    for number, description in enumerate(("Look at notes.", "Look at notes.", "Erase all notes."), 1):
        box = Toolbox("other", [tool(name="look", description=description)(lambda: "looked")])
        cli = FakeCLI([tool_use("mcp__other__look")], [text("bye")])
        approve = answering(Decision.ALLOW_ALWAYS, asked)
        result = await run("go", tools=[box], policy={"look": "ask"}, transport=cli, approve=approve)
        assert [use.ok for use in result.tools] == [True]
        assert len(asked) == (1 if number < 3 else 2)
    assert asked[0].remembers == "every call of mcp__other__look, as long as it is defined as it is now"


async def test_events_tell_what_was_asked_and_answered() -> None:
    notes = Notes()
    cli = FakeCLI(calls("a"), [text("bye")])
    seen = []
    async with start("go", mode="normal", tools=[notes.box], transport=cli, approve="wait") as live:
        async for event in live:
            if event.stream == "approval":
                seen.append((event.kind, event.id, event.data))
            if event.name == "approval.asked":
                assert [question.id for question in live.approvals.pending] == [event.id]
                assert live.approvals.answer(event.id, Decision.ALLOW_ONCE)
                assert not live.approvals.answer(event.id, Decision.DENY)
    assert [(kind, id) for kind, id, _ in seen] == [("asked", "ask-1"), ("answered", "ask-1")]
    assert seen[0][2]["tool"] == NOTE
    assert seen[0][2]["input"] == {"title": "a"}
    assert seen[1][2] == {"decision": "ALLOW_ONCE", "message": "", "by": "caller"}
    assert notes.done == ["a"]


async def test_an_answer_to_an_unknown_question_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with start("go", transport=FakeCLI([text("bye")])) as live:
        with caplog.at_level(logging.WARNING):
            assert not live.approvals.answer("ask-99", Decision.ALLOW_ONCE)
        await live.result()
    assert "no approval request 'ask-99'" in caplog.text


@pytest.mark.parametrize("answer", ["allow", "yes", None, 1])
async def test_an_answer_that_is_no_decision_is_refused_and_the_question_waits_on(answer: Any) -> None:
    notes = Notes()
    cli = FakeCLI(calls("a"), [text("bye")])
    async with start("go", mode="normal", tools=[notes.box], transport=cli, approve="wait") as live:
        async for event in live:
            if event.name == "approval.asked":
                with pytest.raises(OptionError, match="it is a Decision, True or False"):
                    live.approvals.answer(event.id, answer)
                assert live.approvals.answer(event.id, True)
        await live.result()
    assert notes.done == ["a"]


async def test_a_question_of_the_clis_own_carries_all_that_the_cli_tells() -> None:
    asked: list[Question] = []
    suggestion = PermissionUpdate("addRules", rules=[PermissionRuleValue("Bash", "ls:*")], behavior="allow")
    context = ToolPermissionContext(
        suggestions=[suggestion],
        tool_use_id="toolu_1",
        agent_id="agent-7",
        blocked_path="/etc/hosts",
        decision_reason="outside of the working directory",
        title="Claude wants to read hosts",
    )
    approvals = Approvals(
        Policy("default"), Remembered("/p"), lambda *event, **data: None, approve=answering(True, asked)
    )
    answer = await approvals.can_use_tool("Bash", {"command": "cat /etc/hosts"}, context)
    (question,) = asked
    assert answer.behavior == "allow"
    assert (question.title, question.agent, question.blocked_path) == (context.title, "agent-7", "/etc/hosts")
    assert question.reason == "outside of the working directory"
    assert question.cli_suggestions == (suggestion.to_dict(),)
    assert question.as_data()["cli_suggestions"] == question.cli_suggestions


async def test_several_questions_can_wait_at_once() -> None:
    class Two:
        @tool(read_only=True)
        def one(self) -> str:
            return "1"

        @tool(read_only=True)
        def two(self) -> str:
            return "2"

    things = Two()
    box = Toolbox("t", [things.one, things.two])
    cli = FakeCLI([tool_use("mcp__t__one"), tool_use("mcp__t__two")], [text("bye")])
    live = start("go", policy={"mcp__t__*": "ask"}, tools=[box], transport=cli, approve="wait")
    async with live, asyncio.timeout(60):
        async for event in live:
            if event.name == "approval.asked" and len(live.approvals.pending) == 2:
                for question in reversed(live.approvals.pending):
                    live.approvals.answer(question.id, True)
        result = await live.result()
    assert [use.ok for use in result.tools] == [True, True]


@pytest.mark.parametrize("how", ["interrupt", "deadline", "leave"])
async def test_what_is_pending_when_the_turn_ends_is_cancelled(how: str) -> None:
    notes = Notes()
    cli = FakeCLI(calls("a"), [text("bye")], strict=False)
    limits = Limits(seconds=SOON) if how == "deadline" else Limits()
    answered: list[Any] = []
    live = start("go", mode="normal", tools=[notes.box], transport=cli, approve="wait", limits=limits)
    async with live, asyncio.timeout(60):
        live.bus.subscribe(lambda e: answered.append(e.data) if e.name == "approval.answered" else None)
        async for event in live:
            if event.name == "approval.asked":
                if how == "interrupt":
                    await live.interrupt()
                elif how == "leave":
                    break
        if how == "leave":
            live.approvals.cancel()
            await live.result()
    assert notes.done == []
    assert answered[0]["decision"] == "cancelled"


async def test_a_question_nobody_answers_times_out_as_a_refusal() -> None:
    notes = Notes()
    result = await ran(notes, calls("a"), approve="wait", approval_timeout=0.05)
    assert notes.done == []
    assert result.denied[0].reason == "Nobody answered in time"


async def test_an_approver_that_fails_refuses(caplog: pytest.LogCaptureFixture) -> None:
    def broken(question: Question) -> bool:
        raise OSError("the line is dead")

    notes = Notes()
    result = await ran(notes, calls("a"), approve=broken)
    assert notes.done == []
    assert result.denied[0].reason == "Permission check failed: OSError"


async def test_an_approver_that_gives_nonsense_refuses() -> None:
    notes = Notes()
    await ran(notes, calls("a"), approve=answering("yes"))  # type: ignore[arg-type]
    assert notes.done == []


async def test_arguments_that_are_none_are_told_in_words(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    result = await ran(notes, calls("a"), approve=lambda question: Decision.allow("session"))  # type: ignore[arg-type]
    assert notes.done == []
    what = "Decision.allow('session'): it takes the arguments to run the call with"
    assert result.denied[0].reason == f"Permission check failed: {what}"
    assert "Decision.ALLOW_SESSION" in caplog.text
    assert "Traceback" not in caplog.text


async def test_policy_ask_holds_in_yolo_mode_too() -> None:
    notes, asked = Notes(), list[Question]()
    await ran(notes, calls("a"), mode="yolo", policy={"mcp__notes__*": "ask"}, approve=answering(True, asked))
    assert (notes.done, len(asked)) == (["a"], 1)


def test_a_damaged_file_is_kept_aside_and_said(tmp_path: Path) -> None:
    kept = Remembered("/project", home=tmp_path)
    kept.remember("Write", Decision.ALLOW_ALWAYS)
    kept.path.write_text("{broken", encoding="utf-8")
    assert kept.allows("Write") is None
    assert kept.warning is not None
    assert kept.path.with_name("approvals.json.damaged-1").read_text(encoding="utf-8") == "{broken"
    kept.remember("Edit", Decision.ALLOW_PROJECT)
    assert json.loads(kept.path.read_text(encoding="utf-8"))["projects"] == {"/project": ["Edit"]}


def test_kept_decisions_can_be_listed_and_forgotten(tmp_path: Path) -> None:
    kept = Remembered("/project", home=tmp_path)
    kept.remember("Write", Decision.ALLOW_ALWAYS)
    kept.remember("Write", Decision.ALLOW_PROJECT)
    assert kept.listed() == [("always", "", "Write"), ("project", "/project", "Write")]
    assert kept.forget("Write") == 2
    assert kept.forget("Write") == 0
    assert kept.allows("Write") is None


async def test_a_slow_answer_holds_nobody_else_up() -> None:
    notes = Notes()
    cli = FakeCLI(Turn([*calls("a"), tool_use("mcp__notes__find")]), [text("bye")])
    async with (
        start("go", mode="normal", tools=[notes.box], transport=cli, approve="wait") as live,
        asyncio.timeout(60),
    ):
        found = False
        async for event in live:
            if event.name == "tool.ended" and event.data["name"] == "mcp__notes__find":
                found = True
            if event.name == "approval.asked":
                live.approvals.answer(event.id, True)
    assert found


async def test_a_policy_that_allows_is_not_asked_about_in_the_clis_own_modes() -> None:
    notes, asked = Notes(), list[Question]()
    options: dict[str, Any] = {"mode": "default", "approve": answering(True, asked)}
    result = await ran(notes, calls("a"), policy={"mcp__notes__*": "allow"}, **options)
    assert (result.ok, notes.done, asked) == (True, ["a"], [])
    result = await ran(notes, calls("b"), **options)
    assert (result.ok, notes.done, len(asked)) == (True, ["a", "b"], 1)


async def test_what_waits_behind_a_cancelled_question_is_not_asked_at_all() -> None:
    notes = Notes()
    cli = FakeCLI(calls("a", "b", "c"), [text("bye")], strict=False)
    async with (
        start("go", mode="normal", tools=[notes.box], transport=cli, approve="wait") as live,
        asyncio.timeout(60),
    ):
        asked = 0
        async for event in live:
            if event.name == "approval.asked":
                asked += 1
                await live.interrupt()
    assert (asked, notes.done) == (1, [])


async def test_a_remembered_decision_is_about_what_ran_and_not_about_what_was_asked_for() -> None:
    ran_commands: list[str] = []

    def bash(given: dict[str, Any]) -> str:
        ran_commands.append(given["command"])
        return "done"

    steps = [[tool_use("Bash", command=command)] for command in ("rm -r a", "rm -r b", "ls -l")]
    answers = iter([Decision("ALLOW_SESSION", arguments={"command": "ls"}), Decision.DENY])
    cli = FakeCLI(*steps, [text("bye")], tools={"Bash": bash}, strict=False)
    result = await asyncio.wait_for(run("go", mode="normal", transport=cli, approve=lambda asked: next(answers)), 60)
    assert (result.ok, ran_commands) == (True, ["ls", "ls -l"])


async def test_an_approver_that_is_not_async_holds_up_neither_the_deadline_nor_the_end() -> None:
    notes, never = Notes(), threading.Event()

    def stuck(question: Question) -> bool:
        return never.wait(30)

    result = await ran(notes, calls("a"), approve=stuck, limits=Limits(seconds=SOON))
    assert (result.code, notes.done) == ("deadline", [])
    never.set()


async def test_leaving_ends_a_run_whose_question_nobody_answers() -> None:
    notes = Notes()
    cli = FakeCLI(calls("a"), [text("bye")], strict=False)
    async with asyncio.timeout(60):
        async with start("go", mode="normal", tools=[notes.box], transport=cli, approve="wait") as live:
            async for event in live:
                if event.name == "approval.asked":
                    break
    assert notes.done == []
    assert load_run(live.id).result().code == "aborted"
