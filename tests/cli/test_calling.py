"""`toolkit call` types its arguments by the schema and prints what the model would read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli._command import toolkit, write
from toolkit.errors import MistypedArguments
from toolkit_servers.target import parse_arguments, usage

TOOLS = """
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from toolkit import Image, Resource, ToolContext, ToolError, ToolResult, tool


class Colour(Enum):
    RED = "red"
    ONE = 1


@dataclass
class Note:
    title: str
    done: bool = False


@tool
def show(
    text: str = "",
    count: int = 0,
    ratio: float = 0.0,
    flag: bool = False,
    words: list[str] = [],
    numbers: list[int] | None = None,
    note: Note | None = None,
    colour: Colour = Colour.RED,
    level: Literal["low", "high"] = "low",
    mixed: int | str = 0,
    anything: Any = None,
) -> str:
    given = dict(locals())
    return "; ".join(f"{name}={value!r}" for name, value in given.items() if value not in ("", None, [], False, 0, "low", Colour.RED))


@tool
def refuse() -> str:
    raise ToolError("no folder 'srcs'; there is: src")


@tool
def not_ok() -> ToolResult[str]:
    return ToolResult("half of it is missing", ok=False)


@tool
def leave() -> str:
    sys.exit(7)


@tool
async def media(context: ToolContext) -> list[Any]:
    context.progress(1, 2, "drawing")
    context.log("almost")
    return ["a dot:", Image(b"\\x89PNG\\r\\n\\x1a\\n12345"), Resource("notes://1", "remember"), Resource("notes://2", b"\\xff\\xfe")]


@tool
def protocol() -> str:
    from mcp import MCPError
    raise MCPError(-32042, "sign in first")


@tool
def loud() -> str:
    print("to nobody")
    return "quiet"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, notes=TOOLS)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["text=5", "count=5", "ratio=5", "flag=true"], "text='5'; count=5; ratio=5.0; flag=True"),
        (["text=a=b c", "mixed=5"], "text='a=b c'; mixed='5'"),
        (["words=a", "words=5"], "words=['a', '5']"),
        (['words=["a", "b"]', "numbers=[1, 2]"], "words=['a', 'b']; numbers=[1, 2]"),
        (["words=a", "numbers=1", "numbers=2"], "words=['a']; numbers=[1, 2]"),
        (['note:={"title": "milk", "done": true}'], "note=Note(title='milk', done=True)"),
        (['note={"title": "milk"}', "level=high"], "note=Note(title='milk', done=False); level='high'"),
        (["colour=1", "mixed:=5"], "mixed=5; colour=<Colour.ONE: 1>"),
        (["anything=5", "text=null", "numbers=null"], "text='null'; anything='5'"),
        (["text=--json", "count=-3"], "text='--json'; count=-3"),
    ],
)
def test_words_take_the_type_the_schema_asks_for(words: list[str], shown: str, folder: Path) -> None:
    done = toolkit("call", "notes.py", "show", *words, cwd=folder)
    assert (sorted(done.out.strip().split("; ")), done.code) == (sorted(shown.split("; ")), 0), done.err


@pytest.mark.parametrize(
    ("tool", "code", "out", "err"),
    [
        ("refuse", 1, "", "no folder 'srcs'; there is: src\n"),
        ("not_ok", 1, "", "half of it is missing\n"),
        ("protocol", 1, "", "protocol answered with protocol error -32042: sign in first\n"),
        ("loud", 0, "quiet\n", "to nobody\n"),
        (
            "media",
            0,
            "a dot:\n[image: image/png, 13 bytes]\n[resource: notes://1, text/plain]\nremember\n"
            "[resource: notes://2, application/octet-stream]\n[2 bytes]\n",
            "progress: 1/2 drawing\ninfo: almost\n",
        ),
    ],
)
def test_results_go_to_stdout_and_all_else_to_stderr(tool: str, code: int, out: str, err: str, folder: Path) -> None:
    done = toolkit("call", "notes.py", tool, cwd=folder)
    assert (done.code, done.out, done.err) == (code, out, err)


def test_a_tool_that_exits_is_an_error_and_nothing_more(folder: Path) -> None:
    done = toolkit("call", "notes.py", "leave", cwd=folder)
    assert done.code == 1
    assert done.err.startswith("leave failed: SystemExit: 7\n  notes.py:")


@pytest.mark.parametrize("tool", ["show", "refuse"])
def test_json_is_the_mcp_result(tool: str, folder: Path) -> None:
    words = ["text=x"] if tool == "show" else []
    done = toolkit("call", "notes.py", tool, "--json", *words, cwd=folder)
    result = json.loads(done.out)
    assert result["isError"] == (tool == "refuse")
    assert [block["type"] for block in result["content"]] == ["text"]
    assert done.code == (1 if tool == "refuse" else 0)


SCHEMA: dict[str, Any] = {
    "properties": {
        "name": {"type": "string"},
        "tree": {"$ref": "#/$defs/Tree"},
        "ids": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "limit": {"type": ["integer", "null"]},
        "level": {"enum": ["low", "high"]},
    },
    "required": ["name"],
    "$defs": {"Tree": {"type": "object"}},
}


@pytest.mark.parametrize(
    "words", [["name"], ["=x"], ["name:={"], ["name=a", "name=b"], ["limit=1", "limit=2"], ["name=a", 'name:="b"']]
)
def test_words_that_cannot_be_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(MistypedArguments, match=words[0].partition("=")[0].rstrip(":") or "key=value"):
        parse_arguments(words, SCHEMA)


def test_references_and_unions_are_followed() -> None:
    words = ['tree={"a": 1}', "ids=3", "limit=null", "unknown=1", "unknown=2"]
    assert parse_arguments(words, SCHEMA) == {"tree": {"a": 1}, "ids": [3], "limit": None, "unknown": ["1", "2"]}


def test_the_usage_names_every_word_a_call_takes() -> None:
    assert usage(SCHEMA) == "name=STRING [tree:=JSON] [ids=INTEGER]... [limit=INTEGER] [level=low|high]"
