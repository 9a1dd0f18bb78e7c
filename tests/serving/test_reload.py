"""--reload: an edit swaps the tools under a live connection; a broken one keeps the old tools."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.subscriptions import ToolsListChanged

from tests.serving._client import BOUND, ENVELOPE, PRELUDE, Served, ServedHttp, wait_until

SOURCE = """
from helper import GREETING
import os

@tool
def greet() -> str:
    "Say hello."
    return f"{GREETING} from {os.getpid()}"

box = Toolbox("edited", [greet])
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "helper.py").write_text("GREETING = 'hello'\n", encoding="utf-8")
    with Served(tmp_path, SOURCE, options=["--reload"]) as served:
        yield served


def _edit(file: Path, text: str) -> None:
    """Write as editors do: the finished file takes the place of the old one."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def _wait_for_change(served: Served) -> None:
    """Wait for the next tools/list_changed."""
    deadline = time.monotonic() + BOUND
    while time.monotonic() < deadline:
        message = json.loads(served.read_line())
        if message.get("method") == "notifications/tools/list_changed":
            return
    raise TimeoutError


def _tools(served: Served) -> list[str]:
    return [tool["name"] for tool in served.request("tools/list")["tools"]]


def test_an_edit_swaps_the_tools_of_the_same_connection(served: Served) -> None:
    assert served.initialize()["capabilities"]["tools"] == {"listChanged": True}
    before = served.call("greet")
    _edit(served.file, PRELUDE + SOURCE.replace("def greet", "def welcome").replace("[greet]", "[welcome]"))
    _wait_for_change(served)
    assert _tools(served) == ["welcome"]
    assert served.call("welcome") == before  # the same process


def test_an_edit_of_an_imported_module_counts_too_also_twice_in_one_second(served: Served) -> None:
    served.initialize()
    assert served.call("greet").startswith("hello from")
    for greeting in ("hallo", "salut"):
        _edit(served.folder / "helper.py", f"GREETING = '{greeting}'\n")
        _wait_for_change(served)
        assert served.call("greet").startswith(f"{greeting} from")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("def greet(:\n", "served_tools.py:1"),
        ("raise ValueError('at import')\n", "at import"),
        ("raise SystemExit(3)\n", "SystemExit"),
        (PRELUDE + "@tool\ndef greet(untyped) -> str:\n    'Hi.'\n    return ''\n", "untyped"),
    ],
    ids=["syntax", "raises", "exits", "no tool"],
)
def test_a_broken_edit_keeps_the_old_tools_and_says_what_is_wrong(served: Served, broken: str, said: str) -> None:
    served.initialize()
    _edit(served.file, broken)
    wait_until(lambda: said in served.stderr)
    assert "not reloaded, the tools from before are still served" in served.stderr
    assert served.call("greet").startswith("hello from")
    _edit(served.file, PRELUDE + SOURCE.replace("hello", "hi"))
    _wait_for_change(served)
    assert _tools(served) == ["greet"]


def test_a_missing_import_is_found_once_it_is_there(served: Served) -> None:
    served.initialize()
    _edit(served.file, PRELUDE + SOURCE.replace("from helper", "from other"))
    wait_until(lambda: "not reloaded" in served.stderr)
    _edit(served.folder / "other.py", "GREETING = 'found'\n")
    _wait_for_change(served)
    assert served.call("greet").startswith("found from")


def test_a_file_name_that_is_not_utf_8_does_not_end_the_following(served: Served) -> None:
    served.initialize()
    for name in (b"caf\xe9.py", b"caf\xe9.txt"):
        Path(os.fsdecode(os.fsencode(served.folder) + b"/" + name)).write_text("", encoding="utf-8")
        served.call("greet")
    for greeting in ("hallo", "salut"):
        _edit(served.folder / "helper.py", f"GREETING = '{greeting}'\n")
        _wait_for_change(served)
        assert served.call("greet").startswith(f"{greeting} from")


def test_a_call_that_runs_ends_with_the_tools_it_began_with(tmp_path: Path) -> None:
    source = """
    import pathlib, time

    @tool
    def wait_for(file: str) -> str:
        "Wait for a file."
        print("waiting", flush=True)
        while not pathlib.Path(file).exists():
            time.sleep(0.01)
        return "old"

    box = Toolbox("slow", [wait_for])
    """
    with Served(tmp_path, source, options=["--reload"]) as served:
        served.initialize()
        served.send("tools/call", {"name": "wait_for", "arguments": {"file": str(tmp_path / "go")}}, request_id="old")
        wait_until(lambda: "waiting" in served.stderr)
        _edit(served.file, served.file.read_text().replace('"old"', '"new"'))
        _wait_for_change(served)
        (tmp_path / "go").touch()
        assert served.read()["result"]["content"][0]["text"] == "old"
        assert served.call("wait_for", file=str(tmp_path / "go")) == "new"


def test_in_2026_07_28_a_listening_client_is_told(served: Served) -> None:
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    served.send("subscriptions/listen", wanted, request_id="listen")
    assert json.loads(served.read_line())["method"] == "notifications/subscriptions/acknowledged"
    _edit(served.folder / "helper.py", "GREETING = 'hey'\n")
    _wait_for_change(served)
    result = served.request("tools/call", {"name": "greet", "arguments": {}, "_meta": ENVELOPE})
    assert result["content"][0]["text"].startswith("hey from")


async def test_over_http_a_listening_client_is_told_and_calls_the_new_tool(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("GREETING = 'hello'\n", encoding="utf-8")
    with ServedHttp(tmp_path, SOURCE, options=["--reload"]) as served:
        async with Client(served.url) as client, client.listen(tools_list_changed=True) as events:
            _edit(tmp_path / "helper.py", "GREETING = 'hey'\n")
            async for event in events:
                assert isinstance(event, ToolsListChanged)
                break
            result = await client.call_tool("greet", {})
            assert result.content[0].model_dump()["text"].startswith("hey from")


def test_without_reload_no_change_is_promised(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("GREETING = 'hello'\n", encoding="utf-8")
    with Served(tmp_path, SOURCE) as served:
        assert served.initialize()["capabilities"]["tools"] == {"listChanged": False}


def test_end_of_file_ends_the_process_also_while_files_are_followed(served: Served) -> None:
    served.initialize()
    served.close_stdin()
    assert (served.wait(), served.stderr) == (0, "")
