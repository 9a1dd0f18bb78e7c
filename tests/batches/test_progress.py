"""What `toolkit batch` says while it works, from the first second: drawn on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, Turn, text

HOSTILE = "Task 1 \x1b[2J\x1b]0;owned\x07"


def write_tasks(folder: Path, *prompts: str) -> None:
    lines = [json.dumps({"id": f"t{number}", "prompt": prompt}) for number, prompt in enumerate(prompts)]
    (folder / "jobs.jsonl").write_text("\n".join(lines), encoding="utf-8")


@needs_jail
def test_a_terminal_shows_what_runs_until_it_has_ended(tmp_path: Path) -> None:
    hold = threading.Event()
    write_tasks(tmp_path, "Task 0", HOSTILE)
    late = Turn([text("late")], when=lambda request: request.contains("Task 1"), hold=hold)
    with ScriptedAPI(late, otherwise=lambda request: [text("Done.")], strict=False) as api:
        desk = Desk(tmp_path, api)
        with desk.terminal("batch", "jobs.jsonl", "--parallel", "2") as terminal:
            terminal.see("jobs: 2 tasks, 2 at a time")
            terminal.see("toolkit batch top jobs")
            terminal.see("0 of 2 done")
            terminal.see("ok         t0")
            terminal.see("1 of 2 done, 1 running")
            terminal.see("Task 1")
            terminal.see("tokens")
            hold.set()
            terminal.see("ok         t1")
            terminal.see("jobs: 2 tasks: 2 ok")
            assert terminal.end() == 0
            assert "\x1b[2J" not in terminal.shown
            assert "\x1b]" not in terminal.shown
            assert "\x1b[?7h" in terminal.shown[terminal.shown.rindex("\x1b[?7l") :]


@pytest.mark.parametrize(
    "words", [["--max-usd", "-1"], ["--max-usd", "nan"], ["--max-usd", "0"], ["--max-tokens", "0"], ["--parallel", "0"]]
)
def test_a_limit_that_cannot_be_is_refused_before_there_is_a_batch(tmp_path: Path, words: list[str]) -> None:
    write_tasks(tmp_path, "Task 0")
    desk = Desk(tmp_path)
    done = desk.toolkit("batch", "jobs.jsonl", *words, env={"ANTHROPIC_API_KEY": "fake-key"})
    assert (done.code, words[0] in done.err) == (2, True)
    assert not (desk.home / "batches").exists()


@needs_jail
def test_elsewhere_there_are_plain_lines_and_a_second_time_it_says_what_is_done(tmp_path: Path) -> None:
    write_tasks(tmp_path, "Task 0", "Task 1")
    with ScriptedAPI(otherwise=lambda request: [text("Done.")], strict=False) as api:
        desk = Desk(tmp_path, api)
        done = desk.toolkit("batch", "jobs.jsonl")
        again = desk.toolkit("batch", "jobs.jsonl", "--resume")
    assert done.code == 0, done.err
    assert "\x1b" not in done.err + done.out
    assert done.err.splitlines()[0] == "jobs: 2 tasks, 4 at a time"
    assert sorted(line.split()[:2] for line in done.err.splitlines()[2:]) == [["ok", "t0"], ["ok", "t1"]]
    assert again.err.splitlines()[0] == "jobs: 2 tasks, 2 done already, 4 at a time"
    assert done.out.startswith("jobs: 2 tasks: 2 ok")
