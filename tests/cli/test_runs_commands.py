"""`toolkit runs`: what a person finds the next morning, and what becomes of it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli._command import TOOLKIT
from tests.cli._running import Desk
from toolkit.runs import load_run, run, start
from toolkit.testing import FakeCLI, Status, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


def work(arguments: dict[str, Any]) -> str:
    """What an agent's Bash would do."""
    with Path(arguments["description"]).open("a", encoding="utf-8") as file:
        file.write(arguments["command"] + "\n")
    return "done"


async def night(desk: Desk) -> None:
    """Three runs: one that changed a file, one that failed, one whose launcher was killed."""
    section = WorkspaceSection([HostMount(desk.src)], [desk.folder])
    section.prepare(parent=desk.folder)  # its place is known before the run, and it is left to the run
    section.release()
    app = str(section.temp_dir / "src" / "app.py")
    cli = FakeCLI(
        Turn(
            [text("Let me see."), tool_use("Bash", command="print('new')", description=app)],
            usage={"input_tokens": 1000, "output_tokens": 234},
        ),
        Turn([text("Better\x1b[2J now.")], usage={"input_tokens": 0, "output_tokens": 1}),
        tools={"Bash": work},
    )
    await run("Make it\nbetter.", workspace=section, transport=cli, run_id="run-aaa1", home=desk.home)
    await run("Fail.", transport=FakeCLI(Status(429)), run_id="run-aab2", home=desk.home)
    half = FakeCLI(Turn([text("half "), text("never")], stall_after=1), strict=False)
    async with start("Be killed.", transport=half, run_id="run-ccc3", home=desk.home) as live:
        async for event in live:
            if event.name == "assistant.block":
                break
        await live.interrupt()
        await live.result()
    make_crashed(load_run("run-ccc3", desk.home).folder)


def make_crashed(folder: Path) -> None:
    """What a kill leaves: no end in run.json, no result, the last event cut off."""
    facts = json.loads((folder / "run.json").read_bytes())
    del facts["ended"]
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "result.json").unlink()
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:30])


def test_the_list_says_unknown_where_nobody_knows_the_cost(desk: Desk) -> None:
    rows = {row.split()[0]: row for row in desk.toolkit("runs", "list").out.splitlines()}
    assert "unknown" in rows["run-ccc3"]
    assert "$0." in rows["run-aaa1"]
    listed = {row["run"]: row for row in json.loads(desk.toolkit("runs", "list", "--json").out)}
    assert (listed["run-ccc3"]["cost"], listed["run-ccc3"]["known_cost"]) == (None, 0.0)


def test_show_gives_the_cause_below_the_sentence_and_what_else_is_known(desk: Desk) -> None:
    lines = desk.toolkit("runs", "show", "run-aab2").out.splitlines()
    assert lines[1].startswith("throttled: ")
    assert "scripted error" in lines[2]
    assert "  api_status: 429" in lines[lines.index("Details:") :]
    killed = desk.toolkit("runs", "show", "run-ccc3").out
    assert "was killed" in killed
    assert "unknown cost" in killed


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    made = Desk(tmp_path_factory.mktemp("desk"))
    asyncio.run(night(made))
    return made


@pytest.fixture
def own(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    asyncio.run(night(made))
    return made


@contextmanager
def alive(desk: Desk, name: str) -> Iterator[None]:
    """As if the run's process lived: its lock is held."""
    lock = os.open(load_run(name, desk.home).folder / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def told(desk: Desk, *words: str) -> Any:
    done = desk.toolkit("runs", *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_list_says_how_each_run_ended_and_what_it_cost(desk: Desk) -> None:
    done = desk.toolkit("runs")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["RUN", "STATE", "BEGAN", "TOOK", "TOKENS", "COST", "SIZE", "PROMPT"]
    assert [line[:2] for line in lines[1:]] == [["run-ccc3", "crashed"], ["run-aab2", "throttled"], ["run-aaa1", "ok"]]
    assert "1,235" in lines[3]
    assert lines[3][-3:] == ["Make", "it", "better."]
    assert (done.code, done.err) == (0, "")
    assert desk.toolkit("runs", "list", "--limit", "1").err == "… and 2 older ones: --limit 3\n"


def test_the_list_as_json_has_the_facts(desk: Desk) -> None:
    listed = told(desk)
    assert [(row["run"], row["state"], row["code"]) for row in listed] == [
        ("run-ccc3", "crashed", "crashed"),
        ("run-aab2", "finished", "throttled"),
        ("run-aaa1", "finished", "ok"),
    ]
    assert (listed[2]["tokens"], listed[2]["prompt"]) == (1235, "Make it\nbetter.")


def test_a_live_run_is_shown_as_running(desk: Desk) -> None:
    with alive(desk, "run-ccc3"):
        assert told(desk, "list")[0]["state"] == "running"
        shown = desk.toolkit("runs", "show", "last").out
        refused = [desk.toolkit("runs", *words) for words in (["diff", "ccc"], ["remove", "ccc"])]
    assert "\nrunning\n" in shown
    assert "Follow: toolkit runs events run-ccc3 --follow" in shown
    assert [(done.code, "run run-ccc3 is still running" in done.err) for done in refused] == [(1, True), (1, True)]


def test_show_tells_the_whole_story(desk: Desk) -> None:
    shown = desk.toolkit("runs", "show", "aaa").out
    assert "ok: The run finished." in shown
    assert "2 model calls, 1 tool call, 1,235 tokens" in shown
    assert "Asked:\n  Make it\n  better.\n" in shown
    assert "Said:\n  Better\\x1b[2J now.\n" in shown
    assert "  ok      Bash" in shown
    assert "M  src/app.py  +1 −0" in shown
    assert "Take: toolkit runs apply run-aaa1" in shown


def test_show_of_a_crashed_run_has_what_it_said_so_far(desk: Desk) -> None:
    shown = desk.toolkit("runs", "show", "last").out
    assert "crashed: The agent's process ended before the run was done." in shown
    assert "Said:\n  half \n" in shown
    whole = told(desk, "show", "last")
    assert (whole["state"], whole["result"]["code"], whole["result"]["text"]) == ("crashed", "crashed", "half ")
    assert whole["facts"]["prompt"] == "Be killed."


def test_events_are_lines_for_people_and_json_for_programs(desk: Desk) -> None:
    plain = desk.toolkit("runs", "events", "aaa")
    assert "ok      Bash print('new')" in plain.out
    file = load_run("run-aaa1", desk.home).folder / "events.jsonl"
    printed = desk.toolkit("runs", "events", "aaa", "--json", "--follow").out
    assert [json.loads(line)["kind"] for line in printed.splitlines()] == [
        json.loads(line)["kind"] for line in file.read_bytes().splitlines()
    ]
    assert desk.toolkit("runs", "events", "last").err == "Its launcher was killed: that is all there is.\n"
    assert desk.toolkit("runs", "events", "aaa", "--json", closed_stdout=True).code == 0


def test_following_ends_when_the_run_ends(own: Desk) -> None:
    words = [str(TOOLKIT), "runs", "events", "last", "--follow", "--json"]
    with alive(own, "run-ccc3"):
        following = subprocess.Popen(
            words, env={"PATH": os.environ["PATH"], **own.env}, stdout=subprocess.PIPE, text=True
        )
        assert following.stdout is not None
        lines = iter(following.stdout)
        while json.loads(next(lines))["kind"] != "text":
            pass
        file = load_run("last", own.home).folder / "events.jsonl"
        end = file.read_bytes().rindex(b"\n") + 1
        os.truncate(file, end)
        with file.open("ab") as events:
            events.write(b'{"stream":"lifecycle","kind":"warning","t":1.0,"run":"r","id":"r","parent":null,')
            events.flush()
            events.write(b'"data":{"what":"written later"}}\n')
        assert any("written later" in line for line in lines)
        assert following.poll() is None
    with following:
        assert list(lines) == []
        assert following.wait(60) == 0


def test_a_diff_is_a_patch_that_git_takes(desk: Desk, tmp_path: Path) -> None:
    patch = desk.toolkit("runs", "diff", "aaa").out
    assert patch.startswith("diff --git a/src/app.py b/src/app.py\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("print('old')\n", encoding="utf-8")
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "src" / "app.py").read_text() == "print('old')\nprint('new')\n"
    assert desk.toolkit("runs", "diff", "aaa", "--stat").out.startswith("M  src/app.py  +1 −0\n")
    assert [change["path"] for change in told(desk, "diff", "aaa")] == ["src/app.py"]


def test_a_run_without_a_copy_says_so(desk: Desk) -> None:
    done = desk.toolkit("runs", "apply", "run-aab2")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("run run-aab2 worked on no copy, so there is nothing to compare or apply\n")


def test_applying_takes_what_was_chosen(own: Desk) -> None:
    missing = own.toolkit("runs", "apply", "aaa", "src/none.py")
    assert (missing.code, "src/none.py" in missing.err) == (2, True)
    assert told(own, "apply", "aaa", "--dry-run")["applied"] == [{"path": "src/app.py", "action": "replaced"}]
    assert (own.src / "app.py").read_text() == "print('old')\n"
    done = own.toolkit("runs", "apply", "aaa", "src/app.py", "--mount", "src")
    assert (done.code, done.out) == (0, "replaced  src/app.py\n")
    assert (own.src / "app.py").read_text() == "print('old')\nprint('new')\n"
    assert own.toolkit("runs", "apply", "aaa").err == "nothing to apply\n"
    assert own.toolkit("runs", "apply", "aaa", "--undo", "--dry-run").code == 2
    before = own.toolkit("runs", "apply", "aaa", "--undo")
    assert (before.code, before.out) == (0, "taken back: the host is as it was\n")
    assert (own.src / "app.py").read_text(encoding="utf-8") == "print('old')\n"


def test_a_conflict_is_told_and_touches_nothing(own: Desk) -> None:
    (own.src / "app.py").write_text("something else\n", encoding="utf-8")
    done = own.toolkit("runs", "apply", "aaa")
    assert (done.code, done.out) == (1, "")
    assert "src/app.py" in done.err
    assert (own.src / "app.py").read_text() == "something else\n"


def test_removing_by_name_and_by_age_leaves_the_others(own: Desk) -> None:
    facts = load_run("run-aaa1", own.home).folder / "run.json"
    facts.write_text(
        json.dumps({**json.loads(facts.read_bytes()), "ended": time.time() - 31 * 86400}), encoding="utf-8"
    )
    assert told(own, "remove", "--older-than", "30d") == {"removed": ["run-aaa1"]}
    assert own.toolkit("runs", "remove", "run-aab2", "aab").out == "removed run-aab2\n"
    assert own.toolkit("runs", "remove", "--older-than", "30d").err == "nothing to remove\n"
    assert [row["run"] for row in told(own)] == ["run-ccc3"]


@pytest.mark.parametrize(
    "words",
    [["remove"], ["remove", "x", "--older-than", "1d"], ["remove", "--older-than", "-1"], ["show"], ["lst"]],
    ids=" ".join,
)
def test_a_mistyped_command_ends_with_2(words: list[str], desk: Desk) -> None:
    assert desk.toolkit("runs", *words).code == 2


def test_what_does_not_exist_is_named(desk: Desk, tmp_path: Path) -> None:
    done = desk.toolkit("runs", "show", "zzz")
    assert (done.code, done.err.splitlines()[0]) == (2, "there is no run 'zzz'")
    ambiguous = desk.toolkit("runs", "show", "aa")
    assert (ambiguous.code, "'aa' is the beginning of 2 runs" in ambiguous.err) == (2, True)
    empty = Desk(tmp_path)
    assert (told(empty), empty.toolkit("runs").err) == (
        [],
        "There are no stored runs. To begin one: toolkit run PROMPT\n",
    )


def test_a_damaged_run_is_a_warning_in_the_list_and_can_be_removed(own: Desk) -> None:
    (load_run("run-aab2", own.home).folder / "run.json").write_text("{", encoding="utf-8")
    done = own.toolkit("runs")
    assert (done.code, [line.split()[0] for line in done.out.splitlines()]) == (0, ["RUN", "run-ccc3", "run-aaa1"])
    assert done.err.startswith("warning: a file of run run-aab2 cannot be read\n")
    assert own.toolkit("runs", "remove", "aab").out == "removed run-aab2\n"


def test_the_ids_of_runs_are_completed(desk: Desk) -> None:
    found = desk.toolkit(
        env={"_TOOLKIT_COMPLETE": "bash_complete", "COMP_WORDS": "toolkit runs show run-a", "COMP_CWORD": "3"}
    )
    assert [line.partition(",")[2] for line in found.out.splitlines()] == ["run-aaa1", "run-aab2"]
