"""The launcher's own verdict: attempts, what goes back to the agent, and how a run without success ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tests.sandbox.jails import needs_jail
from toolkit import Limits, Toolbox, ToolError, Verify, WorkspacePath, tool
from toolkit.runs import Event, OptionError, RunResult, Trial, load_run, run, start
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@tool
def write(path: WorkspacePath, content: str) -> str:
    """Write a file."""
    path.write_text(content, encoding="utf-8")
    return "written"


BOX = Toolbox("files", [write])


def wrote(name: str, content: str) -> list[dict[str, Any]]:
    return [text("On it."), tool_use("mcp__files__write", path=f"project/{name}", content=content)]


@pytest.fixture
def section(tmp_path: Path) -> WorkspaceSection:
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    (project / "answer.txt").write_text("0", encoding="utf-8")
    (project / "tests" / "expected.txt").write_text("42", encoding="utf-8")
    return WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])


def is_answered(ws: Trial) -> bool | str:
    found = (ws / "project/answer.txt").read_text(encoding="utf-8")
    wanted = (ws / "project/tests/expected.txt").read_text(encoding="utf-8")
    return found == wanted or f"the answer is {found}, not {wanted}"


async def go(cli: FakeCLI, section: WorkspaceSection | None = None, **options: Any) -> RunResult[Any]:
    options = {"tools": [BOX], "workspace": section, **options}
    return await asyncio.wait_for(run("Answer.", transport=cli, **options), 60)


async def test_a_run_without_verify_says_nothing_of_one() -> None:
    done = await go(FakeCLI([text("Done.")]))
    assert (done.code, done.verified, done.attempts) == ("ok", None, ())


async def test_what_failed_goes_back_as_the_next_turn_of_the_same_conversation(section: WorkspaceSection) -> None:
    cli = FakeCLI(
        Turn(wrote("answer.txt", "41"), usage={"input_tokens": 100}),
        Turn([text("Done.")], usage={"input_tokens": 10}),
        Turn(wrote("answer.txt", "42"), usage={"input_tokens": 7}),
        Turn([text("Mended.")], usage={"input_tokens": 3}),
    )
    done = await go(cli, section, verify=Verify(is_answered, attempts=3))
    assert (done.code, done.ok, done.verified, done.text) == ("ok", True, True, "Mended.")
    assert [one.passed for one in done.attempts] == [False, True]
    assert done.attempts[0].output == "the answer is 41, not 42"
    assert [one.tokens.input for one in done.attempts] == [110, 10]
    assert done.total.input == 120
    assert str(cli.messages).count("the answer is 41, not 42") == 1
    assert "Answer." in str(cli.messages[0]), "it is another conversation"
    assert len({call.key for call in done.calls}) == 4


async def test_work_that_never_passes_is_unverified_and_no_success(section: WorkspaceSection) -> None:
    cli = FakeCLI(wrote("answer.txt", "1"), [text("Done.")], wrote("answer.txt", "2"), [text("Done now.")], strict=True)
    done = await go(cli, section, verify=Verify(is_answered, attempts=2))
    assert (done.code, done.ok, done.verified, len(done.attempts)) == ("unverified", False, False, 2)
    assert done.message == "The agent says it is done, but the verification did not pass."
    assert done.cause == "the function is_answered failed, 2 attempts: the answer is 2, not 42"
    stored = load_run(done.run).result()
    assert (stored.code, stored.verified, stored.attempts) == (done.code, False, done.attempts)


async def test_an_attempt_that_changed_nothing_ends_it(section: WorkspaceSection) -> None:
    cli = FakeCLI(wrote("answer.txt", "1"), [text("Done.")], [text("It is fine as it is.")])
    done = await go(cli, section, verify=Verify(is_answered, attempts=5))
    assert (done.code, len(done.attempts)) == ("unverified", 1)
    assert done.cause == "the last attempt changed nothing"


async def test_what_verify_writes_is_not_among_the_changes(section: WorkspaceSection, tmp_path: Path) -> None:
    def check(ws: Trial) -> bool:
        (ws / "project/answer.txt").write_text("spoilt", encoding="utf-8")
        (ws / "project/new.txt").write_text("new", encoding="utf-8")
        return True

    done = await go(FakeCLI(wrote("answer.txt", "42"), [text("Done.")]), section, verify=check)
    assert done.verified
    assert [(change.kind, change.path) for change in done.changes or ()] == [("modified", "project/answer.txt")]
    assert (section.temp_dir / "project/answer.txt").read_text(encoding="utf-8") == "42"
    assert not list(load_run(done.run).folder.glob("verify-*"))


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda ws: None, "gave NoneType: it has to give True, False, or a text"),
        (lambda ws: 1, "gave int"),
    ],
)
async def test_an_answer_that_is_none_is_no_success_and_not_the_agents_to_mend(check: Any, says: str) -> None:
    done = await go(FakeCLI([text("Done.")]), verify=Verify(check, attempts=3))
    assert (done.code, done.verified, len(done.attempts)) == ("unverified", False, 1)
    assert says in (done.attempts[0].error or "")
    assert done.cause is not None
    assert done.cause.startswith("it could not be verified:")


async def test_what_a_check_raises_is_what_is_wrong(section: WorkspaceSection) -> None:
    async def check(ws: Trial) -> bool:
        return bool((ws / "missing").read_bytes())

    done = await go(FakeCLI([text("Done.")]), section, verify=check)
    assert done.code == "unverified"
    assert done.attempts[0].output.startswith("FileNotFoundError: [Errno 2] No such file or directory")


async def test_a_tool_can_verify(section: WorkspaceSection) -> None:
    @tool
    def proof() -> bool:
        """Look at it."""
        raise ToolError("the seal is broken")

    done = await go(FakeCLI([text("Done.")]), section, verify=proof)
    assert (done.code, done.attempts[0].output) == ("unverified", "ToolError: the seal is broken")


async def test_a_check_that_hangs_has_failed_at_its_own_deadline() -> None:
    release = threading.Event()

    def check(ws: Trial) -> bool:
        return release.wait(30)

    try:
        done = await go(FakeCLI([text("Done.")]), verify=Verify(check, deadline=0.3))
    finally:
        release.set()
    assert (done.code, done.attempts[0].ended_by) == ("unverified", "deadline")


async def test_the_runs_deadline_holds_for_a_verification_too() -> None:
    async def check(ws: Trial) -> bool:
        await asyncio.Event().wait()
        return True

    done = await go(FakeCLI([text("Done.")]), verify=check, limits=Limits(seconds=1.5))
    assert (done.code, done.verified, done.ok) == ("deadline", False, False)


async def test_limits_are_for_all_attempts_together(section: WorkspaceSection) -> None:
    cli = FakeCLI(
        Turn(wrote("answer.txt", "1"), usage={"input_tokens": 600}),
        Turn([text("Done.")], usage={"input_tokens": 300}),
        Turn(wrote("answer.txt", "2"), usage={"input_tokens": 600}),
        Turn([text("never asked")]),
        strict=False,
    )
    done = await go(cli, section, verify=Verify(is_answered, attempts=5), limits=Limits(tokens=1000))
    assert (done.code, done.verified, len(done.attempts)) == ("budget", False, 1)
    assert done.total.total == done.total.input + done.total.output >= 1500


async def test_an_interrupt_ends_a_verification_and_the_turn() -> None:
    began = asyncio.Event()

    async def check(ws: Trial) -> bool:
        began.set()
        await asyncio.Event().wait()
        return True

    async with start("Go.", transport=FakeCLI([text("Done.")]), verify=check) as live:
        await asyncio.wait_for(began.wait(), 60)
        await live.interrupt()
        done = await asyncio.wait_for(live.result(), 60)
    assert (done.code, done.verified) == ("aborted", False)
    assert done.attempts[0].error == "interrupted"


async def test_a_verified_run_goes_on_with_the_next_prompt(section: WorkspaceSection) -> None:
    cli = FakeCLI(wrote("answer.txt", "42"), [text("Done.")], [text("And again.")])
    async with start("Answer.", transport=cli, tools=[BOX], workspace=section, verify=is_answered) as live:
        first = await asyncio.wait_for(live.result(), 30)
        again = await asyncio.wait_for(live.send("Say it again."), 30)
    assert (first.verified, again.verified, again.text, again.session) == (True, True, "And again.", first.session)
    turns = [event.data["turn"] for event in load_run(live.id).events() if event.name == "lifecycle.started"]
    assert turns == [1, 2]


async def test_each_attempt_is_in_the_events_in_order(section: WorkspaceSection) -> None:
    cli = FakeCLI(wrote("answer.txt", "1"), [text("Done.")], wrote("answer.txt", "42"), [text("Done.")])
    async with start(
        "Answer.", transport=cli, tools=[BOX], workspace=section, verify=Verify(is_answered, attempts=2)
    ) as live:
        events = [event async for event in live]
    story = [event.name for event in events if event.stream in ("lifecycle", "verify")]
    assert story == [
        "lifecycle.started",
        "verify.started",
        "verify.ended",
        "lifecycle.continued",
        "verify.started",
        "verify.ended",
        "lifecycle.finished",
    ]
    ended = [event.data for event in events if event.name == "verify.ended"]
    assert [(one["attempt"], one["passed"]) for one in ended] == [(1, False), (2, True)]
    assert events[-1].data["verified"] is True


async def test_killed_between_attempts_the_attempts_so_far_are_known(section: WorkspaceSection) -> None:
    cli = FakeCLI(
        Turn(wrote("answer.txt", "1"), usage={"input_tokens": 100}), [text("Done.")], [text("x")], strict=False
    )
    done = await go(cli, section, verify=Verify(is_answered, attempts=2))
    events = list(load_run(done.run).events())
    cut = next(place for place, event in enumerate(events) if event.name == "lifecycle.continued")
    result = _folded(done.run, events[:cut])
    assert (result.code, result.verified, len(result.attempts), result.cost) == ("crashed", False, 1, None)
    assert result.known_cost == events[cut - 2].data["used"]["known_cost"] > 0
    assert result.total.input >= 100


def _folded(run_id: str, events: list[Event]) -> RunResult[Any]:
    from toolkit.runs.outcome import result_of

    return result_of(run_id, events)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Verify(""), "it is a command, as a text"),
        (lambda: Verify("a\0b"), "holds no NUL"),
        (lambda: Verify("pytest", attempts=0), "verify attempts=0"),
        (lambda: Verify("pytest", deadline=-1), "verify deadline=-1"),
        (lambda: Verify("pytest", max_output=0), "verify max_output=0"),
        (lambda: Verify(cast(Any, lambda: True)), "it has to take one argument"),
        (lambda: Verify(write), "the tool 'write' needs 'path', 'content', which nobody gives it"),
        (lambda: Verify(cast(Any, 5)), "it is a command, a function that takes the workspace, or a tool"),
    ],
)
def test_a_verify_that_cannot_be_is_refused(make: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        make()
    assert caught.value.option.startswith("verify")


@needs_jail
async def test_a_command_verifies_in_a_jail_of_its_own_and_its_exit_status_counts(section: WorkspaceSection) -> None:
    check = "cd project; touch made; test -e /etc/shadow && exit 9; seq 5000; echo; cmp answer.txt tests/expected.txt"
    cli = FakeCLI(wrote("answer.txt", "1"), [text("Done.")], wrote("answer.txt", "42"), [text("Done.")])
    done = await go(cli, section, verify=Verify(check, attempts=2, max_output=200))
    assert (done.code, done.verified) == ("ok", True), done.attempts
    first, second = done.attempts
    assert (first.exit_code, second.exit_code) == (1, 0)
    assert first.output.startswith("… (")
    assert first.output.endswith("differ: byte 1, line 1")
    assert len(first.output) < 260
    assert [change.path for change in done.changes or ()] == ["project/answer.txt"]


@needs_jail
async def test_a_command_that_hangs_or_leaves_processes_behind_ends_with_its_jail(section: WorkspaceSection) -> None:
    hangs = Verify("sleep 1000 & setsid sleep 1000 & echo started; sleep 1000", deadline=1.5)
    done = await go(FakeCLI([text("Done.")]), section, verify=hangs)
    assert (done.code, done.attempts[0].ended_by, done.attempts[0].output) == ("unverified", "deadline", "started")
    leaves = Verify("sleep 1000 & setsid sleep 1000 & exit 0", deadline=20)
    done = await go(FakeCLI([text("Done.")]), verify=leaves)
    assert (done.code, done.verified) == ("ok", True)


@needs_jail
async def test_a_function_can_run_commands_on_the_copy(section: WorkspaceSection) -> None:
    def check(ws: Trial) -> bool | str:
        ran = ws.run("cat project/answer.txt; curl -s http://127.0.0.1:1 || exit 3")
        return ran.passed or f"{ran.exit_code}: {ran.output}"

    done = await go(FakeCLI([text("Done.")]), section, verify=check)
    assert (done.code, done.attempts[0].output) == ("unverified", "3: 0")
