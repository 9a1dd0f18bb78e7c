"""Making a thousand plain functions into tools that can be listed, against mcp's MCPServer."""

from __future__ import annotations

from collections.abc import Iterator

from mcp.server import MCPServer

from tests.bench._common import Row, interleave
from tests.bench.many_tools import COUNT, make_function
from toolkit import Toolbox, tool


def main() -> Iterator[Row]:
    yield interleave(_ours, _theirs, rounds=5).row("1,000 tools registered", 0.5)


def _ours() -> None:
    box = Toolbox("many", [tool(make_function(number)) for number in range(COUNT)])
    assert len(box.listing()) == COUNT


def _theirs() -> None:
    server = MCPServer("many")
    for number in range(COUNT):
        server.add_tool(make_function(number))
