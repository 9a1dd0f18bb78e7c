"""Every command with stdin, stdout or stderr closed, or on a full disk: it does its work, or says what is wrong."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._command import TOOLKIT, write
from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
TOOLS = 'from toolkit import tool\n\n\n@tool\ndef hello() -> str:\n    """Greet."""\n    return "hi"\n'


def typed(line: str, desk: Desk) -> tuple[int, str, str]:
    """Type a line that begins with `toolkit`: exit code, stdout, stderr."""
    env = {"PATH": os.environ["PATH"], "HOME": str(desk.folder), "LANG": "C.UTF-8", **desk.env}
    words = ["sh", "-c", f'toolkit() {{ {shlex.quote(str(TOOLKIT))} "$@"; }}; {line}']
    done = subprocess.run(
        words, cwd=desk.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@needs_jail
@pytest.mark.parametrize(
    ("closed", "printed"), [("<&-", "Done.\n"), (">&-", ""), ("2>&-", "Done.\n"), ("<&- >&- 2>&-", "")]
)
def test_a_run_needs_no_open_handles(closed: str, printed: str, tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo hi")], [text("Done.")]))
    code, out, err = typed(f"toolkit run Go. {closed}", desk)
    assert (code, out) == (0, printed), err
    assert desk.last().result().ok


@needs_jail
def test_a_run_goes_on_where_there_is_no_room_for_its_progress(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("Bash", command="echo hi")], [text("Done.")]))
    assert typed("toolkit run Go. 2>/dev/full", desk) == (0, "Done.\n", "")
    assert desk.last().result().ok


@needs_jail
@pytest.mark.parametrize("form", ["", "--json"])
def test_a_result_that_cannot_be_written_is_said_and_kept(form: str, tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([text("Done.")]))
    code, _, err = typed(f"toolkit run Go. {form} >/dev/full", desk)
    assert code == 1
    assert "the result cannot be written\n  stdout: No space left on device\n" in err
    assert "Traceback" not in err
    assert desk.last().result().text == "Done."


@pytest.mark.parametrize("command", ["runs --json", "call tools.py hello", "inspect tools.py", "run --help"])
@pytest.mark.parametrize("buffered", ["", "PYTHONUNBUFFERED=1 "])
def test_a_command_that_finds_no_room_says_so(command: str, buffered: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    write(tmp_path, tools=TOOLS)
    code, _, err = typed(f"{buffered}toolkit {command} >/dev/full", desk)
    assert code == 1
    assert "No space left on device" in err
    assert "Traceback" not in err
