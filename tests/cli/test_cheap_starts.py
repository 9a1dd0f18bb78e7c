"""A command loads what it needs: no parser for what needs none, and neither mcp nor the SDK to look at what is stored."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import docs_cli
from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from toolkit.cli import quick
from toolkit.runs import run
from toolkit.testing import FakeCLI, Turn, text
from toolkit.workspace import HostMount, WorkspaceSection

HEAVY = ("mcp", "mcp_types", "claude_agent_sdk", "pydantic", "click", "typing", "asyncio")
RUN = """
import runpy, sys
sys.argv[0] = "toolkit"
try:
    runpy.run_module("toolkit", run_name="__main__")
except SystemExit as end:
    code = int(end.code or 0)
else:
    code = 0
names = {names!r}
print("LOADED", code, *(name for name in names or tuple(sys.modules) if name in sys.modules), file=sys.stderr)
"""


STARTED = """
import os, runpy, sys
from toolkit.runs.turn.early import started
async def start(*given):
    print("LOADED", 0, *sys.modules, file=sys.stderr, flush=True)
    os._exit(0)
started.StartedCLI.start = start
sys.argv[0] = "toolkit"
runpy.run_module("toolkit", run_name="__main__")
"""
"""Ends where the CLI would be started."""


def _loaded(
    *words: str, cwd: Path, names: tuple[str, ...] = HEAVY, env: dict[str, str] | None = None
) -> tuple[str, set[str], str]:
    """The exit code of a command, which of the modules it has loaded (all, without names), and what it printed."""
    home = {**os.environ, "TOOLKIT_HOME": str(cwd / "toolkit-home"), "COLUMNS": "100", **(env or {})}
    argv = [sys.executable, "-P", "-c", RUN.format(names=names), *words]
    done = subprocess.run(argv, cwd=cwd, env=home, capture_output=True, text=True, timeout=120, check=False)
    last = next(line for line in reversed(done.stderr.splitlines()) if line.startswith("LOADED"))
    _, code, *found = last.split()
    return code, set(found), done.stdout


@pytest.mark.parametrize("word", ["--version", "--help", "-h"])
def test_what_is_only_printed_loads_nothing(tmp_path: Path, word: str) -> None:
    code, loaded, printed = _loaded(word, cwd=tmp_path)
    # runpy itself brings typing where Python has it so; nothing of ours may bring the rest.
    assert (code, loaded - {"typing"}) == ("0", set())
    assert "toolkit" in printed


def test_completing_a_word_imports_no_command(tmp_path: Path) -> None:
    env = {"_TOOLKIT_COMPLETE": "bash_complete", "COMP_WORDS": "toolkit r", "COMP_CWORD": "1"}
    names = ("mcp", "claude_agent_sdk", "pydantic", "toolkit.runs", "toolkit.sandbox", "toolkit.cli.runs.running")
    code, loaded, printed = _loaded(cwd=tmp_path, names=names, env=env)
    assert (code, loaded) == ("0", set())
    assert [line.partition(",")[2] for line in printed.splitlines()] == ["report", "run", "runs"]


@pytest.mark.parametrize("columns", [40, 60, 76, 80, 100, 200])
def test_the_quick_help_is_clicks_own(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    if quick.printed(["--help"]):
        assert out.getvalue() == docs_cli.help_of((), columns) + "\n"
    else:
        assert columns < 80


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        ["serve", "--http", "tools.py"],
        ["serve", "--cwd", "no such folder", "tools.py"],
        ["serve", "--cwd"],
        ["serve", "--", "tools.py"],
        ["serve", ""],
        ["serve", "--reload"],
        ["run", "x"],
        [],
    ],
)
def test_what_is_more_than_plain_targets_over_stdio_goes_to_the_parser(words: list[str]) -> None:
    assert not quick.served(words)


@pytest.mark.parametrize(
    "words",
    [
        ["sandbox"],
        ["sandbox", "check", "--json"],
        ["sandbox", "check", "--help"],
        ["sandbox", "exec", "--"],
        ["sandbox", "exec", "true"],
        ["sandbox", "exec", "--read-only", "--", "true"],
        ["doctor", "--online"],
        ["doctor", "--json"],
        ["run", "x"],
        [],
    ],
)
def test_looking_at_this_machine_with_an_option_goes_to_the_parser(words: list[str]) -> None:
    assert quick.looked(words) is None


@pytest.mark.parametrize("name", [".git", "toolkit.toml"])
def test_in_a_project_the_doctor_goes_to_the_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert quick.looked(["doctor"]) is None


_SAYS_AND_ENDS = ("sh", "-c", "echo out; echo err >&2; exit 7")


@needs_jail
@pytest.mark.parametrize(
    ("plain", "parsed"),
    [
        (["sandbox", "check"], ["sandbox", "check", "--workspace", "."]),
        (["sandbox", "exec", "--", *_SAYS_AND_ENDS], ["sandbox", "exec", "--seconds", "50", "--", *_SAYS_AND_ENDS]),
        (["doctor"], ["doctor", "--no-config"]),
    ],
)
def test_a_command_without_options_says_the_same_as_the_parsers(
    tmp_path: Path, plain: list[str], parsed: list[str]
) -> None:
    env = {**os.environ, "TOOLKIT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    both = [
        subprocess.run(
            [sys.executable, "-P", "-m", "toolkit", *words],
            cwd=_fresh(tmp_path, name),
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        for name, words in (("a", plain), ("b", parsed))
    ]
    ours, clicks = ((done.returncode, _plain(done.stdout), done.stderr) for done in both)
    assert ours == clicks


def _fresh(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _plain(text: str) -> str:
    """Without what is another each time: seconds, and the number of a user that is made up."""
    return re.sub(r"\d+\.\d+ s|uid \d+|\d+\.\d GiB", "…", text)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A home with one stored run, which had a workspace."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    section = WorkspaceSection([HostMount(desk.src)], [desk.folder])
    cli = FakeCLI(Turn([text("Done.")]))
    asyncio.run(run("Look at it.", workspace=section, transport=cli, run_id="run-a", home=desk.home))
    return desk


_COMMON = {"toolkit._base", "toolkit.cli", "toolkit.errors", "toolkit.workspace"}
_HEAVY_PARTS = (
    *("asyncio", "ssl", "logging", "tomllib", "http.client", "subprocess"),
    *("toolkit.runs.spec", "toolkit.tools", "toolkit_workspace.copying", "toolkit_workspace.changes"),
)
_JAILS = {"subprocess"}
"""What the jail needs: other programs."""
_WITHOUT_A_PARSER = {"sandbox check", "sandbox exec -- true", "doctor"}

LOOKING: dict[str, tuple[set[str], set[str]]] = {
    "runs list": ({"toolkit.runs", "toolkit_workspace"}, set()),
    "runs show last": ({"toolkit.runs", "toolkit_workspace"}, {"toolkit_workspace.changes"}),
    "runs diff last": ({"toolkit.runs", "toolkit_workspace"}, {"toolkit_workspace.changes"}),
    "runs events last": ({"toolkit.runs"}, set()),
    "workspace list": ({"toolkit_workspace"}, set()),
    "workspace plan --root . --mount src": ({"toolkit_workspace"}, set()),
    "sandbox check": ({"toolkit.sandbox"}, _JAILS),
    "sandbox exec -- true": ({"toolkit.sandbox", "toolkit_workspace"}, _JAILS),
    "doctor": ({"toolkit.doctor", "toolkit.runs", "toolkit.sandbox"}, _JAILS),
}
"""The rooms that each command loads, and those of the heavy parts that it may load."""


@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_what_is_there_loads_only_the_rooms_it_looks_into(desk: Desk, words: str) -> None:
    code, loaded, _ = _loaded(*words.split(), cwd=desk.folder, names=(), env={"TOOLKIT_HOME": str(desk.home)})
    tops = {name.partition(".")[0] for name in loaded}
    others = {name for name in tops - sys.stdlib_module_names if not name.startswith(("_", "toolkit"))}
    rooms = {name for name in loaded if name.count(".") == 1 and name.startswith("toolkit.")} - _COMMON
    wanted, may = LOOKING[words]
    assert rooms | {name for name in tops if name.startswith("toolkit_")} == wanted
    assert others == (set() if words in _WITHOUT_A_PARSER else {"click"})
    assert {name for name in _HEAVY_PARTS if name in loaded} <= may
    if words != "doctor":
        assert code == "0"


def test_the_settings_of_a_sandbox_are_printed_without_mcp_and_the_sdk(tmp_path: Path) -> None:
    assert _loaded("sandbox", "settings", cwd=tmp_path, names=("mcp", "mcp_types", "claude_agent_sdk"))[1] == set()


@needs_jail
def test_the_cli_of_a_run_is_started_before_what_only_its_answers_need_is_loaded(desk: Desk) -> None:
    env = {**os.environ, "TOOLKIT_HOME": str(desk.home), "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    env |= {"ANTHROPIC_API_KEY": "fake", "HOME": str(desk.folder)}
    argv = [sys.executable, "-P", "-c", STARTED, "run", "Go.", "--mount", "src"]
    done = subprocess.run(argv, cwd=desk.folder, env=env, capture_output=True, text=True, timeout=120, check=True)
    loaded = set(next(line for line in done.stderr.splitlines() if line.startswith("LOADED")).split())
    assert "toolkit.sandbox.confining.confinement" in loaded
    assert not loaded & {"claude_agent_sdk", "mcp", "mcp_types", "pydantic", "pydantic_core", "anyio", "httpx2"}
