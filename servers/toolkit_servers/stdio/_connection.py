"""One stdio connection on the event loop: mcp's server loop over our own streams."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from toolkit_servers.reload import server_following
from toolkit_servers.stdio._streams import GRACE, LineReader, LineWriter

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.build import ToolServer
    from toolkit_servers.reload import Reload
    from toolkit_servers.stdio._claim import Wires

_MOST_BEFORE_REQUEST = 8


async def run(tools: Toolbox | Reload, wires: Wires, signals: Sequence[int]) -> None:
    """Serve until the client is gone, or one of the signals comes."""
    loop = asyncio.get_running_loop()
    writer = LineWriter(wires.writing)
    reader = LineReader(wires.reading, writer)

    def give_up_when_stuck() -> None:
        # A client that neither reads nor writes any more keeps us from reading on to its end of file.
        if writer.is_full:
            writer.give_up()
        else:
            loop.call_later(GRACE, give_up_when_stuck)

    def end() -> None:
        reader.stop()
        give_up_when_stuck()

    lifeline = wires.lifeline
    lifeline.attach(loop, on_hangup=lambda: loop.call_later(GRACE, give_up_when_stuck), on_end=end)
    reader.on_end = lifeline.end_soon
    for number in signals:
        # Not the loop's own handlers: these also run while a tool blocks the loop.
        signal.signal(number, lambda _number, _frame: lifeline.end())
    try:
        async with server_following(tools) as server, server.lifespan(server) as state:
            await _serve(server, reader, writer, state)
    finally:
        lifeline.end_soon()
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
