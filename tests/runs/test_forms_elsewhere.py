"""A tool's question is a form, and whoever answers it fills it in: at the terminal, by a command, or through the socket."""

from __future__ import annotations

import asyncio
import enum
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.cli._command import toolkit
from toolkit import Toolbox, ToolContext, tool
from toolkit.cli.terminal.display import Display
from toolkit.cli.terminal.following import TerminalApprover
from toolkit.errors import RunError
from toolkit.runs import Decision, LiveRun, Question, start
from toolkit.runs.asking import RunClient
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.tools.asking import filled, read_form


class Speed(enum.Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass
class Release:
    branch: str
    count: int
    kind: Literal["major", "minor"]
    push: bool = False
    speed: Speed = Speed.SLOW


@tool
async def release(ctx: ToolContext) -> str:
    """Make a release."""
    GOT.append(await ctx.ask("What is to be released?", Release))
    return "done"


GOT: list[Any] = []
FORM = read_form(Release).schema


def asking(**options: Any) -> LiveRun[Any]:
    cli = FakeCLI(Turn([tool_use("mcp__n__release")]), [text("bye")], strict=False)
    return start("Release.", tools=[Toolbox("n", [release])], transport=cli, **options)


async def asked(live: LiveRun[Any]) -> str:
    async for event in live:
        if event.name == "approval.asked":
            assert event.data["form"] == FORM
            return str(event.id)
    raise AssertionError("nobody was asked")


def test_typed_texts_become_the_values_of_the_fields() -> None:
    typed = {"branch": "main", "count": "3", "kind": "MINOR", "push": "yes"}
    assert filled(FORM, typed) == {"branch": "main", "count": 3, "kind": "minor", "push": True, "speed": "slow"}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"count": "3", "kind": "minor"}, "the field 'branch' needs a value: a text"),
        ({"branch": "b", "count": "three", "kind": "minor"}, "the field 'count' is a whole number, not 'three'"),
        ({"branch": "b", "count": "3", "kind": "tiny"}, "the field 'kind' is one of: major, minor, not 'tiny'"),
        ({"branch": "b", "count": "3", "kind": "minor", "push": "maybe"}, "the field 'push' is yes or no, not 'maybe'"),
        ({"brnch": "b"}, "the form has no field 'brnch'"),
    ],
)
def test_what_a_field_cannot_be_is_told_to_the_person(typed: dict[str, str], told: str) -> None:
    with pytest.raises(RunError) as caught:
        filled(FORM, typed)
    assert caught.value.what.startswith(told)


def test_several_choices_are_written_with_commas() -> None:
    form = read_form(list[Literal["a", "b", "c"]]).schema
    assert filled(form, {"answer": "a, C"}) == {"answer": ["a", "c"]}


@pytest.mark.asyncio
async def test_a_form_is_filled_in_through_the_socket(toolkit_home: Path) -> None:
    async with asking(approve="wait") as live:
        question = await asked(live)
        folder = toolkit_home / "runs" / live.id

        def answer() -> None:
            with RunClient(folder) as client:
                with pytest.raises(RunError, match="the field 'count' is a whole number"):
                    client.answer(question, Decision.ALLOW_ONCE, fields={"branch": "b", "count": "x", "kind": "minor"})
                client.answer(question, Decision.ALLOW_ONCE, fields={"branch": "b", "count": "2", "kind": "major"})

        await asyncio.to_thread(answer)
        await asyncio.wait_for(live.result(), 60)
    assert GOT[-1] == Release("b", 2, "major")


@pytest.mark.asyncio
async def test_a_form_is_filled_in_by_a_command(toolkit_home: Path, tmp_path: Path) -> None:
    async with asking(approve="wait") as live:
        question = await asked(live)

        def answer(*words: str) -> Any:
            env = {"TOOLKIT_HOME": str(toolkit_home)}
            return toolkit("approvals", "answer", live.id, question, *words, cwd=tmp_path, env=env)

        given = ("--set", "branch=main", "--set", "count=1", "--set", "kind=minor")
        refused = await asyncio.to_thread(answer, "deny", *given)
        assert (refused.code, "--set goes with allow" in refused.err) == (2, True)
        wrong = await asyncio.to_thread(answer, "allow", *given, "--set", "push=perhaps")
        assert "the field 'push' is yes or no, not 'perhaps'" in wrong.err
        assert (await asyncio.to_thread(answer, "allow", *given, "--set", "push=yes")).code == 0
        await asyncio.wait_for(live.result(), 60)
    assert GOT[-1] == Release("main", 1, "minor", push=True)


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (
            ["main", "two", "2", "minor", "", "Fast"],
            {"branch": "main", "count": 2, "kind": "minor", "push": False, "speed": "fast"},
        ),
        (["main", "-"], None),
        (["main", "a", "b", "c", "d", "e"], None),
    ],
)
@pytest.mark.asyncio
async def test_the_person_at_the_terminal_answers_field_by_field(
    typed: list[str], arguments: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    waits = asyncio.Event()

    def see(words: str) -> None:
        shown.append(words)
        if words.endswith(") "):
            waits.set()

    monkeypatch.setattr("toolkit.cli.terminal.following._say", see)
    told = Question("ask-1", "release", {}, "call", False, "What?", "x", title="release asks: What?", form=FORM)
    ours, theirs = os.openpty()
    try:
        deciding = asyncio.create_task(TerminalApprover(theirs, Display(terminal=False, say=shown.append))(told))
        for line in typed:
            await asyncio.wait_for(waits.wait(), 30)
            waits.clear()
            os.write(ours, f"{line}\n".encode())
        decision = await asyncio.wait_for(deciding, 30)
    finally:
        os.close(theirs)
        os.close(ours)
    assert (decision.allows, decision.arguments) == (arguments is not None, arguments)
    assert "release asks: What?" in shown[0]
    assert "  push (yes or no; [no]) " in shown or arguments is None


@pytest.mark.asyncio
async def test_a_turn_is_interrupted_from_elsewhere_and_the_conversation_goes_on(toolkit_home: Path) -> None:
    cli = FakeCLI(Turn([tool_use("mcp__n__release")]), [text("second")], strict=False)
    async with start("Release.", tools=[Toolbox("n", [release])], transport=cli, approve="wait") as live:
        await asked(live)

        def interrupt() -> None:
            with RunClient(toolkit_home / "runs" / live.id) as client:
                client.interrupt()

        await asyncio.to_thread(interrupt)
        first = await asyncio.wait_for(live.result(), 60)
        assert not first.ok
        again = await asyncio.wait_for(live.send("Go on."), 60)
    assert again.text == "second"
