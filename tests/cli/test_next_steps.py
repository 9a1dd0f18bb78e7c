"""What a run suggests at its end can be typed as it stands, and what was named wrongly is a usage error."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk, project
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]


def suggested(told: str) -> dict[str, list[str]]:
    """The commands of a summary, by what they are for."""
    found = re.findall(r"^([A-Z][a-z ]+): (toolkit .*)$", told, re.MULTILINE)
    return {what: shlex.split(line)[1:] for what, line in found}


@needs_jail
def test_without_a_repository_no_branch_is_suggested_and_the_rest_works(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo 2 > app.py")], [text("done")]))
    steps = suggested(desk.toolkit("run", "Go.", "--mount", "src").err)
    assert list(steps) == ["Look", "Take"]
    assert [desk.toolkit(*words).code for words in steps.values()] == [0, 0]


@needs_jail
def test_in_a_repository_each_suggested_command_works(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo 2 > app.py")], [text("done")]))
    project(desk)
    steps = suggested(desk.toolkit("run", "Go.", "--mount", "src").err)
    assert list(steps) == ["Look", "Take", "Or as a branch"]
    for what in ("Look", "Or as a branch", "Take"):
        done = desk.toolkit(*steps[what])
        assert done.code == 0, done.err


@needs_jail
def test_a_run_that_made_its_branch_suggests_no_second_one(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo 2 > app.py")], [text("done")]))
    project(desk)
    done = desk.toolkit("run", "Go.", "--mount", "src", "--branch", "agent/x")
    assert "agent/x  1 commit" in done.err
    assert list(suggested(done.err)) == ["Look", "Take"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run x --mount src --branch b", "no mount lies in a git repository"),
        ("run x --mount src --at /", "--at / is where everything of the jail itself is"),
        ("runs show nothing", "there is no run 'nothing'"),
        ("runs apply nothing", "there is no run 'nothing'"),
        ("runs stop nothing", "there is no run 'nothing'"),
        ("runs branch nothing", "there is no run 'nothing'"),
        ("approvals answer nothing ask-1 allow", "there is no run 'nothing'"),
        ("report nothing", "there is no run 'nothing'"),
        ("setups show nothing", "there is no layer 'nothing'"),
        ("sandbox exec --readable /proc/nowhere -- true", "'/proc/nowhere' does not exist"),
    ],
)
def test_what_was_named_wrongly_is_a_usage_error(words: str, told: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    env = {"ANTHROPIC_API_KEY": "not-a-key", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    done = desk.toolkit(*words.split(), env=env)
    assert (done.code, done.out) == (2, ""), done.err
    assert told in done.err
