"""`toolkit run` as a user has it: the real CLI in its jail, a scripted model, pipes and terminals."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli._running import Desk, children_of, wait_until_gone
from tests.real.toolset import PIXEL
from toolkit.cli import toolkit
from toolkit.runs import Event, RunResult, list_runs
from toolkit.testing import ScriptedAPI, Status, Turn, text, tool_use

Start = Callable[..., ScriptedAPI]
NOTES = '''
print("loaded: this is no result")
from toolkit import tool

@tool
def note(title: str) -> str:
    """Keep a note."""
    print("called: neither is this")
    return f"kept {title}"
'''


def test_a_run_prints_the_answer_and_the_command_that_takes_its_changes_back(
    tmp_path: Path, scripted_api: Start
) -> None:
    api = scripted_api(
        [text("I will."), tool_use("Bash", command="echo \"print('new')\" > app.py")],
        [tool_use("mcp__notes__note", title="x")],
        [text("All done.")],
    )
    desk = Desk(tmp_path, api)
    (tmp_path / "notes.py").write_text(NOTES, encoding="utf-8")
    done = desk.toolkit("run", "Improve it.", "--mount", "src", "--tools", "notes.py")

    assert (done.code, done.out) == (0, "All done.\n")
    assert "\x1b" not in done.err
    assert "ok      Bash echo" in done.err
    assert "called: neither is this" in done.err
    assert "ok: The run finished." in done.err
    assert "3 model calls, 2 tool calls" in done.err
    assert "M  <here>/src/app.py  +1 −1" in done.err
    assert api.requests[0].contains("Improve it.")
    assert (desk.src / "app.py").read_text() == "print('old')\n"

    take = next(line for line in done.err.splitlines() if line.startswith("Take: toolkit "))
    assert desk.toolkit(*shlex.split(take)[2:]).out == "replaced  <here>/src/app.py\n"
    assert (desk.src / "app.py").read_text() == "print('new')\n"


def test_a_protected_path_that_a_tool_changed_is_told_at_the_end_and_when_the_run_is_shown(
    tmp_path: Path, scripted_api: Start
) -> None:
    sneak = """
from pathlib import Path
from toolkit import tool

@tool
def sneak() -> str:
    \"\"\"Write by a path of the host.\"\"\"
    Path("src/app.py").write_text("spoilt")
    return "done"
"""
    (tmp_path / "sneak.py").write_text(sneak, encoding="utf-8")
    desk = Desk(tmp_path, scripted_api([tool_use("mcp__sneak__sneak")], [text("All done.")]))
    done = desk.toolkit("run", "Go.", "--in-place", "src", "--tools", "sneak.py", "--protect", "src/app.py")

    warning = "1 protected path changed outside of the jail, and are as they are now: the run worked in place: app.py"
    assert (done.code, done.out) == (0, "All done.\n")
    assert f"warning: {warning}" in done.err.splitlines(), done.err
    assert f"warning: {warning}" in desk.toolkit("runs", "show", "last").out.splitlines()
    assert json.loads(desk.toolkit("runs", "show", "last", "--json").out)["warnings"][-1] == warning


def test_a_mistyped_model_is_told_below_the_sentence_with_the_command_for_more(
    tmp_path: Path, scripted_api: Start
) -> None:
    desk = Desk(tmp_path, scripted_api(Status(404)))
    done = desk.toolkit("run", "Go.", "--model", "claude-mistyped")
    lines = done.err.splitlines()
    place = lines.index("api_error: The model API answered with an error.")
    assert (done.code, done.out) == (1, "")
    assert lines[place + 1].startswith("  There's an issue with the selected model (claude-mistyped).")
    more = next(line for line in lines if line.startswith("More: toolkit "))
    shown = desk.toolkit(*shlex.split(more)[2:]).out
    assert lines[place + 1] in shown
    assert "api_status: 404" in shown


def test_what_the_cli_says_as_it_dies_at_the_start_is_told(tmp_path: Path, scripted_api: Start) -> None:
    # Whole, and whether it means anything only the CLI can judge.
    odd = '{"type": "object", "$id": "https://x.example/y", "properties": {"a": {"$ref": "absent"}}}'
    (tmp_path / "schema.json").write_text(odd, encoding="utf-8")
    desk = Desk(tmp_path, scripted_api(otherwise=[text("never")]))
    done = desk.toolkit("run", "Go.", "--output-schema", "schema.json")
    told = [line for line in done.err.splitlines() if "is not a valid JSON Schema" in line]
    assert done.code == 1
    assert len(told) == 1
    assert "stderr: " in desk.toolkit("runs", "show", "last").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policy", "WebFetch=deny"], "--policy: WebFetch is not offered in this run\n  Leave it out\n"),
        (["--policy", "Bash=allow", "--policy", "Bash=deny"], "--policy Bash=deny: Bash=allow was written before it\n"),
        (["--policy", "Bash=foo"], "--policy for 'Bash': there is no 'foo'; there are: "),
        (["--plugin", "nope"], "--plugin nope: there is no such folder\n"),
        (["--max-usd", "nan"], "--max-usd nan: a limit is a number above zero\n  Leave it out for no limit\n"),
        (["--max-turns", "0"], "--max-turns 0: a limit is a whole number above zero\n"),
        (
            ["--memory", "5"],
            "--memory 5 is not a whole number of bytes, 67108864 or more\n  Write for example: --memory 4",
        ),
        (["--image", "t.txt"], "--image t.txt: these bytes are not a known image type but text/plain\n  Give a PNG"),
        (["--model", ""], "--model '': it is the name of a model, as a text\n"),
        (["--at", "x", "--mount", "src"], "--at x is no absolute path\n  Write for example: --at /work\n"),
        (["--env", "HOME=x"], "--env: HOME is set by the jail\n  Leave it out\n"),
        (["--readable", "/proc/nope"], "--readable path '/proc/nope' does not exist\n"),
        (["--plan", "--readable", "/proc/nope"], "--readable path '/proc/nope' does not exist\n"),
        (["--folder", "/"], "the path '/' would show the agent too much\n"),
        (["--output-schema", "t.json"], "--output-schema t.json: it is no JSON Schema: type: 'objct' is not valid"),
    ],
)
def test_a_mistake_is_told_in_the_words_of_the_command(tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "t.txt").write_text("words", encoding="utf-8")
    (tmp_path / "t.json").write_text('{"type": "objct"}', encoding="utf-8")
    done = Desk(tmp_path).toolkit("run", "Go.", *words, env={"ANTHROPIC_API_KEY": "fake-key"})
    assert (done.code, done.out) == (2, "")
    assert f"Error: {says}" in done.err


def test_an_empty_prompt_and_an_address_that_is_none_are_usage_errors(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    empty = desk.toolkit("run", "")
    assert empty.code == 2
    assert 'Error: the prompt is empty\n  Say what to do: toolkit run "Make' in empty.err
    nowhere = desk.toolkit("run", "Go.", env={"ANTHROPIC_BASE_URL": "notaurl", "ANTHROPIC_API_KEY": "fake-key"})
    assert nowhere.code == 2
    assert "Error: the API base URL 'notaurl' is no http(s) URL\n" in nowhere.err


def test_json_is_the_whole_result_and_the_prompt_may_come_from_stdin(tmp_path: Path, scripted_api: Start) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    api = scripted_api(
        [tool_use("Write", file_path="new.txt", content="made")], [tool_use("StructuredOutput", score=7)]
    )
    desk = Desk(tmp_path, api)
    words = ["run", "-", "--mount", "src:code", "--ready", "planning", "--output-schema", "schema.json", "--json"]
    done = desk.toolkit(*words, stdin="Rate @src/app.py, please.")

    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert (result["code"], result["output"]) == ("ok", {"score": 7})
    assert api.requests[0].contains("Rate @src/app.py, please.")
    assert any(name.startswith("mcp__planning__") for name in api.requests[0].tools)
    assert [(change["kind"], change["path"]) for change in result["changes"]] == [("added", "code/new.txt")]
    assert RunResult.from_data({**result, "changes": None}) == desk.last().result()


def test_a_stream_is_what_was_stored_and_ends_with_the_result(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api(Turn([text("Grüße, \ud83d half a pair")], chunk=3))
    desk = Desk(tmp_path, api)
    done = desk.toolkit("run", "go", "--mount", "src", "--drop-workspace", "--stream-json")

    *lines, last = done.out.splitlines()
    events = [Event.from_json(line) for line in lines]
    assert [event.name for event in events] == [event.name for event in desk.last().events()]
    assert (events[0].name, events[-1].name) == ("lifecycle.started", "lifecycle.finished")
    assert events[-1].data["text"] == "Grüße, \ud83d half a pair"
    assert json.loads(last)["result"]["code"] == "ok"
    assert not list(desk.home.glob("runs/*/toolkit-workspace-*"))
    assert "toolkit runs apply" not in done.err


@pytest.mark.parametrize(
    ("turn", "words", "code", "exit_code"),
    [
        (Status(500), [], "api_error", 1),
        ([tool_use("Bash", command="true")], ["--max-turns", "1"], "turn_limit", 3),
        (Turn([text("one"), text("two")], stall_after=1), ["--deadline", "1s"], "deadline", 3),
    ],
    ids=["failed", "turns", "deadline"],
)
def test_the_exit_code_says_how_it_ended(
    turn: Any, words: list[str], code: str, exit_code: int, tmp_path: Path
) -> None:
    with ScriptedAPI(turn, strict=False) as api:
        done = Desk(tmp_path, api).toolkit("run", "go", *words, "--json")
    assert (done.code, json.loads(done.out)["code"]) == (exit_code, code)


def test_a_run_that_cannot_be_confined_ends_with_4_and_asks_no_model(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    with ScriptedAPI() as api:
        desk = Desk(tmp_path, api)
        done = desk.toolkit("run", "go", env={"PATH": str(bare)})
        assert not api.requests
    assert (done.code, done.out) == (4, "")
    assert "unconfined: The run was refused because its confinement is not certain." in done.err
    assert "bwrap" in done.err


@pytest.mark.parametrize(
    "words",
    [
        [" "],
        ["go", "--max-tokens", "-1"],
        ["go", "--deadline", "soon"],
        ["go", "--mode", "plann"],
        ["go", "--profile", "none"],
        ["go", "--ready", "plannning"],
        ["go", "--mount", "src:../up"],
        ["go", "--mount", "nope"],
        ["go", "--mount", "/etc/hosts"],
        ["go", "--mount", ".", "--allow-root", "nope"],
        ["go", "--mount", ".", "--in-place", "."],
        ["go", "--in-place", "nope"],
        ["go", "--in-place", "list.json"],
        ["go", "--tools", "nope.py"],
        ["go", "--tools", "empty.py"],
        ["go", "--prompt-file", "list.json"],
        ["--prompt-file", "nope.md"],
        ["--prompt-file", "binary.md"],
        ["--prompt-file", "empty.py"],
        ["list.json"],
        ["go", "--settings", "nope.json"],
        ["go", "--policy", "Bash"],
        ["go", "--policy", "Bash=alow"],
        ["go", "--settings", "list.json"],
        ["go", "--settings", "open.json"],
        ["go", "--settings", "misspelled.json"],
        ["go", "--output-schema", "list.json"],
        [],
    ],
    ids=" ".join,
)
def test_a_mistyped_run_ends_with_2_and_leaves_nothing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "toolkit-home"))
    monkeypatch.setattr("toolkit.cli.starting.running.take_stdout", lambda: None)
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    (tmp_path / "open.json").write_text('{"sandbox": {"enabled": false}}', encoding="utf-8")
    (tmp_path / "misspelled.json").write_text('{"permissions": {"deny": ["Bsah"]}}', encoding="utf-8")
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe\x00")
    done = CliRunner().invoke(toolkit, ["run", *words])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: " in done.stderr
    assert not (tmp_path / "toolkit-home").exists()


def test_a_mount_that_is_not_allowed_is_an_error_that_names_it(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api())
    done = desk.toolkit("run", "go", "--mount", "/etc/hosts")
    assert (done.code, done.out) == (2, "")
    assert "Error: /etc/hosts lies in no allowed host root" in done.err
    assert "Allow the folder it lies in: --allow-root /etc\n" in done.err
    assert "allowed_host_roots" not in done.err


def test_a_file_as_the_prompt_is_asked_about_and_can_be_read(tmp_path: Path) -> None:
    with ScriptedAPI([text("Done.")]) as api:
        desk = Desk(tmp_path, api)
        (desk.folder / "prompt.md").write_text("Sort the notes.", encoding="utf-8")
        refused = desk.toolkit("run", "prompt.md")
        assert (refused.code, "did you mean --prompt-file prompt.md?" in refused.err) == (2, True)
        (desk.folder / "my prompt.md").write_text("Sort them.", encoding="utf-8")
        assert "did you mean --prompt-file 'my prompt.md'?" in desk.toolkit("run", "my prompt.md").err
        done = desk.toolkit("run", "--prompt-file", "prompt.md")
        assert api.requests[0].contains("Sort the notes.")
    assert (done.code, done.out) == (0, "Done.\n")


def test_a_prompt_that_is_too_long_for_a_files_name_is_a_prompt(tmp_path: Path) -> None:
    assert Desk(tmp_path).toolkit("run", "修" * 100, "--plan").code == 0


def test_a_prompt_that_is_no_text_is_a_mistake(tmp_path: Path) -> None:
    for words, stdin, encoding in (["Gr\udcfc"], "", ""), (["-"], "Gr\udcfc", "utf-8:strict"), (["-"], "Gr\udcfc", ""):
        done = Desk(tmp_path).toolkit("run", *words, "--plan", stdin=stdin, env={"PYTHONIOENCODING": encoding})
        assert (done.code, done.out) == (2, "")
        assert f"Error: {'stdin' if stdin else 'PROMPT'}: it is no UTF-8 text" in done.err


def test_a_policy_can_defer_a_call_and_the_next_run_takes_it_up(tmp_path: Path) -> None:
    with ScriptedAPI([tool_use("Bash", command="echo made > a.txt")], otherwise=[text("Done.")]) as api:
        desk = Desk(tmp_path, api)
        place = desk.folder / "place"
        place.mkdir()
        done = desk.toolkit("run", "go", "--in-place", "place", "--policy", "Bash=defer")
        assert (done.code, (place / "a.txt").exists()) == (1, False)
        assert "waits for you: Bash" in done.err
        assert f"toolkit run PROMPT --resume {desk.last().id}" in done.err
        shown = desk.toolkit("runs", "show", "last").out
        assert "\nwaits for you: Bash" in shown
        assert f"Take it up: toolkit run PROMPT --resume {desk.last().id}" in shown
        assert re.search(r"^  waits +Bash", shown, re.MULTILINE)
        assert "\n`Bash`: waits, " in desk.toolkit("runs", "export", "last", "--format", "markdown").out
        again = desk.toolkit("run", "Go on.", "--in-place", "place", "--resume", "last")
    assert (again.code, (place / "a.txt").read_text(encoding="utf-8")) == (0, "made\n")


def test_a_policy_that_means_no_tool_is_a_mistake_that_starts_nothing(tmp_path: Path) -> None:
    with ScriptedAPI() as api:
        done = Desk(tmp_path, api).toolkit("run", "go", "--policy", "bash=deny")
        assert not api.requests
    assert (done.code, "did you mean 'Bash'?" in done.err) == (2, True)


def test_in_place_the_agent_changes_the_folder_itself(tmp_path: Path) -> None:
    with ScriptedAPI([tool_use("Bash", command="echo two > a.txt")], [text("Done.")]) as api:
        desk = Desk(tmp_path, api)
        place = desk.folder / "place"
        place.mkdir()
        (place / "a.txt").write_text("one\n", encoding="utf-8")
        done = desk.toolkit("run", "go", "--in-place", "place", "--drop-workspace")
    assert (done.code, (place / "a.txt").read_text(encoding="utf-8")) == (0, "two\n")
    assert "toolkit runs apply" not in done.err


def test_ctrl_c_on_a_terminal_ends_the_turn_and_keeps_its_words(tmp_path: Path) -> None:
    script = [tool_use("Bash", command="echo \x1b[2Jred")], Turn([text("half of it"), text("never")], stall_after=1)
    with ScriptedAPI(*script) as api:
        desk = Desk(tmp_path, api)
        with desk.terminal("run", "go", "--mount", "src") as terminal:
            terminal.see("failed  Bash echo [2Jred")
            desk.wait_for("half of it")
            terminal.type("\x03")
            code = terminal.end()
    result = desk.last().result()
    assert "… Bash echo" in terminal.shown, "the call has a live line while it runs"
    assert "\r\x1b[K" in terminal.shown
    assert "\x1b[2J" not in terminal.shown
    assert "interrupting; Ctrl-C again ends it at once" in terminal.shown
    assert "half of it\r\naborted: The run was interrupted." in terminal.shown
    assert (code, desk.last().state, result.code, result.text) == (1, "finished", "aborted", "half of it")


def test_ctrl_c_twice_ends_everything_and_the_run_is_still_told(tmp_path: Path) -> None:
    with ScriptedAPI([text("look"), tool_use("Bash", command="trap '' INT TERM; sleep 300")], strict=False) as api:
        desk = Desk(tmp_path, api)
        with desk.terminal("run", "go") as terminal:
            terminal.see("… Bash trap")
            inside = children_of(terminal.process.pid)
            terminal.type("\x03")
            terminal.see("interrupting")
            terminal.type("\x03")
            code = terminal.end()
        wait_until_gone(inside)
    result = desk.last().result()
    assert inside
    assert (code, desk.last().state, result.code, result.text) == (1, "finished", "aborted", "look")
    assert [(use.name, use.ok) for use in result.tools] == [("Bash", False)]
    assert "Traceback" not in terminal.shown


@pytest.mark.parametrize("moment", ["lifecycle.started", "assistant.text", "tool.started", "tool.ended"])
def test_a_killed_launcher_loses_nothing_that_was_shown(moment: str, tmp_path: Path) -> None:
    script = (
        Turn([text("first words"), tool_use("Bash", command="echo done > made.txt")], usage={"input_tokens": 9}),
        Turn([text("last"), text("never")], stall_after=1),
    )
    with ScriptedAPI(*script, strict=False) as api:
        desk = Desk(tmp_path, api)
        with desk.piped("run", "go", "--mount", "src", "--stream-json") as process:
            assert process.stdout is not None
            shown = []
            for line in process.stdout:
                shown.append(Event.from_json(line))
                if shown[-1].name == moment:
                    break
            inside = children_of(process.pid)
            process.kill()
            shown += [Event.from_json(line) for line in process.stdout if line.endswith("\n")]
        wait_until_gone(inside)

    run = desk.last()
    result = run.result()
    assert list(run.events())[: len(shown)] == shown
    assert (run.state, result.code) == ("crashed", "crashed")
    assert result.text in ("", "first words", "last")
    assert [use.name for use in result.tools] == ["Bash"] * any(event.name == "tool.started" for event in run.events())
    if moment == "tool.ended":
        assert (result.total.input, [use.ok for use in result.tools]) == (9, [True])
        assert "  crashed  " in desk.toolkit("runs").out
        assert desk.toolkit("runs", "apply", "last").out == "created   <here>/src/made.txt\n"


def test_a_reader_that_goes_away_ends_the_run(tmp_path: Path) -> None:
    with ScriptedAPI(Turn([text("one"), text("two")], stall_after=1)) as api:
        desk = Desk(tmp_path, api)
        with desk.piped("run", "go", "--stream-json") as process:
            assert process.stdout is not None
            assert "started" in process.stdout.readline()
            while "one" not in process.stdout.readline():
                pass  # from now on there is nothing to print, as the model says nothing
            process.stdout.close()
            assert process.wait(120) == 1
    assert desk.last().result().code == "aborted"


def test_normal_mode_asks_at_the_terminal_and_obeys(tmp_path: Path) -> None:
    script = (
        [tool_use("Bash", command="echo no > refused.txt")],
        [tool_use("Write", file_path="allowed.txt", content="yes\nand more\n")],
        [text("as you like")],
    )
    with ScriptedAPI(*script) as api:
        desk = Desk(tmp_path, api)
        with desk.terminal("run", "go", "--mount", "src", "--mode", "normal") as terminal:
            terminal.type("y\n")  # typed before anything was asked: it answers nothing
            terminal.see("  echo no > refused.txt\r\nRun it? y = once")
            terminal.type("n\n")
            terminal.see("/src/allowed.txt\r\n  +yes\r\n  +and more\r\n")
            terminal.see("to remember every call of Write: s = in this session, p = in this project, a = always [n] ")
            terminal.type("y\n")
            assert terminal.end() == 0
    assert [change.path for change in desk.last().changes()] == ["src/allowed.txt"]
    assert "refused Bash" in terminal.shown


def test_a_conversation_goes_on_by_the_run_it_began_in(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api([text("Noted.")], [text("Plum.")])
    desk = Desk(tmp_path, api)
    assert desk.toolkit("run", "The word is plum.").code == 0
    done = desk.toolkit("run", "What was the word?", "--resume", "last")
    assert (done.code, done.out) == (0, "Plum.\n")
    assert api.requests[-1].contains("The word is plum.")
    missing = desk.toolkit("run", "go", "--resume", "nothing")
    assert (missing.code, "there is no run 'nothing'" in missing.err) == (2, True)


def test_a_resumed_run_goes_on_in_its_copy_and_says_what_the_host_changed(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api(
        [tool_use("Bash", command="echo mine > new.txt")],
        [text("Begun.")],
        [tool_use("Bash", command="cat new.txt app.py")],
        [text("Seen.")],
        [tool_use("Bash", command="ls")],
        [text("Afresh.")],
    )
    desk = Desk(tmp_path, api)
    assert desk.toolkit("run", "Begin.", "--mount", "src").code == 0
    first = desk.last().id
    (desk.src / "app.py").write_text("print('edited')\n", encoding="utf-8")
    planned = desk.toolkit("run", "Go on.", "--resume", "last", "--plan")
    assert (planned.code, f"this goes on in the workspace of run {first}" in planned.err) == (1, True)
    done = desk.toolkit("run", "Go on.", "--resume", "last", "--drop-workspace")
    assert (done.code, done.out) == (0, "Seen.\n")
    assert "warning: The host's files changed since the last turn; brought in: <here>/src/app.py." in done.err
    assert api.requests[-1].contains("mine\nprint('edited')")

    dropped = desk.toolkit("run", "Go on.", "--resume", first)
    assert (dropped.code, "was dropped, with what the agent had done in it" in dropped.err) == (1, True)
    assert "--mount <here>/src" in dropped.err
    fresh = desk.toolkit("run", "Go on.", "--resume", "last", "--mount", "src")
    assert (fresh.code, fresh.out) == (0, "Afresh.\n")
    assert not api.requests[-1].contains("app.py\nnew.txt")
    every = [run.id for run in list_runs(desk.home)]
    assert (
        len(desk.toolkit("runs", "remove", *reversed(every)).out.splitlines()) == len(every) == 3
    )  # the refused one left none


def test_pictures_effort_thinking_and_folders_reach_the_model(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api([tool_use("Read", file_path=str(tmp_path / "docs" / "a.txt"))], [text("Seen.")])
    desk = Desk(tmp_path, api)
    (tmp_path / "pixel.png").write_bytes(PIXEL)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("the plum")
    options = ["--image", "pixel.png", "--effort", "low", "--thinking", "off", "--folder", "docs"]
    done = desk.toolkit("run", "Look.", *options, "--model", "claude-opus-4-6", "--fallback-model", "claude-haiku-4-5")

    assert (done.code, done.out) == (0, "Seen.\n")
    first = api.requests[0]
    assert [block["type"] for block in first["messages"][0]["content"] if block["type"] == "image"] == ["image"]
    assert (first["output_config"]["effort"], first["thinking"]["type"]) == ("low", "disabled")
    assert "the plum" in str(api.tool_results())


@pytest.mark.parametrize("options", [["--effort", "lots"], ["--thinking", "5"], ["--plugin", "nowhere"]])
def test_a_mistyped_option_of_the_agent_ends_with_2(options: list[str], tmp_path: Path, scripted_api: Start) -> None:
    done = Desk(tmp_path, scripted_api(strict=False)).toolkit("run", "Go.", *options)
    assert (done.code, done.out) == (2, "")
