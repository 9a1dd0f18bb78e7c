"""One stdio connection on the event loop: the kernel over our own streams."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit_servers.stdio._first import Begun
from toolkit_servers.stdio._kernel import Kernel
from toolkit_servers.stdio._outlet import Outlet
from toolkit_servers.stdio._streams import GRACE, LineReader, LineWriter

if TYPE_CHECKING:
    from toolkit_servers.reload import Reload
    from toolkit_servers.stdio._claim import Wires


async def run(tools: Reload | Begun, wires: Wires, signals: Sequence[int]) -> None:
    """Serve until the client is gone, or one of the signals comes."""
    loop = asyncio.get_running_loop()
    begun = tools if isinstance(tools, Begun) else None
    outlet = Outlet(wires.writing) if begun is None else begun.outlet
    writer = LineWriter(outlet)
    reader = LineReader(
        wires.reading, writer, None if begun is None else begun.unread, has_ended=begun is not None and begun.has_ended
    )

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
        await _serve(tools, reader, writer)
    finally:
        lifeline.end_soon()
        await writer.flushed(GRACE)
        outlet.detach()


async def _serve(tools: Reload | Begun, reader: LineReader, writer: LineWriter) -> None:
    if isinstance(tools, Begun):
        tools.kernel.enter_loop(writer)
        if tools.unsent:
            writer.write(tools.unsent)
        await _talk(tools.kernel, reader)
        return
    from toolkit_servers.reload import following

    kernel = Kernel(tools.target.toolbox, writer, reloads=True)
    kernel.enter_loop(writer)
    async with following(tools, kernel):
        await _talk(kernel, reader)


async def _talk(kernel: Kernel, reader: LineReader) -> None:
    reader.before_end = kernel.caught_up
    try:
        async for frame in reader:
            kernel.take(frame)
            await kernel.room()
    finally:
        reader.close()
        await kernel.close()
