"""`toolkit batch top` on a real terminal: what it shows, what keys do, and how it leaves the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batches._batches import began, ended, tasks, write_journal
from tests.cli._running import Desk, Terminal
from toolkit.cli.batches.live.columns import clipped, fitted, width_of
from toolkit.cli.batches.live.frame import age_text, dollars, plain_lines, short_count, table_lines
from toolkit.fleets.looking import BatchTable
from toolkit.runs.batches import Batch, Task

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \r\n\t <script>alert(1)</script>"
SECOND_SCREEN, FIRST_SCREEN, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"

LIVE = """
import asyncio, sys, threading
from toolkit.runs import RunSpec
from toolkit.runs.batches import find_batch, work_off
from toolkit.testing import FakeCLI, Turn, text
go_on = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), go_on.set()), daemon=True).start()
def make(task):
    return RunSpec(task.prompt, transport=FakeCLI(Turn([text("late")], hold=go_on), strict=False))
print("working", flush=True)
asyncio.run(work_off(find_batch("b"), make))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def batch(desk: Desk) -> Batch:
    """Three tasks: one done, one failed, one that waits."""
    made = Batch.begin("b", tasks(3), desk.home)
    now = time.time()
    write_journal(made, began("t0", at=now - 60, machine="worker-7"), ended("t0") | {"ended": now})
    write_journal(made, began("t1", at=now - 9), ended("t1", "unverified", cause="2 failed", cost=None))
    return made


@pytest.fixture
def at_work(desk: Desk, batch: Batch) -> Iterator[subprocess.Popen[str]]:
    """Somebody who works on the batch: its last task runs until it is let go on."""
    with subprocess.Popen(
        [sys.executable, "-c", LIVE], env={**os.environ, **desk.env}, stdin=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        yield process
        process.kill()


def test_the_table_shows_every_task_with_its_machine_and_cost(desk: Desk, batch: Batch) -> None:
    with desk.terminal("batch", "top", "b") as terminal:
        terminal.see(SECOND_SCREEN)
        terminal.see("2 of 3 tasks done")
        terminal.see("Nobody works on it")
        for word in ("machine", "turn", "tokens", "dollars", "age", "unverified", "$0.2500+", "waiting", "worker-7"):
            terminal.see(word)
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.shown.rstrip().endswith(FIRST_SCREEN)


@pytest.mark.parametrize(
    ("end", "code"),
    [("q", 0), ("\x03", 0), ("SIGTERM", 128 + signal.SIGTERM), ("damage", 1)],
    ids=["a key", "Ctrl-C", "a signal", "an error"],
)
def test_the_terminal_is_as_it_was_however_it_ends(desk: Desk, batch: Batch, end: str, code: int) -> None:
    with desk.terminal("batch", "top", "b") as terminal:
        terminal.see("2 of 3 tasks done")
        taken = terminal.modes
        if end == "SIGTERM":
            terminal.process.send_signal(signal.SIGTERM)
        elif end == "damage":
            (batch.folder / "journal.jsonl").write_text("nonsense\n", encoding="utf-8")
        else:
            terminal.type(end)
        assert terminal.end() == code
        assert terminal.modes != taken
        given_back = terminal.shown.rindex(FIRST_SCREEN)
        assert CURSOR in terminal.shown[given_back - 12 : given_back]
        if end == "damage":
            assert "is damaged" in terminal.shown[given_back:]


def test_a_pause_gives_the_terminal_back_and_going_on_takes_it_again(desk: Desk, batch: Batch) -> None:
    with desk.terminal("batch", "top", "b") as terminal:
        terminal.see("2 of 3 tasks done")
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.see(FIRST_SCREEN)  # a process without a shell above it is not stopped by the kernel, and goes on
        terminal.process.send_signal(signal.SIGCONT)
        terminal.see(SECOND_SCREEN)
        terminal.see("2 of 3 tasks done")
        terminal.type("q")
        assert terminal.end() == 0


def test_it_follows_the_size_of_the_window(desk: Desk, batch: Batch) -> None:
    with desk.terminal("batch", "top", "b") as terminal:
        terminal.see("machine")
        terminal.resize(44, 12)
        terminal.see("Nobody works on it. To go on: toolkit batch…")
        terminal.resize(20, 5)
        terminal.see("too small")
        terminal.type("q")
        assert terminal.end() == 0


def test_a_task_is_opened_and_done_again_by_keys(desk: Desk, batch: Batch) -> None:
    with desk.terminal("batch", "top", "b") as terminal:
        terminal.see("unverified")
        terminal.type("\r")
        terminal.see("t1: unverified")
        terminal.see("2 failed")
        terminal.type("r")
        terminal.see("Do 't1' again")
        terminal.type("n")
        terminal.see("nothing was done")
        assert not batch.standings()["t1"].is_open
        terminal.type("r")
        terminal.see("Do 't1' again")
        terminal.type("y")
        terminal.see("t1: waiting")
        terminal.see("--resume")
        terminal.type("\x1b")
        terminal.see("2 waiting")
        terminal.type("q")
        assert terminal.end() == 0
    assert batch.standings()["t1"].is_open


def test_a_running_task_is_interrupted_by_a_key_and_counted_once(
    desk: Desk, batch: Batch, at_work: subprocess.Popen[str]
) -> None:
    with desk.terminal("batch", "top", "b") as terminal:
        _see_running(terminal)
        terminal.type("i")
        terminal.see("End the run of 't2'?")
        terminal.type("y")
        at_work.wait(60)
        terminal.see("All tasks are done.")
        assert "was told to stop" in terminal.shown
        terminal.type("q")
        assert terminal.end() == 0
    standing = batch.standings()["t2"]
    assert (len(standing.runs), standing.is_open, standing.state != "ok") == (1, False, True)


def test_what_runs_elsewhere_is_not_interrupted_from_here(desk: Desk, batch: Batch) -> None:
    write_journal(batch, began("t2", machine="worker-9"))
    with desk.terminal("batch", "top", "b") as terminal:
        _see_running(terminal)
        terminal.type("iy")
        terminal.see("it runs on worker-9")
        terminal.type("q")
        assert terminal.end() == 0


def _see_running(terminal: Terminal) -> None:
    terminal.see("1 running")
    terminal.see("\x1b[7mrunning")


def test_nothing_that_a_task_says_steers_the_terminal(desk: Desk) -> None:
    batch = Batch.begin("b", [Task("t0", HOSTILE)], desk.home)
    write_journal(batch, began("t0", machine=HOSTILE), ended("t0", "api_error", cause=HOSTILE))
    with desk.terminal("batch", "top", "b") as terminal:
        terminal.see("api_error")
        terminal.type("\r")
        terminal.see("t0: api_error")
        terminal.see("<script>")
        terminal.type("q")
        assert terminal.end() == 0
        drawn = terminal.shown.replace("\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J", "", 1)
    assert "\x1b[2J" not in drawn
    assert "\x1b]" not in drawn
    assert "\u202e" not in drawn


def test_without_a_terminal_it_says_what_to_do_instead(desk: Desk, batch: Batch) -> None:
    done = desk.toolkit("batch", "top", "b")
    assert (done.code, done.out) == (2, "")
    assert "--once" in done.err
    assert "toolkit batch report b" in done.err
    assert desk.toolkit("batch", "top", "none").code == 2


def test_once_and_json_are_for_scripts(desk: Desk, batch: Batch) -> None:
    once = desk.toolkit("batch", "top", "b", "--once")
    assert (once.code, once.err) == (0, "")
    assert "\x1b" not in once.out
    assert [line.split()[0] for line in once.out.splitlines()[-3:]] == ["unverified", "waiting", "ok"]
    data = json.loads(desk.toolkit("batch", "top", "b", "--json").out)
    assert data["counts"] == {"running": 0, "waiting": 1, "ok": 1, "failed": 1}
    assert (data["cost"], data["known_cost"]) == (None, 0.5)
    assert data["tasks"][0]["machine"] == "worker-7"


def test_failed_tasks_are_opened_again_by_a_command_all_or_none(desk: Desk, batch: Batch) -> None:
    wrong = desk.toolkit("batch", "retry", "b", "t1", "t2")
    assert (wrong.code, "it is waiting" in wrong.err) == (1, True)
    assert not batch.standings()["t1"].is_open
    assert desk.toolkit("batch", "retry", "b").code == 2
    done = desk.toolkit("batch", "retry", "b", "--failed")
    assert (done.code, "open again: t1" in done.err, "--resume" in done.err) == (0, True, True)
    assert [standing.is_open for standing in batch.standings().values()] == [False, True, True]
    again = desk.toolkit("batch", "retry", "b", "t1")
    assert (again.code, "already" in again.err) == (0, True)


@pytest.mark.parametrize("width", [30, 44, 60, 80, 120, 200])
def test_every_line_fits_whatever_the_width(toolkit_home: Path, width: int) -> None:
    batch = Batch.begin("b", [Task("t" * 48, "日本語のテスト" * 40), Task("t1", "a\u0301" * 200)])
    write_journal(batch, began("t1", machine="m" * 300), ended("t1", "x" * 40, cost=12345.678, tokens=10**9))
    view = BatchTable(batch).look()
    lines = [*plain_lines(view, view.rows, width)]
    assert all(width_of(line) <= width for line in lines), lines
    assert len(table_lines(view, view.rows, None, width, 12, foot="f" * 300)) == 12


def test_words_are_short_and_unknown_is_not_zero() -> None:
    assert [short_count(count) for count in (0, 999, 1234, 99_500, 1_250_000)] == ["0", "999", "1.2k", "100k", "1.2M"]
    assert [dollars(None, 0.0), dollars(None, 0.5), dollars(0.0, 0.0)] == ["unknown", "$0.5000+", "$0.0000"]
    assert [age_text(seconds) for seconds in (5, 65, 3700, 400_000)] == ["5s", "1m05s", "1h01m", "4d"]
    assert (clipped("日本語", 4), fitted("日本語", 5), fitted("x", 3, right=True)) == ("日…", "日本…", "  x")


@pytest.mark.parametrize("words", [("show",), ("top",), ("report",), ("retry", "--failed"), ("run",)])
def test_a_batch_or_file_that_there_is_not_is_a_usage_error(desk: Desk, words: tuple[str, ...]) -> None:
    done = desk.toolkit("batch", *words, "nothing")
    assert done.code == 2, done.err
    assert "nothing" in done.err
