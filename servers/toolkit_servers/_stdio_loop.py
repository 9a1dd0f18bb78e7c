"""One stdio connection on the event loop: mcp's server loop over our own streams."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from toolkit_servers._end import Lifeline
from toolkit_servers._lines import GRACE, LineReader, LineWriter
from toolkit_servers.reload import server_following

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.build import ToolServer
    from toolkit_servers.reload import Reload
    from toolkit_servers.stdio import Wires

_MOST_BEFORE_REQUEST = 8


async def run(tools: Toolbox | Reload, wires: Wires) -> None:
    """Serve until the client is gone."""
    loop = asyncio.get_running_loop()
    writer = LineWriter(wires.writing)
    reader = LineReader(wires.reading, writer)

    def hung_up() -> None:
        loop.call_later(GRACE, give_up_when_stuck)

    def give_up_when_stuck() -> None:
        # A client that neither reads nor writes any more keeps us from reading on to its end of file.
        if writer.is_full:
            writer.give_up()
        else:
            hung_up()

    line = Lifeline(wires.reading, wires.parent, on_hangup=hung_up, on_parent_death=reader.stop)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, reader.stop)
    reader.on_end = line.end_soon
    try:
        async with server_following(tools) as server, server.lifespan(server) as state:
            await _serve(server, reader, writer, state)
    finally:
        line.end_soon()
        await writer.flushed(GRACE)
        writer.detach()


async def _serve(server: ToolServer, reader: LineReader, writer: LineWriter, state: Any) -> None:
    """Serve in the era the client opens with.

    mcp's loop for both eras passes every message through one more task. A client that
    opens with the handshake can stay in that era only, so it gets the plain loop.
    """
    lead: list[SessionMessage] = []
    async for item in reader:
        if isinstance(item.message, JSONRPCRequest) or len(lead) < _MOST_BEFORE_REQUEST:
            lead.append(item)
        if isinstance(item.message, JSONRPCRequest):
            break
    reader.put_back(lead)
    serve = serve_loop if lead and getattr(lead[-1].message, "method", "") == "initialize" else serve_dual_era_loop
    options = server.create_initialization_options()
    await serve(server, reader, writer, lifespan_state=state, init_options=options)
