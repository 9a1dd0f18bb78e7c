"""`toolkit inspect` shows name, arguments and hints of each tool, or the tools/list entries as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli._command import toolkit, write
from toolkit_servers.target import load_target

TOOLS = '''
from typing import Annotated, Literal

from toolkit import tool

print("hello")


@tool(read_only=True, open_world=False)
def find_todos(folder: str, limit: Annotated[int, "most results"] = 20, kinds: list[str] | None = None) -> str:
    """List TODO comments, oldest first.

    Long explanation.
    """
    return folder


@tool(destructive=True, idempotent=True)
def clear(level: Literal["all", "done"], names: dict[str, int], really: bool = False, comment: str = "because nobody said why") -> None:
    """Forget notes."""


@tool
def ping() -> None: ...
'''


def test_the_table_names_arguments_and_hints(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    done = toolkit("inspect", "notes.py", cwd=tmp_path)
    assert (
        done.out
        == """\
TOOL        ARGUMENTS                                                        HINTS
find_todos  folder: string, limit: integer = 20, kinds?: list of string      read-only, closed world
            List TODO comments, oldest first.
clear       level: "all" or "done", names: object, really: boolean = false,  destructive, idempotent
            comment: string = "because nobody said why"
            Forget notes.
ping        none
"""
    )
    assert (done.err, done.code) == ("hello\n", 0)


def test_json_is_what_a_client_gets_from_tools_list(tmp_path: Path, clean_imports: None) -> None:
    write(tmp_path, notes=TOOLS)
    done = toolkit("inspect", "notes.py", "--json", cwd=tmp_path)
    assert json.loads(done.out) == {"tools": load_target("notes.py", cwd=tmp_path).toolbox.listing()}


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    done = toolkit("inspect", "notes.py", cwd=tmp_path, closed_stdout=True)
    assert (done.err, done.code) == ("hello\n", 0)
