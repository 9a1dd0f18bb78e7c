"""`toolkit runs rewind`: what a person types to try again from an earlier moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
pytestmark = needs_jail


def test_a_run_is_taken_back_and_gone_on_with_from_there(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api(
        [tool_use("Bash", command="echo one > app.py")],
        [text("first answer")],
        [tool_use("Bash", command="echo two > app.py; rm -rf .git")],
        [text("second answer")],
        [tool_use("Bash", command="cat app.py")],
        [text("third answer")],
    )
    desk = Desk(tmp_path, api)
    assert desk.toolkit("run", "ask one", "--mount", "src").code == 0
    first = desk.last().id
    assert desk.toolkit("run", "ask two", "--resume", "last").code == 0

    listed = desk.toolkit("runs", "rewind", "last")
    assert listed.out.splitlines()[0].split() == ["NUMBER", "TAKEN", "CHANGED", "WHAT"]
    assert listed.out.splitlines()[1].split()[0] == "1"
    assert "start of turn 1" in listed.out

    done = desk.toolkit("runs", "rewind", "last", "--to", "1")
    assert (done.code, "its conversation goes on from there" in done.out) == (0, True)
    assert f"Have back what was taken: toolkit runs rewind {desk.last().id} --to 2" in done.err
    again = desk.toolkit("run", "ask three", "--resume", "last")
    assert again.code == 0, again.err
    messages = json.dumps(api.requests[-1]["messages"])
    assert "first answer" in messages
    assert "ask two" not in messages
    assert "one\\\\n" in messages or '"one"' in messages
    shown = desk.toolkit("runs", "show", first, "--json")
    assert json.loads(shown.out)["run"] == first

    found = json.loads(desk.toolkit("runs", "rewind", first, "--json").out)
    assert [one["number"] for one in found] == [1]
    back = json.loads(desk.toolkit("runs", "rewind", first, "--to", "1", "--json").out)
    assert (back["to"]["number"], back["back"]["number"], back["is_beginning"]) == (1, 2, True)
    assert (desk.src / "app.py").read_text() == "print('old')\n"


def test_wrong_numbers_and_runs_without_a_copy_are_said(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([text("one")], [text("two")]))
    assert desk.toolkit("run", "ask one", "--mount", "src").code == 0
    past = desk.toolkit("runs", "rewind", "last", "--to", "0")
    assert (past.code, "there is nothing before its first" in past.err) == (2, True)
    assert "no checkpoint 7" in desk.toolkit("runs", "rewind", "last", "--to", "7").err
    assert desk.toolkit("runs", "rewind", "last", "--to", "x").code == 2
    assert "there is no run 'nothing'" in desk.toolkit("runs", "rewind", "nothing").err
    assert desk.toolkit("run", "ask two").code == 0
    assert "has no checkpoints" in desk.toolkit("runs", "rewind", "last").err
    assert "it worked on no copy" in desk.toolkit("runs", "rewind", "last", "--to", "1").err
