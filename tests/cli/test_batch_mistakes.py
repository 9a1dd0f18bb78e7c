"""What is wrong with a batch is said before there is one, and why a task failed stands below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk
from toolkit.testing import ScriptedAPI, Status, text, tool_use

Start = Callable[..., ScriptedAPI]
BREAKS_ITSELF = """
from pathlib import Path
from toolkit import tool

@tool
def break_it() -> str:
    Path(__file__).write_text("x = = 1")
    return "done"
"""


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


def test_a_task_is_its_prompt_also_where_that_is_the_name_of_a_file(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api(otherwise=[text("Done.")])
    desk = Desk(tmp_path, api)
    (tmp_path / "tasks.jsonl").write_text('"Say hi."\n"tasks.jsonl"\n"-"\n', encoding="utf-8")
    done = desk.toolkit("batch", "tasks.jsonl", stdin="never read")
    assert (done.code, "3 tasks: 3 ok" in done.out) == (0, True), done.err
    assert {request.prompt for request in api.requests} == {"Say hi.", "tasks.jsonl", "-"}


def test_a_later_task_that_no_run_takes_is_refused_before_the_first(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api(otherwise=[text("never")]))
    (tmp_path / "tasks.jsonl").write_text('"Say hi."\n{"id": "b", "prompt": "Go.", "model": "-x"}\n', encoding="utf-8")
    done = desk.toolkit("batch", "tasks.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "task 'b': model='-x': it is the name of a model, which does not begin with a dash" in done.err
    assert not (desk.home / "batches").exists()


def test_options_that_become_wrong_under_way_stop_the_batch_in_words(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("mcp__tools__break_it")], otherwise=[text("Done.")]))
    tools = tmp_path / "tools.py"
    tools.write_text(BREAKS_ITSELF, encoding="utf-8")
    (tmp_path / "tasks.jsonl").write_text('"One."\n"Two."\n', encoding="utf-8")
    done = desk.toolkit("batch", "tasks.jsonl", "--tools", "tools.py", "--parallel", "1")
    assert (done.code, "Traceback" in done.err) == (2, False), done.err
    assert "tools.py is not valid Python" in done.err
    assert "1 ok, 1 waiting" in desk.toolkit("batch", "show", "tasks").out


def test_a_batch_reads_its_project_file_once(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([tool_use("mcp__tools__break_it")], otherwise=[text("Done.")]))
    (tmp_path / "tools.py").write_text(
        BREAKS_ITSELF.replace("__file__", f'"{tmp_path}/toolkit.toml"'), encoding="utf-8"
    )
    (tmp_path / "toolkit.toml").write_text('tools = ["tools.py"]\n', encoding="utf-8")
    (tmp_path / "tasks.jsonl").write_text('"One."\n"Two."\n', encoding="utf-8")
    done = desk.toolkit("batch", "tasks.jsonl", "--parallel", "1", "--trust")
    assert (tmp_path / "toolkit.toml").read_text(encoding="utf-8") == "x = = 1"
    assert (done.code, "2 tasks: 2 ok" in done.out) == (0, True), done.err
    assert done.err.count("obeys toolkit.toml\n") == 1
