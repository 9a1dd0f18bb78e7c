"""What a RunSpec can be given, `toolkit run` can be given: every field has an option, or a reason why it has none."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli._command import toolkit
from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from toolkit.cli.starting.running import run, spec_of
from toolkit.cli.terminal.own_words import in_own_words
from toolkit.runs import Limits, OptionError, RunSpec
from toolkit.sandbox import CONTROL_FILES, limit_names
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
SESSION = "0f8fad5b-d9cb-469f-a165-70867728950e"
SPELLER = {"description": "Finds typos.", "prompt": "Look for typos."}
HOOKED = "it is a Python function: a command line has none"

GIVEN: dict[str, tuple[str, Any]] = {
    "prompt": ("", "(task)"),
    "workspace": ("--mount .", None),
    "setup": ("--mount . --setup make", None),
    "tools": ("--ready planning", None),
    "verify": ("--mount . --verify make", None),
    "protect": ("--mount . --protect app.py", ("app.py",)),
    "retry": ("--retry 2", None),
    "limits": (
        "--deadline 10m --max-usd 2 --max-tokens 9 --max-turns 3 --memory 1GB --max-processes 70 --max-cpu 5m "
        "--max-file 2MB --max-workspace 3MB --max-tmp 4MB",
        Limits(
            seconds=600,
            usd=2,
            tokens=9,
            turns=3,
            memory_bytes=10**9,
            processes=70,
            cpu_seconds=300,
            file_bytes=2_000_000,
            workspace_bytes=3_000_000,
            tmp_bytes=4_000_000,
        ),
    ),
    "output": ("--output-schema schema.json", {"type": "object"}),
    "model": ("--model m", "m"),
    "fallback_model": ("--fallback-model m", "m"),
    "effort": ("--effort low", "low"),
    "thinking": ("--thinking 2000", 2000),
    "betas": ("--beta b", ("b",)),
    "agents": ("--agents agents.json", {"speller": SPELLER}),
    "plugins": ("--plugin plugin", None),
    "folders": ("--folder plugin", None),
    "system": ("--system Hurry.", "Hurry."),
    "native": ("--native Read --native Bash", ("Read", "Bash")),
    "servers": (
        "--server db=./server --optional-server db",
        {"db": {"type": "stdio", "command": "./server", "args": [], "optional": True}},
    ),
    "allow_servers": ("--server loud=http://127.0.0.1:8765/mcp --allow-server loud", ("loud",)),
    "profile": ("--profile read-only", "read-only"),
    "domains": ("--allow-domain a.example.org", ("a.example.org",)),
    "toolchain": ("--no-toolchain", False),
    "readable": ("--readable plugin", None),
    "require": ("--require memory --require cpu", ("memory", "cpu")),
    "allow_control_files": ("--allow-control-file CLAUDE.md", ("CLAUDE.md",)),
    "settings": ("--settings settings.json", None),
    "env": ("--env CI=1", {"CI": "1"}),
    "api_url": ("--api-url http://127.0.0.1:1", "http://127.0.0.1:1"),
    "api_key_file": ("--api-key-file key", None),
    "api_headers": ("--api-header x-team=blue", {"x-team": "blue"}),
    "mode": ("--mode normal", "normal"),
    "policy": ("--policy Bash=ask", {"Bash": "ask"}),
    "safe": ("--safe Grep", ("Grep",)),
    "approve": ("--ask-elsewhere", "wait"),
    "approval_timeout": ("--approval-timeout 5m", 300.0),
    "resume": (f"--resume {SESSION}", SESSION),
    "fork": (f"--resume {SESSION} --fork", True),
    "at": (f"--resume {SESSION} --fork-at msg_1", "msg_1"),
    "trace": ("--trace t-1", "t-1"),
    "telemetry": ("--otel", None),
    "branch": ("--mount . --branch agent/x", "agent/x"),
}
"""What is typed for each field, and what the field is then; None: something that is only compared with the default."""
WITHOUT: dict[str, str] = {
    "hooks": HOOKED,
    "before_run": HOOKED,
    "after_run": HOOKED,
    "store": "it is a Python object; the conversations of a command are kept beside its runs",
    "books": "it is an object of whoever keeps the books of a batch",
    "pace": "it is an object that the runs of a batch share",
    "transport": "it is for tests in Python",
    "listener_timeout": "it is about listeners, which a program adds",
    "api_key": "everybody on the machine can read a command line: ANTHROPIC_API_KEY, or --api-key-file",
    "auth_token": "everybody on the machine can read a command line: ANTHROPIC_AUTH_TOKEN",
    "oauth_token": "everybody on the machine can read a command line: CLAUDE_CODE_OAUTH_TOKEN",
    "cli_path": "it is about the machine: CLAUDE_BIN",
    "home": "it is about the machine, and the commands that read a run have to find it: TOOLKIT_HOME",
    "run_id": "two runs cannot have one id; --json prints the one it got",
}
"""Fields that no option gives, and why."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    (tmp_path / "app.py").write_text("pass\n", encoding="utf-8")
    (tmp_path / "schema.json").write_text('{"type": "object"}', encoding="utf-8")
    (tmp_path / "agents.json").write_text(json.dumps({"speller": SPELLER}), encoding="utf-8")
    (tmp_path / "settings.json").write_text('{"permissions": {"deny": ["Read(./secret)"]}}', encoding="utf-8")
    (tmp_path / "key").write_text("not-a-key\n", encoding="utf-8")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "plugin" / "skills").mkdir(parents=True)
    return tmp_path


def made(words: str) -> RunSpec:
    """The spec that `toolkit run (task) WORDS` would start."""
    return spec_of(run.make_context("toolkit run", ["(task)", "--no-config", *words.split()]).params)


def test_every_field_has_an_option_or_a_reason() -> None:
    assert {field.name for field in dataclasses.fields(RunSpec)} == GIVEN.keys() | WITHOUT.keys()
    assert not GIVEN.keys() & WITHOUT.keys()


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_gives_its_field(name: str, folder: Path) -> None:
    words, expected = GIVEN[name]
    value = getattr(made(words), name)
    if expected is None:
        assert value != getattr(made(""), name)
    else:
        assert value == expected


def test_the_choices_of_the_command_are_those_of_a_run() -> None:
    choices = {param.name: list(param.type.choices) for param in run.params if hasattr(param.type, "choices")}
    assert (choices["require"], choices["control_files"]) == (list(limit_names()), list(CONTROL_FILES))


def test_every_option_of_a_run_stands_below_a_title(tmp_path: Path) -> None:
    said = toolkit("run", "--help", cwd=tmp_path).out
    titles = [line for line in said.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert "Options:" not in titles
    assert titles[-2:] == ["Other:", "Example:"]
    assert len(titles) > 10


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--fork", "--fork is about a conversation"),
        ("--fork-at m", "--fork-at is about a conversation"),
        ("--native Bsh", "--native"),
        ("--require memoy", "--require"),
        ("--server db=./server --optional-server bd", "--optional-server bd: no --server has this name"),
        ("--allow-server loud", "--allow-server: no server 'loud' is on this machine"),
        ("--server loud=http://127.0.0.1:8765/mcp", "To let the CLI use it: --allow-server loud"),
        ("--agents app.py", "--agents app.py: "),
        ("--agents empty.json", "--agents"),
        ("--approval-timeout soon", "no length of time"),
        ("--max-processes 0", "--max-processes 0"),
        ("--max-file 0", "--max-file 0"),
        ("--max-cpu 1.5s", "--max-cpu"),
        ("--api-key-file open", "can be read by others"),
        ("--allow-control-file setup.py", "--allow-control-file"),
        ("--policy Bash=maybe", "--policy"),
    ],
)
def test_what_cannot_be_is_a_usage_error_that_names_the_option(words: str, told: str, folder: Path) -> None:
    (folder / "empty.json").write_text('{"a": {}}', encoding="utf-8")
    (folder / "open").write_text("key", encoding="utf-8")
    (folder / "open").chmod(0o644)
    env = {"TOOLKIT_HOME": str(folder / "home"), "ANTHROPIC_API_KEY": "not-a-key"}
    env |= {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    done = toolkit("run", "Go.", *words.split(), cwd=folder, env=env)
    assert (done.code, done.out) == (2, ""), done.err
    assert told in done.err
    assert "Traceback" not in done.err


@needs_jail
def test_a_message_that_a_conversation_does_not_have_is_told_with_the_option_that_named_it() -> None:
    what = f"at='m': session {SESSION} has no such message"
    told = in_own_words(OptionError("at", what, fix="Take the id of a call (result.calls[0].id)"), {"images": ()})
    assert told.startswith(f"--fork-at m: session {SESSION} has no such message\n")
    assert "result.calls" not in told


def test_readable_is_for_commands_and_folder_for_the_file_tools_too(tmp_path: Path, scripted_api: Start) -> None:
    for name in ("shown", "given"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text(f"{name}-words", encoding="utf-8")
    paths = {name: str(tmp_path / name / "note.txt") for name in ("shown", "given")}
    api = scripted_api(
        [tool_use("Bash", command=f"cat {paths['shown']} {paths['given']}")],
        [tool_use("Read", file_path=paths["shown"])],
        [tool_use("Read", file_path=paths["given"])],
        [text("done")],
    )
    desk = Desk(tmp_path, api)
    done = desk.toolkit(
        "run", "Look.", "--mount", "src", "--readable", str(tmp_path / "shown"), "--folder", str(tmp_path / "given")
    )
    assert done.code == 0, done.err
    commanded, refused, read = api.tool_results()
    assert "shown-words" in commanded
    assert "given-words" in commanded
    assert "shown-words" not in refused
    assert "given-words" in read
