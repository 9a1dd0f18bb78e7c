"""The other side of `small_tools.py` over HTTP: mcp's MCPServer behind the same uvicorn. Prints its URL."""

from __future__ import annotations

import socket

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("small", log_level="WARNING")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Announcing(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"Serving small at http://127.0.0.1:{port}/mcp", flush=True)


def main() -> None:
    app = server.streamable_http_app()
    # Without sockets of our own: uvicorn's own ones have TCP_NODELAY, and a call takes 1 ms instead of 44.
    Announcing(uvicorn.Config(app, port=0, log_level="warning", access_log=False, lifespan="on")).run()


if __name__ == "__main__":
    main()
