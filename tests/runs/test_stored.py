"""Runs read again: found, followed, rebuilt after a kill, applied from elsewhere, and removed."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolkit import Toolbox, tool
from toolkit.cli.terminal.display import summary
from toolkit.errors import RunError, WorkspaceError, WorkspaceSecurityError
from toolkit.runs import Event, InPlace, RunResult, StoredRun, list_runs, load_run, remove_older_than, run, start
from toolkit.runs.storage import EventLog
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

ROOT = Path(__file__).parents[2]
STALLED = Turn([text("so far"), text("never")], stall_after=1)


async def finished(run_id: str, *words: str) -> RunResult[Any]:
    return await run("Say it.", transport=FakeCLI(*([text(word)] for word in words or ("done",))), run_id=run_id)


def edit(file: Path, change: Any) -> None:
    data = json.loads(file.read_bytes())
    file.write_text(json.dumps(change(data) or data), encoding="utf-8")


def forget_the_end(stored: StoredRun) -> None:
    """Make it look as if the launcher was killed after its last event."""
    edit(stored.folder / "run.json", lambda facts: facts.pop("ended") and None)


@pytest.fixture
def section(tmp_path: Path) -> WorkspaceSection:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("old\n", encoding="utf-8")
    return WorkspaceSection([HostMount(tmp_path / "src")], [tmp_path])


async def edited(section: WorkspaceSection, run_id: str, **options: Any) -> RunResult[Any]:
    """A run that changes a file of its workspace."""

    def work(arguments: dict[str, Any]) -> str:
        with (section.temp_dir / "src" / "app.py").open("a", encoding="utf-8") as file:
            file.write(f"{arguments['command']}\n")
        return "done"

    cli = FakeCLI([tool_use("Bash", command=run_id)], [text("done")], tools={"Bash": work})
    return await run("Edit.", workspace=section, transport=cli, run_id=run_id, **options)


# -- finding --------------------------------------------------------------------------


async def test_a_stored_run_is_what_the_run_gave() -> None:
    result = await finished("run-1")
    stored = load_run("run-1")
    assert (stored.state, stored.facts["prompt"], stored.result()) == (
        "finished",
        "Say it.",
        replace(result, changes=None),
    )
    assert [event.name for event in stored.events()][-1] == "lifecycle.finished"
    assert [event.name for event in stored.follow()] == [event.name for event in stored.events()]


async def test_runs_are_listed_latest_first_and_found_by_the_beginning_of_their_id() -> None:
    for name in ("run-abc", "run-abd", "other"):
        await finished(name)
    assert [stored.id for stored in list_runs()] == ["other", "run-abd", "run-abc"]
    found = {name: load_run(name).id for name in ("run-abc", "abd", "run-abd", "oth", "last")}
    assert found == {"run-abc": "run-abc", "abd": "run-abd", "run-abd": "run-abd", "oth": "other", "last": "other"}
    with pytest.raises(RunError, match="'ab' is the beginning of 2 runs"):
        load_run("ab")
    for name in ("nothing", "", "../runs/other"):
        with pytest.raises(RunError, match="there is no run"):
            load_run(name)


def test_where_nothing_is_stored_there_is_nothing() -> None:
    assert list_runs() == []
    assert remove_older_than(0) == []
    with pytest.raises(RunError, match="there are no runs"):
        load_run("last")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "last", "x" * 101])
async def test_an_id_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(RunError, match="cannot be the id of a run"):
        await finished(name)
    assert list_runs() == []


async def test_an_id_is_used_once(toolkit_home: Path) -> None:
    await finished("run-1")
    with pytest.raises(RunError, match="there is a run 'run-1' already"):
        await finished("run-1")
    assert [entry.name for entry in (toolkit_home / "runs").iterdir()] == ["run-1"]


# -- running, finished, crashed -------------------------------------------------------


async def test_a_run_lives_as_long_as_its_lock_is_held_whatever_its_pid_says() -> None:
    async with start("go", transport=FakeCLI(STALLED), run_id="run-1") as live:
        stored = load_run("run-1")
        edit(stored.folder / "run.json", lambda facts: facts.update(pid=2**22 + 1))
        assert stored.state == "running"
        for refused in (stored.result, stored.changes, stored.remove, stored.drop_workspace):
            with pytest.raises(RunError, match="run-1 is still running"):
                refused()
        assert remove_older_than(0) == []
        await live.interrupt()
        await live.result()
        assert stored.state == "running", "another turn may come"
    assert (stored.state, stored.result().code) == ("finished", "aborted")


async def test_a_live_run_is_followed_from_elsewhere_to_its_end() -> None:
    async with start("go", transport=FakeCLI(STALLED), run_id="run-1") as live:
        stored = load_run("run-1")
        heard: list[str] = []

        async def follow() -> None:
            async for event in stored.follow():
                heard.append(event.name)
                if event.name == "assistant.block":
                    await live.interrupt()

        following = asyncio.create_task(follow())
        in_a_thread = asyncio.create_task(asyncio.to_thread(lambda: [event.name for event in stored.follow()]))
        await asyncio.wait_for(live.result(), 60)
    await asyncio.wait_for(following, 60)
    assert heard == await asyncio.wait_for(in_a_thread, 60) == [event.name for event in stored.events()]
    assert heard[-1] == "lifecycle.finished"


def test_a_launcher_killed_after_any_event_has_crashed_and_lost_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.runs.killed_launcher", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) > 12
    for one in told:
        assert not one["lost"]
        assert (one["state"], one["code"], one["calls"]) == ("crashed", "crashed", True)
        assert one["tools"] == one["started"], "every tool that started is told, and closed"
        assert one["said"].endswith(one["text"])
        assert one["cost"] is None, "nobody knows what it cost"
        assert "was killed" in one["cause"]
    assert (told[-1]["text"], told[-1]["input"], told[-1]["tools"]) == ("four five six", 7, ["mcp__notes__add"])


async def test_a_crash_in_a_later_turn_tells_of_all_turns() -> None:
    cli = FakeCLI(
        Turn([text("first")], usage={"input_tokens": 10}), Turn([text("second")], chunk=3, usage={"input_tokens": 20})
    )
    async with start("one", transport=cli, run_id="run-1") as live:
        first = await live.result()
        await live.send("two")
    stored = load_run("run-1")
    forget_the_end(stored)
    assert stored.state == "finished", "its last turn had ended"
    lines = (stored.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if b'"text":"ond"' in line)
    (stored.folder / "events.jsonl").write_bytes(b"".join(lines[:cut]) + lines[cut][:20])

    result = stored.result()
    assert (stored.state, result.code, result.text) == ("crashed", "crashed", "sec")
    assert (result.cost, result.known_cost) == (None, first.cost), "the first turn's cost is known"
    assert (result.calls, result.total.input, result.debug) == (
        first.calls,
        10,
        {"calls_without_usage": [cli_id(lines[cut])]},
    )


def cli_id(line: bytes) -> str:
    return Event.from_json(line).id


async def test_a_kill_between_the_last_event_and_the_result_loses_neither() -> None:
    result = await finished("run-1")
    stored = load_run("run-1")
    forget_the_end(stored)
    (stored.folder / "result.json").unlink()
    again = stored.result()
    assert (stored.state, again.code, again.text, again.calls) == ("finished", "ok", "done", result.calls)


async def test_a_run_killed_before_its_first_event_has_crashed_with_nothing() -> None:
    await finished("run-1")
    stored = load_run("run-1")
    forget_the_end(stored)
    for name in ("result.json", "events.jsonl"):
        (stored.folder / name).unlink()
    assert (stored.state, stored.result().code, stored.result().text, list(stored.events())) == (
        "crashed",
        "crashed",
        "",
        [],
    )


# -- damage ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b'{"stream":"lifecy', b"\x00\x00\x00\n", b'{"no":"event"}\n'])
async def test_a_damaged_last_line_is_left_out(end: bytes) -> None:
    await finished("run-1")
    stored = load_run("run-1")
    before = list(stored.events())
    with (stored.folder / "events.jsonl").open("ab") as file:
        file.write(end)
    assert list(stored.events()) == before
    assert stored.state == "finished"


async def test_any_other_damage_is_an_error_that_names_file_and_line() -> None:
    await finished("run-1")
    stored = load_run("run-1")
    file = stored.folder / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"{broken}\n", *lines[2:]]))
    with pytest.raises(RunError) as caught:
        list(stored.events())
    assert caught.value.where == (f"{file}:3",)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "run": "run-1"}', '{"run": "run-1"}'])
async def test_a_run_that_cannot_be_read_is_named_and_the_others_are_listed(text: str) -> None:
    await finished("run-1")
    await finished("run-2")
    damaged = load_run("run-1").folder / "run.json"
    damaged.write_text(text, encoding="utf-8")
    with pytest.raises(RunError) as caught:
        load_run("run-1")
    assert str(damaged) in str(caught.value)
    said: list[RunError] = []
    assert [stored.id for stored in list_runs(on_damaged=said.append)] == ["run-2"]
    assert [str(error) for error in said] == [str(caught.value)]


async def test_a_newer_format_is_refused_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    await finished("run-1")
    stored = load_run("run-1")
    edit(stored.folder / "run.json", lambda facts: facts.update(format=99))
    with pytest.raises(RunError) as caught:
        load_run("run-1")
    assert str(caught.value) == (
        "run run-1 was stored in format 99; this version reads 1\n"
        f"  {stored.folder / 'run.json'}\n"
        "  Update the toolkit to look at it"
    )
    with caplog.at_level(logging.WARNING):
        assert list_runs() == []
    assert "format 99" in caplog.text


def test_an_event_that_does_not_fit_on_the_disk_leaves_the_file_whole(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append(Event("assistant", "text", 1.0, "run-1", "m", data={"text": "fits"}))
    whole = log.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append(Event("assistant", "text", 2.0, "run-1", "m", data={"text": "does not fit"}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.path.read_bytes() == whole
    log.append(Event("assistant", "text", 3.0, "run-1", "m", data={"text": "half a pair: \ud83d"}))
    log.close()
    assert [json.loads(line)["t"] for line in log.path.read_bytes().splitlines()] == [1.0, 3.0]


async def test_pieces_that_did_not_fit_when_nobody_looked_are_told_by_the_next_event(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        log.append(Event("assistant", "text", 1.0, "run-1", "m", data={"text": "a piece"}))
        log._write_pieces()  # what its timer does
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.append(Event("assistant", "block", 2.0, "run-1", "m", data={"text": "a piece"}))
    log.close()
    assert [json.loads(line)["t"] for line in log.path.read_bytes().splitlines()] == [1.0, 2.0]


async def test_a_full_disk_ends_a_run_with_its_result(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        talk = FakeCLI(Turn([text("many words " * 100)], chunk=5), strict=False)
        result = await asyncio.wait_for(run("go", transport=talk, run_id="run-1"), 60)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (result.ok, result.code) == (False, "internal")
    assert result.text.startswith("many words ")
    assert next(load_run("run-1").events()).name == "lifecycle.started"


async def test_a_result_that_cannot_be_stored_is_given_and_says_so_in_words(
    caplog: pytest.LogCaptureFixture, toolkit_home: Path
) -> None:
    folder = toolkit_home / "runs" / "run-1"

    def occupy(arguments: dict[str, Any]) -> str:
        (folder / "result.json").mkdir()
        return "done"

    talk = FakeCLI([tool_use("Bash", command="x")], [text("All done.")], tools={"Bash": occupy})
    result = await asyncio.wait_for(run("go", transport=talk, run_id="run-1"), 60)
    assert (result.code, result.text) == ("ok", "All done.")
    lines = (result.unstored or "").splitlines()
    assert lines[0].startswith("the end of the run cannot be stored: ")
    assert lines[1].startswith(f"  {folder} (")
    assert lines[1].endswith(" free)")
    assert lines[2] == "  Make room there, or set TOOLKIT_HOME to a folder of yours"
    assert "warning: " + lines[0] in summary(result)
    assert caplog.text == ""


async def test_wherever_the_disk_is_full_a_run_that_is_followed_comes_to_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    stored = []
    for most in range(600, 6000, 200):
        talk = FakeCLI(Turn([text("many words " * 20)], chunk=50), strict=False)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            async with asyncio.timeout(60), start("go", transport=talk, run_id=f"run-{most}") as live:
                async for _ in live:
                    pass
                result = await live.result()
            result = await live.result()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        stored.append(result.unstored is None)
        assert result.ok or "File too large" in f"{result.cause}"
    assert set(stored) == {False, True}
    assert stored == sorted(stored)
    assert caplog.text == ""


# -- the workspace --------------------------------------------------------------------


async def test_changes_are_applied_from_elsewhere_while_the_section_goes_on_working(
    section: WorkspaceSection, tmp_path: Path
) -> None:
    result = await edited(section, "run-1")
    stored = load_run("run-1")
    assert result.changes is not None
    assert section.temp_dir.parent == stored.folder
    assert [change.path for change in stored.changes()] == ["src/app.py"]
    assert stored.diff() == result.changes.patch()
    assert stored.apply(dry_run=True).dry_run
    assert (tmp_path / "src" / "app.py").read_text() == "old\n"
    assert [(one.path, one.action) for one in stored.apply().changes] == [("src/app.py", "replaced")]
    assert (tmp_path / "src" / "app.py").read_text() == "old\nrun-1\n"

    assert list(section.changes()) == []
    (section.temp_dir / "src" / "more.py").write_text("more\n", encoding="utf-8")
    assert [one.path for one in section.apply().changes] == ["src/more.py"]
    assert stored.changed_files() == result.changes.to_json()


async def test_a_section_can_be_used_by_one_run_after_the_other(section: WorkspaceSection) -> None:
    await edited(section, "run-1")
    await edited(section, "run-2")
    assert load_run("run-2").diff().count(b"\n+run-") == 2
    async with start("go", workspace=section, transport=FakeCLI(STALLED), run_id="run-3") as live:
        async for event in live:
            if event.name == "assistant.block":
                break
        with pytest.raises(RunError, match="the workspace of run run-1 is in use"):
            load_run("run-1").remove()
        await live.interrupt()
        await live.result()
    load_run("run-3").remove()
    assert section.temp_dir.is_dir(), "it is the first run's"


async def test_a_section_that_is_in_somebodys_hands_stays_there(section: WorkspaceSection) -> None:
    with section:
        await edited(section, "run-1")
        assert section.is_held
        with pytest.raises(WorkspaceError, match="is in use"):
            load_run("run-1").changes()
    assert not load_run("run-1").drop_workspace()


async def test_a_run_without_a_copy_has_nothing_to_apply(tmp_path: Path) -> None:
    await finished("run-1")
    await run("go", workspace=InPlace(tmp_path), transport=FakeCLI([text("x")]), run_id="run-2")
    for name in ("run-1", "run-2"):
        with pytest.raises(RunError, match="worked on no copy"):
            load_run(name).apply()
    assert load_run("run-1").drop_workspace()
    assert not load_run("run-2").drop_workspace(), "it is the caller's"


async def test_a_mount_that_is_not_allowed_is_raised_and_stored(tmp_path: Path) -> None:
    section = WorkspaceSection([HostMount("/etc/hosts")], [tmp_path])
    with pytest.raises(WorkspaceSecurityError):
        await run("go", workspace=section, transport=FakeCLI([text("never")], strict=False), run_id="run-1")
    stored = load_run("run-1")
    assert (stored.state, stored.result().code) == ("finished", "bad_request")
    with pytest.raises(RunError, match="ended before its workspace was ready"):
        stored.changes()


async def test_a_cancelled_run_keeps_its_words_and_closes_its_tools() -> None:
    @tool
    async def hang() -> str:
        await asyncio.sleep(60)
        return "never"

    cli = FakeCLI([text("half"), tool_use("mcp__slow__hang")], strict=False)
    box = Toolbox("slow", [hang])

    async def until_a_tool_starts() -> None:
        async with start("go", tools=[box], transport=cli, run_id="run-1") as live:
            async for event in live:
                if event.name == "tool.started":
                    raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await until_a_tool_starts()
    result = load_run("run-1").result()
    assert (result.code, result.text, [use.ok for use in result.tools]) == ("aborted", "half", [False])
    assert [event.name for event in load_run("run-1").events()][-2:] == ["tool.ended", "lifecycle.finished"]


async def test_a_workspace_that_cannot_be_read_costs_nobody_the_result(section: WorkspaceSection) -> None:
    def replace_it(arguments: dict[str, Any]) -> str:
        section.temp_dir.rename(section.temp_dir.with_name("elsewhere"))
        section.temp_dir.mkdir()
        return "done"

    cli = FakeCLI([tool_use("Bash", command="x")], [text("said")], tools={"Bash": replace_it})
    result = await run("go", workspace=section, transport=cli, run_id="run-1")
    assert (result.code, result.text, result.changes) == ("ok", "said", None)
    warned = [event.data["what"] for event in load_run("run-1").events() if event.name == "lifecycle.warning"]
    assert warned == ["the changes cannot be told: the workspace folder was replaced by another one"]


# -- removing -------------------------------------------------------------------------


async def test_removing_takes_the_workspace_along_whatever_the_agent_made_of_it(
    section: WorkspaceSection, toolkit_home: Path
) -> None:
    await edited(section, "run-1")
    locked = section.temp_dir / "src" / "locked"
    locked.mkdir()
    (locked / "file").write_text("x", encoding="utf-8")
    locked.chmod(0)
    load_run("run-1").remove()
    assert list((toolkit_home / "runs").iterdir()) == []


async def test_a_dropped_workspace_leaves_the_rest(section: WorkspaceSection) -> None:
    await edited(section, "run-1")
    stored = load_run("run-1")
    assert stored.drop_workspace()
    assert not stored.drop_workspace()
    assert sorted(entry.name for entry in stored.folder.iterdir()) == [
        "events.jsonl",
        "lock",
        "result.json",
        "run.json",
    ]
    assert stored.result().ok
    assert [change["path"] for change in stored.changed_files() or ()] == ["src/app.py"]
    with pytest.raises(RunError, match="the workspace of run run-1 was removed"):
        stored.changes()


async def test_old_runs_are_removed_by_when_they_ended(toolkit_home: Path) -> None:
    for name in ("old", "fresh", "damaged"):
        await finished(name)
    edit(load_run("old").folder / "run.json", lambda facts: facts.update(ended=time.time() - 100))
    (load_run("damaged").folder / "run.json").write_text("{", encoding="utf-8")
    assert remove_older_than(50) == ["old"]
    assert sorted(remove_older_than(0)) == ["damaged", "fresh"]
    assert list((toolkit_home / "runs").iterdir()) == []
