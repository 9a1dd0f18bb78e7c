"""`toolkit inspect`, `call` and `serve --check` know resources and prompts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli._command import toolkit, write

NOTES = '''
from toolkit import prompt, resource, tool


@resource("notes://{id}")
def note(id: int) -> dict[str, int] | None:
    """One note."""
    return {"id": id} if id < 10 else None


@resource("icon://note")
def icon() -> bytes:
    """A picture."""
    return bytes.fromhex("89504e470d0a1a0a")


@prompt
def summarise(id: int, style: str = "short") -> list[object]:
    """Summarise a note."""
    return [f"note {id}, {style}", ("assistant", "Well:")]


@tool
def ping() -> str:
    """Answer."""
    return "pong"
'''


def test_inspect_lists_them_below_the_tools(tmp_path: Path) -> None:
    write(tmp_path, notes=NOTES)
    done = toolkit("inspect", "notes.py", cwd=tmp_path)
    assert done.code == 0
    assert "notes://{id}" in done.out
    assert "summarise  id, style?" in done.out
    listed = json.loads(toolkit("inspect", "notes.py", "--json", cwd=tmp_path).out)
    assert [entry["name"] for entry in listed["prompts"]] == ["summarise"]
    assert [entry["uri"] for entry in listed["resources"]] == ["icon://note"]
    assert [entry["uriTemplate"] for entry in listed["resourceTemplates"]] == ["notes://{id}"]


def test_call_reads_a_resource_and_gets_a_prompt(tmp_path: Path) -> None:
    write(tmp_path, notes=NOTES)
    assert toolkit("call", "notes.py", "notes://7", cwd=tmp_path).out == '{"id":7}\n'
    assert toolkit("call", "notes.py", "icon://note", cwd=tmp_path).out == "[image/png, 8 bytes]\n"
    got = toolkit("call", "notes.py", "summarise", "id=7", cwd=tmp_path)
    assert got.out == "user: note 7, short\nassistant: Well:\n"
    missing = toolkit("call", "notes.py", "notes://77", cwd=tmp_path)
    assert (missing.code, missing.out, missing.err) == (1, "", "there is no notes://77\n")
    wrong = toolkit("call", "notes.py", "summarise", cwd=tmp_path)
    assert wrong.code == 1
    assert "- id: missing" in wrong.err


def test_check_counts_them_and_names_an_overlap(tmp_path: Path) -> None:
    write(tmp_path, notes=NOTES)
    assert toolkit("serve", "--check", "notes.py", cwd=tmp_path).out == (
        "notes: 1 tool, 2 resources, 1 prompt, no problems\n"
    )
    more = '\n@resource("notes://{name}")\ndef named(name: str) -> str:\n    return name\n'
    write(tmp_path, notes=NOTES + more)
    done = toolkit("serve", "--check", "notes.py", cwd=tmp_path)
    assert done.code == 1
    assert "some URIs fit both notes://{id} and notes://{name}" in done.err
    assert "notes.py:" in done.err
