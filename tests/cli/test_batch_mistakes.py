"""What is wrong with a batch is said before there is one, and why a task failed stands below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk
from toolkit.testing import ScriptedAPI, Status, text

Start = Callable[..., ScriptedAPI]


@pytest.mark.parametrize("place", [(), ("--cluster", "tcp://127.0.0.1:1")])
def test_a_policy_for_no_tool_is_a_usage_error_before_any_task(
    tmp_path: Path, scripted_api: Start, place: tuple[str, ...]
) -> None:
    desk = Desk(tmp_path, scripted_api(otherwise=[text("never")]))
    (tmp_path / "tasks.jsonl").write_text('"Say hi."\n', encoding="utf-8")
    done = desk.toolkit("batch", "tasks.jsonl", "--policy", "Bsh=deny", *place)
    assert (done.code, done.out) == (2, "")
    assert "no tool of this run is called 'Bsh'; did you mean 'Bash'?" in done.err
    assert not (desk.home / "batches").exists()


def test_why_a_task_failed_stands_below_it(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api(Status(404)))
    (tmp_path / "tasks.jsonl").write_text('"Say hi."\n', encoding="utf-8")
    done = desk.toolkit("batch", "tasks.jsonl", "--model", "claude-nope")
    why = "  There's an issue with the selected model (claude-nope)."
    assert (done.code, why in done.err) == (1, True)
    assert why in desk.toolkit("batch", "show", "tasks").out
