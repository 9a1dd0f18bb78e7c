"""Every command explains itself, with examples that run, and the documentation says the same."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests import docs_cli
from tests.cli._command import toolkit, write
from toolkit.cli import COMMANDS
from toolkit.cli.terminal.command import CommandWithExample

TOOLS = '''
from dataclasses import dataclass

from toolkit import tool


@dataclass
class Note:
    title: str
    done: bool


@tool(read_only=True)
def find_todos(folder: str, limit: int = 20) -> str:
    """List TODO comments, oldest first."""
    return f"{folder}:{limit}"
'''
MORE = """

@tool
def tag_note(id: int, tags: list[str]) -> str:
    return f"{id} {tags}"


@tool
def add_note(note: Note) -> str:
    return repr(note)
"""


def leaves() -> list[tuple[tuple[str, ...], click.Command]]:
    return [(path, command) for path, command in docs_cli.commands() if not isinstance(command, click.Group)]


def examples(name: str) -> list[str]:
    command = dict(leaves())[(name,)]
    assert isinstance(command, CommandWithExample)
    return [line.removeprefix("$ toolkit ") for line in command.example.splitlines() if line.startswith("$ toolkit ")]


@pytest.mark.parametrize("path", [path for path, _ in leaves()], ids=" ".join)
def test_every_command_has_an_example(path: tuple[str, ...]) -> None:
    assert f"toolkit {' '.join(path)}" in docs_cli.help_of(path).partition("Example")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_line_of_its_help(name: str) -> None:
    command = next(command for path, command in docs_cli.commands() if path == (name,))
    assert (command.help or "").partition("\n")[0] == COMMANDS[name].summary


def test_the_documentation_is_what_help_says() -> None:
    written = docs_cli.FILE.read_text(encoding="utf-8")
    assert written == docs_cli.page(), "run: python -m tests.docs_cli"


def test_the_installed_command_says_the_same(tmp_path: Path) -> None:
    done = toolkit("serve", "-h", cwd=tmp_path, env={"COLUMNS": "82"})  # click leaves two free
    assert (done.out.rstrip(), done.code) == (docs_cli.help_of(("serve",)), 0)


@pytest.mark.parametrize(
    "words",
    [["serv", "x.py"], ["call", "x.py"], ["inspect", "--jason", "x.py"], ["install", "x.py", "--client", "emacs"]],
)
def test_a_mistyped_command_ends_with_2(words: list[str], tmp_path: Path) -> None:
    done = toolkit(*words, cwd=tmp_path)
    assert (done.out, done.code) == ("", 2)
    assert "Error: " in done.err


def test_the_examples_of_call_run(tmp_path: Path) -> None:
    write(tmp_path, tools=TOOLS + MORE)
    said = [toolkit(*shlex.split(example), cwd=tmp_path).out for example in examples("call")]
    assert said == ["src:5\n", "7 ['home', 'urgent']\n", "Note(title='Milk', done=False)\n"]


def test_the_example_of_inspect_shows_its_real_output(tmp_path: Path) -> None:
    write(tmp_path, tools=TOOLS)
    command = dict(leaves())[("inspect",)]
    assert isinstance(command, CommandWithExample)
    [words] = examples("inspect")
    assert f"$ toolkit {words}\n{toolkit(*words.split(), cwd=tmp_path).out}" == command.example + "\n"


@pytest.mark.parametrize("name", ["serve", "install"])
def test_the_examples_of_the_others_are_accepted(name: str, tmp_path: Path) -> None:
    write(tmp_path, tools=TOOLS)
    (tmp_path / "tokens").write_text("alice all 0123456789abcdef0123\n", encoding="utf-8")
    (tmp_path / "tokens").chmod(0o600)
    for example in examples(name):
        words = [str(tmp_path / word[2:]) if word.startswith("~/") else word for word in shlex.split(example)]
        done = toolkit(*words, *(["--check"] if name == "serve" else []), cwd=tmp_path)
        assert done.code == 0, done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_loads_neither_mcp_nor_pydantic(name: str) -> None:
    code = (
        "import sys; sys.argv = ['toolkit', sys.argv[1], '--help']\nimport toolkit.cli\n"
        "try: toolkit.cli.main()\nexcept SystemExit: pass\n"
        "print([m for m in ('mcp', 'claude_agent_sdk', 'pydantic', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", ["inspect tools.py", "call tools.py find_todos folder=x", "install tools.py"])
def test_only_serving_loads_mcp(words: str, tmp_path: Path) -> None:
    spy = "\nimport atexit, sys\natexit.register(lambda: print([m for m in ('mcp', 'claude_agent_sdk') if m in sys.modules], file=sys.stderr))\n"
    write(tmp_path, tools=TOOLS + spy)
    done = toolkit(*words.split(), cwd=tmp_path)
    assert done.err.splitlines()[-1] == "[]"
