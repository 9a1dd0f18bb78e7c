"""A thousand tools, made the same way for both sides: `toolkit serve many_tools.py`, `python many_tools.py`."""

from __future__ import annotations

from collections.abc import Callable

COUNT = 1000


def make_function(number: int) -> Callable[[str, int, list[str] | None], str]:
    """A plain function with a name of its own."""

    def function(text: str, times: int = 1, tags: list[str] | None = None) -> str:
        return f"{text * times} {tags} {number}"

    function.__name__ = f"tool_{number}"
    function.__doc__ = f"Repeat a text, way {number}."
    return function


if __name__ == "__main__":
    from mcp.server import MCPServer

    server = MCPServer("many")
    for number in range(COUNT):
        server.add_tool(make_function(number))
    server.run("stdio")
else:
    from toolkit import Toolbox, tool

    box = Toolbox("many", [tool(make_function(number)) for number in range(COUNT)])
