"""Tools that answer in every way there is."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.shared.exceptions import MCPError

from toolkit import Image, Resource, Text, Toolbox, ToolContext, ToolError, tool


@tool(read_only=True, title="Add")
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
async def echo(value: Any = None) -> Any:
    """Give a value back."""
    return value


@tool(structured=True)
async def structured(times: int = 1) -> dict[str, float | None]:
    """Structured."""
    return {"times": times, "none": None, "nan": float("nan")}


@tool
async def blocks() -> list[object]:
    """Every kind of content."""
    return [Text("é\u2028"), Image(b"\x89PNG\r\n\x1a\n"), Resource("file:///a.txt", data="t", mime="text/plain")]


@tool
async def fails(how: str = "tool") -> str:
    """Fail."""
    if how == "protocol":
        raise MCPError(-32042, "open this first", {"url": "x\ud800"})
    if how == "exit":
        raise SystemExit(3)
    raise ToolError("no") if how == "tool" else ValueError(how)


@tool
async def reports(ctx: ToolContext) -> str:
    """Say how far it is."""
    ctx.progress(1)
    ctx.progress(2.5, 4, "é")
    for level in ("debug", "warning", "no such level"):
        ctx.log(f"a {level}", level, {"none": None, "bytes": b"x", "nan": float("nan")})
    ctx.log("plain", "emergency")
    ctx.log("not JSON", "error", object())
    return ctx.call_id


@tool
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


@tool
async def stubborn() -> str:
    """Finish although it is cancelled."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "done all the same"
    return "never"


@tool
def in_thread() -> str:
    """Work in a thread."""
    return "from a thread"


BOX = Toolbox("parity", [add, echo, structured, blocks, fails, reports, wait, stubborn], instructions="Mind the gap.")
WITH_THREADS = Toolbox("threads", [in_thread, echo])
