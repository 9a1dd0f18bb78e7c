"""A command loads what it needs: no parser for what needs none, and neither mcp nor the SDK to look at what is stored."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import docs_cli
from tests.cli._running import Desk
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
    code = end.code
else:
    code = 0
names = {names!r}
print("LOADED", code, *(name for name in names if name in sys.modules), file=sys.stderr)
"""


def _loaded(
    *words: str, cwd: Path, names: tuple[str, ...] = HEAVY, env: dict[str, str] | None = None
) -> tuple[str, set[str], str]:
    """The exit code of a command, which of the modules it has loaded, and what it printed."""
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


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A home with one stored run, which had a workspace."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    section = WorkspaceSection([HostMount(desk.src)], [desk.folder])
    cli = FakeCLI(Turn([text("Done.")]))
    asyncio.run(run("Look at it.", workspace=section, transport=cli, run_id="run-a", home=desk.home))
    return desk


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list"),
        ("runs", "show", "last"),
        ("runs", "diff", "last"),
        ("runs", "events", "last"),
        ("workspace", "list"),
        ("workspace", "plan", "--root", ".", "--mount", "src"),
        ("sandbox", "check"),
        ("sandbox", "exec", "--", "true"),
        ("sandbox", "settings"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_looking_at_what_is_there_loads_neither_mcp_nor_the_sdk(desk: Desk, words: tuple[str, ...]) -> None:
    code, loaded, _ = _loaded(*words, cwd=desk.folder, names=("mcp", "mcp_types", "claude_agent_sdk"))
    assert loaded == set()
    if words[0] in ("runs", "workspace"):
        assert code == "0"
