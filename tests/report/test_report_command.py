"""`toolkit report`, as a user types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli._command import TOOLKIT, toolkit
from tests.report._runs import write_run
from toolkit.runs import load_run
from toolkit.runs.storage import runs_home

LIVE = """
import sys, threading
from toolkit.runs import run_sync
from toolkit.testing import FakeCLI, Turn, text
go_on = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), go_on.set())).start()
run_sync("go", transport=FakeCLI(Turn([text("done")], hold=go_on)), run_id="run-live")
"""


def report(*arguments: str, cwd: Path, **more: str) -> tuple[int, str, str]:
    done = toolkit("report", *arguments, cwd=cwd, env={"TOOLKIT_HOME": os.environ["TOOLKIT_HOME"], **more})
    return done.code, done.out, done.err


def test_the_page_is_written_beside_the_run_and_its_path_printed(tmp_path: Path) -> None:
    stored = write_run([])
    assert report("last", cwd=tmp_path) == (0, f"<here>/toolkit-home/runs/{stored.id}/report.html\n", "")
    assert (stored.folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_page_goes_where_it_is_asked_to(tmp_path: Path) -> None:
    write_run([])
    assert report("run-w", "-o", "page.html", cwd=tmp_path) == (0, "<here>/page.html\n", "")
    code, out, _ = report("run-written", "-o", "-", cwd=tmp_path)
    assert (code, out.startswith("<!doctype html>"), out.rstrip().endswith("</html>")) == (0, True, True)


def test_open_hands_the_page_to_the_browser(tmp_path: Path) -> None:
    write_run([])
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/asked"\n', encoding="utf-8")
    browser.chmod(0o755)
    assert report("last", "--open", cwd=tmp_path, BROWSER=str(browser))[0] == 0
    assert (tmp_path / "asked").read_text(encoding="utf-8") == (load_run("last").folder / "report.html").as_uri()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no-such-run"], 2, "there is no run 'no-such-run'"),
        (["run-written", "-o", "missing/folder/page.html"], 1, "the report cannot be written"),
        (["run-written", "-o", "toolkit-home/runs/run-written/lock/page.html"], 1, "the report cannot be written"),
        (["run-written", "--live"], 1, "run run-written has ended"),
        (["run-written", "--live", "-o", "x"], 2, "--live writes no file"),
        (["run-written", "--port", "5"], 2, "--port is for --live"),
        (["run-written", "--open", "-o", "-"], 2, "--open needs a file"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    write_run([])
    ended, out, err = report(*arguments, cwd=tmp_path)
    assert (ended, out) == (code, "")
    assert said in err


@pytest.mark.parametrize("how", ["the run ends", "ctrl-c"])
def test_live_serves_until_the_run_ends_or_someone_stops_it(tmp_path: Path, how: str) -> None:
    env = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", LIVE], stdin=subprocess.PIPE, env=env, text=True) as agent:
        assert agent.stdin is not None
        _wait_for_run()
        command = [str(TOOLKIT), "report", "--live", "last"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True) as serving:
            assert serving.stdout is not None
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{30,}/\n", serving.stdout.readline())
            if how == "ctrl-c":
                serving.send_signal(signal.SIGINT)
            else:
                agent.stdin.write("go on\n")
                agent.stdin.flush()
            _, err = serving.communicate(timeout=30)
        if how == "ctrl-c":
            assert load_run("run-live").state == "running"
        agent.communicate("go on\n" if how == "ctrl-c" else None, timeout=30)
    assert serving.returncode == 0
    assert ("the run has ended; to keep its report: toolkit report run-live" in err) == (how == "the run ends")
    assert load_run("run-live").result().ok


def _wait_for_run() -> None:
    """Until the run of the other process has begun: its first event is there."""
    folder = runs_home()
    for _ in range(3000):
        found = folder / "run-live" / "events.jsonl"
        if found.exists() and found.stat().st_size:
            return
        time.sleep(0.01)
    pytest.fail("the run did not begin")
