"""The other side of `small_tools.py`: mcp's lowlevel Server on its own stdio, checking nothing."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

NUMBER = {"type": "integer"}
ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "quantity": NUMBER, "tags": {"type": "array"}},
    "required": ["name", "quantity", "tags"],
}
ORDER = {
    "type": "object",
    "properties": {"number": NUMBER, "note": {"type": "string"}, "items": {"type": "array", "items": ITEM}},
    "required": ["number", "note", "items"],
}
TOOLS = [
    types.Tool(
        name="add",
        description="Add two numbers.",
        input_schema={"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    ),
    types.Tool(
        name="total",
        description="Count the items of an order.",
        input_schema={"type": "object", "properties": {"order": ORDER}, "required": ["order"]},
    ),
]


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    given = params.arguments or {}
    if params.name == "add":
        value = given["a"] + given["b"]
    else:
        value = sum(item["quantity"] for item in given["order"]["items"])
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(value))])


async def main() -> None:
    server: Server[Any] = Server("small", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
