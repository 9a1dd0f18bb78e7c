"""Both sides in one process: the kernel, and mcp's server behind the same lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

from toolkit import Toolbox
from toolkit_servers.build import ToolServer
from toolkit_servers.protocol.offer import Offer
from toolkit_servers.protocol.wire import Frame, RequestId, parse_line
from toolkit_servers.stdio import _mcp_side
from toolkit_servers.stdio._kernel import Kernel

TURNS = 30
"""Turns of the event loop in which a message is dealt with, with room to spare."""
BOUND = 60.0


class Lines:
    """What one side has written: in place of the pipe to the client."""

    broken = False
    is_full = False

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unanswered: set[RequestId] = set()
        self.answered = asyncio.Event()
        """Set while nobody waits for an answer."""

    def ask(self, request_id: RequestId) -> None:
        self.unanswered.add(request_id)
        self.answered.clear()

    def write(self, line: bytes) -> None:
        self.written.append(line)

    def answer(self, request_id: RequestId, line: bytes) -> None:
        self.unanswered.discard(request_id)
        self.write(line)
        if not self.unanswered:
            self.answered.set()

    async def drained(self) -> None:
        """A client that always reads."""

    def take(self) -> list[Any]:
        """What was written since the last time, in one spelling."""
        written, self.written = self.written, []
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in written)
        return [json.dumps(json.loads(line), sort_keys=True) for line in written]


class Side(Protocol):
    """One of the two."""

    lines: Lines

    def give(self, frame: Frame) -> None: ...
    async def settled(self) -> None: ...
    async def close(self) -> None: ...


class KernelSide:
    """The kernel, with mcp behind it where it needs it."""

    def __init__(self, box: Toolbox, *, reloads: bool) -> None:
        self.lines = Lines()
        self.kernel = Kernel(box, self.lines, reloads=reloads)
        self._is_first = not reloads

    def give(self, frame: Frame) -> None:
        """As over stdio: without the event loop, until a message needs it."""
        if self._is_first and self.kernel.take_first(frame):
            return
        if self._is_first or self.kernel._writer is None:
            self.kernel.enter_loop(self.lines)  # type: ignore[arg-type]
        self._is_first = False
        self.kernel.take(frame)

    async def settled(self) -> None:
        async with asyncio.timeout(BOUND):
            await self.kernel.caught_up()

    async def close(self) -> None:
        await self.kernel.close()


class Judge:
    """`mcp.server.Server` alone. `plain` takes our shortcut past mcp's typed models out of it."""

    def __init__(self, box: Toolbox, *, reloads: bool, plain: bool = True) -> None:
        self.lines = Lines()
        server = ToolServer(Offer(box, notifies=True, reloads=reloads))
        if plain:
            server.middleware.remove(server._shortcut)
        self._inbox: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._task = asyncio.create_task(_mcp_side.serve(server, self, self.lines))  # type: ignore[arg-type]

    async def next(self) -> Frame | None:
        frame = await self._inbox.get()
        if frame is None:
            self._inbox.put_nowait(None)  # at its end a stream stays
        return frame

    def is_for_client(self, answered: object, method: str | None) -> bool:
        return True

    def give(self, frame: Frame) -> None:
        self._inbox.put_nowait(frame)

    async def settled(self) -> None:
        """It has no other thread to wait for."""

    async def close(self) -> None:
        self._inbox.put_nowait(None)
        async with asyncio.timeout(BOUND):
            await self._task


async def play(side: Side, stream: Sequence[bytes], *, all_answered: bool = False) -> list[list[Any]]:
    """What a side says to each line, one after the other, and to the end of the stream.

    `all_answered` waits for the answer to every request, for tools that take their time.
    """
    said = []
    for line in stream:
        item = parse_line(line) if line and not line.isspace() else b""
        if isinstance(item, Frame):
            if item.is_request and item.request_id is not None:
                side.lines.ask(item.request_id)
            side.give(item)
        elif item:
            side.lines.write(item)
        await settle(side)
        if all_answered:
            async with asyncio.timeout(BOUND):
                await side.lines.answered.wait()
        said.append(side.lines.take())
    await side.close()
    return [*said, sorted(side.lines.take())]


async def settle(side: Side) -> None:
    """Let a side deal with what it was given."""
    await side.settled()
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def both(box: Toolbox, stream: Sequence[bytes], *, reloads: bool = False) -> tuple[Any, Any]:
    """What the kernel says, and what mcp says."""
    return await play(KernelSide(box, reloads=reloads), stream), await play(Judge(box, reloads=reloads), stream)
