"""Questions at the terminal: what is shown, and which key means what."""

from __future__ import annotations

import asyncio
import os
import shlex

import pytest

from toolkit.cli.terminal.display import Display
from toolkit.cli.terminal.following import TerminalApprover
from toolkit.cli.terminal.questions import about_to_happen
from toolkit.runs import Decision, Event, Question


class Person:
    """Reads what is asked on a terminal, and types an answer to each question."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown = ""
        self.lines: list[str] = []
        self._asked = asyncio.Event()
        monkeypatch.setattr("toolkit.cli.terminal.following._say", self._see)

    def _see(self, words: str) -> None:
        self.shown += words
        if words.startswith("Run it?"):
            self._asked.set()

    async def decide(self, command: str, *answers: str) -> Decision:
        """The decision these answers come to, each typed when the question stands there."""
        ours, theirs = os.openpty()
        display = Display(terminal=False, say=self.lines.append)
        question = Question("ask-1", "Bash", {"command": command}, "call", False, "it may change things", "Bash[x]")
        os.write(ours, b"y\n")  # typed before anything was asked
        try:
            asking = asyncio.create_task(TerminalApprover(theirs, display)(question))
            for answer in answers:
                await asyncio.wait_for(self._asked.wait(), 30)
                self._asked.clear()
                display.show(Event("lifecycle", "warning", 1.0, "run-1", "run-1", data={"what": "meanwhile"}))
                assert self.lines == []
                os.write(ours, answer.encode())
            return await asyncio.wait_for(asking, 30)
        finally:
            os.close(theirs)
            os.close(ours)


@pytest.fixture
async def person(monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(monkeypatch)


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        (["y\n"], "ALLOW_ONCE"),
        (["S\n"], "ALLOW_SESSION"),
        (["p\n"], "ALLOW_PROJECT"),
        (["a\n"], "ALLOW_ALWAYS"),
        (["n\n"], "DENY"),
        (["yes\n"], "ALLOW_ONCE"),
        (["Once\n"], "ALLOW_ONCE"),
        (["no\n"], "DENY"),
        (["session\n"], "ALLOW_SESSION"),
        (["project\n"], "ALLOW_PROJECT"),
        (["ALWAYS\n"], "ALLOW_ALWAYS"),
        (["yess\n", "yes\n"], "ALLOW_ONCE"),
        (["\n"], "DENY"),
        (["\x04"], "DENY"),
        (["what?\n", "y\n"], "ALLOW_ONCE"),
    ],
    ids=str,
)
async def test_a_key_is_a_decision_and_no_answer_is_a_refusal(answers: list[str], kind: str, person: Person) -> None:
    decision = await person.decide("ls", *answers)
    assert decision.kind == kind
    assert person.lines == ["warning: meanwhile\n"] * len(answers)


async def test_the_question_says_what_will_be_remembered(person: Person) -> None:
    await person.decide("make", "y\n")
    assert "to remember exactly this command: s = in this session, p = in this project, a = always" in person.shown


async def test_what_does_not_fit_is_said_and_shown_on_demand(person: Person) -> None:
    decision = await person.decide("\n".join(f"line {number}" for number in range(60)), "v\n", "y\n")
    assert decision.allows
    before, _, after = person.shown.partition("… 20 more lines: v shows all")
    assert ("line 39" in before, "line 40" in before, "line 59" in after) == (True, False, True)


@pytest.mark.parametrize(
    ("tool", "arguments", "lines"),
    [
        ("Bash", {"command": "a\x1b[2K\rb\u202e\nc"}, ["a\\x1b[2K\\x0db\\u202e", "c"]),
        ("Write", {"file_path": "f", "content": "x\ny"}, ["f", "+x", "+y"]),
        (
            "Edit",
            {"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": True},
            ["f (everywhere in it)", "@@ -1 +1 @@", "-a", "+b"],
        ),
        ("mcp__n__t", {"k": "v\n"}, ["{", ' "k": "v\\n"', "}"]),
    ],
)
def test_what_is_about_to_happen_is_shown_as_it_is(tool: str, arguments: dict[str, object], lines: list[str]) -> None:
    assert about_to_happen(tool, arguments) == lines


def test_a_call_is_told_by_its_first_text() -> None:
    said: list[str] = []
    display = Display(terminal=False, say=said.append)
    asked = {"name": "Edit", "arguments": {"replace_all": False, "file_path": "src/app.py"}}
    ended = {"name": "Edit", "ok": True, "denied": False, "interrupted": False, "ms": 3}
    display.show(Event("tool", "started", 0.0, "r", "call-1", None, asked))
    display.show(Event("tool", "ended", 0.0, "r", "call-1", None, ended))
    assert said[0].startswith("ok      Edit src/app.py ")


def test_a_question_for_somebody_elsewhere_says_what_it_is_about_and_what_to_type() -> None:
    said: list[str] = []
    display = Display(terminal=False, say=said.append)
    command = "\n".join(f"rm {number}" for number in range(30))
    question = Question("ask-1", "Bash", {"command": command}, "call", False, "it may change things", "Bash[x]")
    display.show(Event("approval", "asked", 1.0, "run-1", "ask-1", None, question.as_data()))
    assert said[:3] == ["ask-1  Bash  it may change things\n", "    rm 0\n", "    rm 1\n"]
    assert said[-5:-3] == ["    rm 19\n", "    … 10 more lines\n"]
    assert said[-3] == "    session, project and always remember exactly this command\n"
    typed = [shlex.split(line.partition(": ")[2], comments=True) for line in said[-2:]]
    assert typed == [["toolkit", "approvals", "answer", "run-1", "ask-1", choice] for choice in ("allow", "deny")]


def test_a_server_that_the_run_does_without_is_told_with_its_last_words() -> None:
    said: list[str] = []
    data = {"error": "Connection closed", "stderr": "one\ntwo\nthree\nno \x1b[31mdatabase\n"}
    Display(terminal=False, say=said.append).show(Event("server", "failed", 0.0, "r", "db", None, data))
    assert "".join(said).splitlines() == [
        "goes on without the server 'db', which did not start: Connection closed",
        "  two",
        "  three",
        "  no \\x1b[31mdatabase",
    ]
