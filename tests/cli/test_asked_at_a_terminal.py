"""Whoever sits at the terminal is asked, also in a run that was not said to ask anything."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk
from tests.runs.test_servers import CHANGING, SERVER
from toolkit.cli.terminal.display import Display
from toolkit.runs import Event
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
ASKS = """
from toolkit import ToolContext, tool


@tool
async def colour(ctx: ToolContext) -> str:
    \"\"\"Ask for a colour.\"\"\"
    return f"it is {await ctx.ask('Which colour?', str)}"
"""


def test_a_tool_that_a_server_brings_in_mid_run_is_a_question(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, api := scripted_api(*CHANGING))
    server = tmp_path / "server.py"
    server.write_text(SERVER, encoding="utf-8")
    words = ["--server", f"s=/usr/bin/python3 {server} changes", "--readable", str(server)]
    with desk.terminal("run", "go", *words) as terminal:
        terminal.see("mcp__s__second (the server 's' did not have it when the run began)")
        terminal.see("[n] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert api.tool_results() == ["first ran", "second ran"]


def test_a_tool_that_asks_by_itself_is_answered(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, api := scripted_api([tool_use("mcp__tools__colour")], [text("done")]))
    (tmp_path / "tools.py").write_text(ASKS, encoding="utf-8")
    with desk.terminal("run", "go", "--tools", "tools.py") as terminal:
        terminal.see("Which colour?")
        terminal.see("answer (a text) ")
        terminal.type("blue\n")
        assert terminal.end() == 0
    assert api.tool_results() == ["it is blue"]


BACKGROUND = """
import os
import sys

if os.fork():
    os.wait()
else:
    os.setpgid(0, 0)  # as a shell does for a job behind &
    from toolkit.cli.starting.running import _person_for
    from toolkit.runs import RunSpec

    print("nobody" if _person_for(RunSpec("go", mode=sys.argv[1])) is None else "asked")
"""


@pytest.mark.parametrize(("mode", "who"), [("yolo", "nobody\n"), ("normal", "asked\n")])
def test_a_job_in_the_background_is_stopped_by_no_question_that_nobody_announced(mode: str, who: str) -> None:
    keyboard, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", BACKGROUND, mode],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert (done.stdout, done.stderr) == (who, "")


@pytest.mark.parametrize(
    ("how", "mark"),
    [({"denied": True}, "refused"), ({"interrupted": True}, "stopped"), ({"deferred": True}, "waits"), ({}, "failed")],
    ids=str,
)
def test_the_line_of_a_call_says_why_it_did_not_end_well(how: dict[str, bool], mark: str) -> None:
    said: list[str] = []
    data = {"name": "Bash", "ok": False, "ms": 3, "denied": False, "interrupted": False, **how}
    Display(terminal=False, say=said.append).show(Event("tool", "ended", 1.0, "run-1", "call-1", data=data))
    assert said[0].split()[:2] == [mark, "Bash"]
