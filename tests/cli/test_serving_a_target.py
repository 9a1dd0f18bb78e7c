"""`toolkit serve` puts a target on the wire, over stdio and HTTP, and says on stderr what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli._command import TOOLKIT, named, toolkit, write
from tests.serving._client import BOUND, HANDSHAKE, Served

TOOLS = "from toolkit import tool\n\n\n@tool\ndef double(number: int) -> int:\n    return number * 2\n"
PRINTS = "from toolkit import tool\n\nprint('loading')\n\n\n@tool\ndef double(number: int) -> int:\n    print('doubling')\n    return number * 2\n"


def served(folder: Path, *options: str) -> Served:
    source = "\n\n@tool\ndef double(number: int) -> int:\n    return number * 2\n"
    return Served(folder, source, options=options)


def test_a_file_is_served_over_stdio_until_the_client_goes(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.initialize()["serverInfo"]["name"] == "served_tools"
        assert server.call("double", number=21) == "42"
        server.close_stdin()
        assert server.process.wait(BOUND) == 0
    assert server.stderr == ""


def test_an_edit_is_served_on_the_same_connection(tmp_path: Path) -> None:
    with served(tmp_path, "--reload") as server:
        assert server.initialize()["capabilities"]["tools"]["listChanged"] is True
        (tmp_path / "side.py").write_text("FACTOR = 10\n", encoding="utf-8")
        edited = TOOLS.replace("double", "times").replace("number * 2", "number * side.FACTOR")
        server.file.write_text("import side\n" + edited, encoding="utf-8")
        assert json.loads(server.read_line())["method"] == "notifications/tools/list_changed"
        assert server.call("times", number=2) == "20"
        (tmp_path / "side.py").write_text("FACTOR = 11\n", encoding="utf-8")
        assert json.loads(server.read_line())["method"] == "notifications/tools/list_changed"
        assert server.call("times", number=2) == "22"


def test_a_print_never_reaches_the_client_and_is_pointed_out_once(tmp_path: Path) -> None:
    write(tmp_path, notes=PRINTS)
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "double", "arguments": {"number": 4}}},
    ]
    done = subprocess.run(
        [TOOLKIT, "serve", "notes.py"],
        input="".join(json.dumps(message) + "\n" for message in messages),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert (
        done.stderr
        == """\
notes.py prints to stdout, which belongs to the client: it goes to stderr instead
  notes.py:3  print('loading')
  Return what the model should read; for your own eyes write print(…, file=sys.stderr). This is said once
loading
doubling
"""
    )


def test_a_broken_target_ends_with_its_message_and_an_untouched_stdout(tmp_path: Path) -> None:
    write(tmp_path, notes="print('before')\nimport no_such_library\n")
    done = toolkit("serve", "notes.py", cwd=tmp_path)
    assert (done.out, done.code) == ("", 1)
    assert "notes.py imports 'no_such_library', which is not installed" in done.err


@contextlib.contextmanager
def http_server(folder: Path) -> Iterator[str]:
    command = [str(TOOLKIT), "serve", "--http", "--port", "0", "notes.py"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert select.select([process.stderr], [], [], BOUND)[0]
            found = re.fullmatch(r"Serving notes at (http://127\.0\.0\.1:\d+/mcp)\n", process.stderr.readline())
            assert found
            yield found[1]
        finally:
            process.terminate()
            process.wait(BOUND)


def test_a_file_is_served_over_http_and_the_address_is_said(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with http_server(tmp_path) as url:
        request = urllib.request.Request(url, body, headers)
        text = urllib.request.urlopen(request, timeout=BOUND).read().decode()
    assert '"name":"notes"' in text


def test_a_port_in_use_is_named_with_a_free_way_out(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = toolkit("serve", "--http", "--port", str(port), "notes.py", cwd=tmp_path)
    assert done.err.replace(str(port), "PORT").replace(str(port + 1), "PORT+1") == (
        "port PORT is in use\n"
        "  127.0.0.1:PORT\n"
        "  Stop the program that listens there, or choose another port: --port PORT+1\n"
    )
    assert (done.out, done.code) == ("", 1)


def test_check_loads_reports_and_stops(tmp_path: Path) -> None:
    write(tmp_path, notes=PRINTS)
    done = toolkit("serve", "--check", "notes.py", cwd=tmp_path)
    assert (done.out, done.err, done.code) == ("notes: 1 tool, no problems\n", "loading\n", 0)


ODD_FIELD = """
from pydantic import BaseModel, Field
from toolkit import tool

class Note(BaseModel):
    title: str = Field(alias="the title")

@tool
def keep(note: Note) -> None: ...
"""


def test_check_warns_of_a_name_that_the_model_api_may_refuse(tmp_path: Path) -> None:
    write(tmp_path, notes=ODD_FIELD)
    done = toolkit("serve", "--check", "notes.py", cwd=tmp_path)
    assert (done.out, done.code) == ("notes: 1 tool, 1 warning\n", 0)
    assert done.err == (
        "warning: tool 'keep': the field 'the title' in note has a name that the model API may not take\n"
        "  notes.py:9  def keep(note: Note) -> None: ...\n"
        '  Give it a name or an alias of 1 to 64 letters (a to z), digits, "_", "." or "-"\n'
    )
    assert toolkit("inspect", "notes.py", cwd=tmp_path).err == done.err


def test_options_of_http_alone_are_a_mistyped_command(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    done = toolkit("serve", "--port", "8001", "notes.py", cwd=tmp_path)
    assert done.code == 2
    assert done.err.endswith("Error: --port goes with --http\n")


def test_a_module_is_found_from_the_folder_given(tmp_path: Path) -> None:
    write(tmp_path, project__app__tools=TOOLS)
    done = toolkit("serve", "--check", "--cwd", "project", "app.tools", cwd=tmp_path)
    assert (done.out, done.code) == ("tools: 1 tool, no problems\n", 0)


def test_a_person_at_the_terminal_is_told_what_it_waits_for(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    terminal, stdin = pty.openpty()
    with subprocess.Popen([TOOLKIT, "serve", "notes.py"], cwd=tmp_path, stdin=stdin, stderr=subprocess.PIPE) as process:
        os.close(stdin)
        assert process.stderr is not None
        said = process.stderr.readline()
        os.close(terminal)
        assert process.wait(BOUND) == 0
    assert said == b"Waiting for an MCP client on stdin. To try a tool: toolkit call notes.py TOOL\n"


@pytest.mark.parametrize("python", ["python", "python3", "python3.11"])
def test_paths_in_these_tests_are_named(tmp_path: Path, python: str) -> None:
    interpreter = Path(sys.executable).with_name(python)
    assert named(f"{interpreter} -m pip {tmp_path}", tmp_path) == "<python> -m pip <here>"
