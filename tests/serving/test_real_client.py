"""Claude Code's own CLI as the client: the model reads the same, whichever way the tools are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import PRELUDE, SERVE, ServedHttp
from toolkit import Toolbox
from toolkit.testing import RealCLI, ScriptedAPI, text, tool_use

SOURCE = """
from dataclasses import dataclass
from toolkit import Image, Text

@dataclass
class Found:
    path: str
    line: int

@tool(read_only=True)
def find(pattern: str, limit: int = 2) -> list[Found]:
    "Find – “quoted” text."
    return [Found(f"{pattern}.py", line) for line in range(limit)]

@tool
def picture() -> list[object]:
    "A text and a picture."
    return [Text("a pixel"), Image(bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f0005"
        "0001ff89993d1d0000000049454e44ae426082"), "image/png")]

@tool
async def call_id(ctx: ToolContext) -> str:
    "The id of this call."
    return ctx.call_id

@tool
def fails() -> str:
    "Fail."
    raise ToolError("no folder 'srcs'; the workspace has: src")

box = Toolbox("ways", [find, picture, call_id, fails])
"""
Seen = tuple[dict[str, Any], list[dict[str, Any]]]
TURNS = [
    [tool_use("mcp__ways__find", {"pattern": "né", "limit": 1}) | {"id": "toolu_find"}],
    [tool_use("mcp__ways__picture", {}) | {"id": "toolu_picture"}],
    [tool_use("mcp__ways__call_id", {}) | {"id": "toolu_call_id"}],
    [tool_use("mcp__ways__fails", {}) | {"id": "toolu_fails"}],
    [tool_use("mcp__ways__find", {"pattern": "x", "limits": 1}) | {"id": "toolu_wrong"}],
    [text("done")],
]


def _box() -> Toolbox:
    names: dict[str, Any] = {"__name__": "ways"}
    exec(compile(PRELUDE + SOURCE, "ways.py", "exec", dont_inherit=True), names)
    box: Toolbox = names["box"]
    return box


@contextmanager
def _served(way: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The CLI's configuration for one way of serving."""
    if way == "in-process":
        yield dict(_box().in_process())
    elif way == "stdio":
        file = folder / "ways.py"
        file.write_text(PRELUDE + SOURCE, encoding="utf-8")
        yield {"type": "stdio", "command": SERVE[0], "args": [*SERVE[1:], str(file)]}
    else:
        with ServedHttp(folder, SOURCE) as served:
            yield {"type": "http", "url": served.url}


async def _read_by_the_model(way: str, folder: Path) -> Seen:
    """The tools offered to the model and the results it reads."""
    with ScriptedAPI(*TURNS) as api, _served(way, folder) as server:
        async with RealCLI(api) as cli:
            async for _ in cli.query("go", mcp_servers={"ways": server}, tools=[]):
                pass
        last = [request for request in api.requests if request.tools][-1]
        offered = {name: entry for name, entry in last.tools.items() if name.startswith("mcp__ways__")}
        return offered, [_without_file_names(result) for result in last.tool_results()]


def _without_file_names(result: dict[str, Any]) -> dict[str, Any]:
    """The CLI keeps pictures in its private directory and says where, which differs from run to run."""
    content = result["content"]
    if isinstance(content, list):
        content = [block for block in content if not block.get("text", "").startswith("[Image: source: ")]
    return {**result, "content": content}


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return asyncio.run(_read_by_the_model("in-process", tmp_path_factory.mktemp("in-process")))


def test_in_process_the_model_is_offered_the_tools_and_reads_their_results(
    in_process: Seen,
) -> None:
    offered, results = in_process
    assert sorted(offered) == sorted(_box().allowed_tools)
    found, picture, call_id, failed, wrong = results
    assert found["content"] == [{"type": "text", "text": '[{"path":"né.py","line":0}]'}]
    assert [block["type"] for block in picture["content"]] == ["text", "image"]
    assert call_id["content"] == [{"type": "text", "text": "toolu_call_id"}]
    assert (failed["is_error"], failed["content"]) == (True, "no folder 'srcs'; the workspace has: src")
    assert wrong["is_error"] is True
    assert "limits" in str(wrong["content"])


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_over_the_wire_the_model_reads_the_same(way: str, tmp_path: Path, in_process: Seen) -> None:
    assert await _read_by_the_model(way, tmp_path) == in_process


async def test_the_cli_takes_a_box_with_two_underscores_in_front() -> None:
    box = Toolbox("__lace-tools", [_box().tools["find"]])
    turns = [tool_use("mcp____lace-tools__find", {"pattern": "x"})], [text("done")]
    with ScriptedAPI(*turns) as api:
        async with RealCLI(api) as cli:
            servers = {box.name: box.in_process()}
            async for _ in cli.query("go", mcp_servers=servers, tools=[], allowed_tools=box.allowed_tools):
                pass
        (result,) = [request for request in api.requests if request.tools][-1].tool_results()
    assert '"x.py"' in str(result["content"])
