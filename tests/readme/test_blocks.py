"""Every block of the README works as it is printed, in a fresh folder, for root and for a plain user."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.readme import page
from tests.readme.people import KINDS, Person, is_here, person
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

PRICES = "def price(cents: int, count: int) -> int:\n    return cents\n"
TEST = """import unittest

from prices import price


class Prices(unittest.TestCase):
    def test_every_piece_is_paid(self) -> None:
        self.assertEqual(price(250, 3), 750)
"""
DOORS, OFFLINE = "Three doors", "Test it offline"
TYPED = {
    ("", "python", 1),
    ("", "console", 2),
    ("Install", "console", 1),
    ("A key", "console", 1),
    ("A first run", "console", 1),
    (DOORS, "python", 2),
    (DOORS, "console", 1),
    (OFFLINE, "python", 2),
    (OFFLINE, "console", 1),
    (OFFLINE, "text", 1),
}
"""The blocks that the tests of this folder type, by section; `./dev demo` and Install are in test_install.py."""


@pytest.fixture(params=KINDS)
def reader(request: pytest.FixtureRequest) -> Iterator[Person]:
    if not is_here(request.param):
        pytest.skip(f"this process cannot act as {request.param}")
    with person(request.param) as somebody:
        yield somebody


@pytest.fixture
def folder(reader: Person) -> Path:
    made = reader.home / "shop"
    made.mkdir()
    return made


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_no_block_of_the_readme_is_left_out() -> None:
    found = [(block.section, block.language) for block in page.blocks()]
    assert {(*block, found.count(block)) for block in found} == TYPED


def test_the_first_tool(reader: Person, folder: Path) -> None:
    (folder / "tools.py").write_text(page.of("", "python")[0].text, encoding="utf-8")
    block = page.of("", "console")[0]
    [line] = block.typed
    assert ok(reader.types(line, folder)) == block.printed


@needs_jail
def test_the_key(reader: Person, folder: Path) -> None:
    [block] = page.of("A key", "console")
    with ScriptedAPI() as api:
        told = ok(reader.types("\n".join(block.typed), folder, env={"ANTHROPIC_BASE_URL": api.url}))
        assert f"{api.url} takes ANTHROPIC_API_KEY" in told


@needs_jail
def test_the_first_run(reader: Person, folder: Path) -> None:
    (folder / "prices.py").write_text(PRICES, encoding="utf-8")
    (folder / "test_prices.py").write_text(TEST, encoding="utf-8")
    git = "git -c user.name=Somebody -c user.email=somebody@example.org"
    ok(reader.types(f"git init -q -b main; git add -A; {git} commit -q -m 'A shop'", folder))
    [block] = page.of("A first run", "console")
    assert [line.split()[1] for line in block.typed] == ["doctor", "run", "runs", "runs"]
    edit = {"file_path": str(folder / "prices.py"), "old_string": "return cents", "new_string": "return cents * count"}
    turns = [[tool_use("Read", file_path=edit["file_path"])], [tool_use("Edit", **edit)], [text("It pays now.")]]
    with ScriptedAPI(*turns, otherwise=[text("Done.")], strict=False) as api:
        env = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "not-a-key"}
        told = [ok(reader.types(line, folder, env=env)) for line in block.typed]
    assert "+    return cents * count" in told[2]
    assert (folder / "prices.py").read_text(encoding="utf-8") == PRICES
    branch = re.search(r"--name (\S+)", block.typed[3])
    assert branch
    assert "+    return cents * count" in ok(reader.types(f"git diff main {branch[1]}", folder))


def test_tools_for_the_sdk_and_a_spec_for_a_run(reader: Person, folder: Path) -> None:
    (folder / "src").mkdir()
    tools, spec = page.of(DOORS, "python")
    (folder / "notes.py").write_text(tools.text, encoding="utf-8")
    (folder / "spec.py").write_text(spec.text, encoding="utf-8")
    shown = "from notes import options; print(options.allowed_tools)"
    assert ok(reader.types(f"python -c {shlex.quote(shown)}", folder)) == "['mcp__notes__find_todos']\n"
    assert ok(reader.types("python -c 'from spec import spec; print(spec.limits.usd)'", folder)) == "3\n"
    assert "src/prices.py:3  read the rate" in ok(reader.types("toolkit call notes.py find_todos folder=src", folder))


def test_serving_the_same_tools(reader: Person, folder: Path) -> None:
    (folder / "notes.py").write_text(page.of(DOORS, "python")[0].text, encoding="utf-8")
    [block] = page.of(DOORS, "console")
    stdio, over_http, install, ready = block.typed
    for line in (stdio, ready):
        ok(reader.types(line, folder))  # a client that closes stdin ends the server
    ok(reader.types(install, folder))
    assert '"notes"' in (folder / ".mcp.json").read_text(encoding="utf-8")
    served_until_interrupted(reader, over_http, folder)


def served_until_interrupted(reader: Person, line: str, folder: Path) -> None:
    """The server says where it is, and ends when Ctrl-C is pressed."""
    with subprocess.Popen(
        reader.command(f"exec {line}"),
        cwd=folder,
        env=reader.env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert select.select([process.stderr], [], [], 60)[0]
            said = process.stderr.readline()
            if said == "port 8000 is in use\n":
                pytest.skip("port 8000, where it is served, is taken on this machine")
            assert "http://127.0.0.1:8000/mcp" in said
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(30) in (0, 130, -signal.SIGINT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@needs_jail
def test_testing_offline(reader: Person, folder: Path) -> None:
    tests, program = page.of(OFFLINE, "python")
    (folder / "test_notes.py").write_text(tests.text, encoding="utf-8")
    (folder / "shouting.py").write_text(program.text, encoding="utf-8")
    [block] = page.of(OFFLINE, "console")
    told = [ok(reader.types(line, folder)) for line in block.typed]
    assert "1 passed" in told[-1]
    assert ok(reader.types("python shouting.py", folder)) == page.of(OFFLINE, "text")[0].text
