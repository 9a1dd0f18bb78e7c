"""mcp, for what the kernel does not answer: started when it is first needed, and told the story so far.

The story is told in the client's own words: its greeting, that it is ready, the log level it has set. mcp's
answers to these are dropped, since the kernel has answered them. From then on mcp has its part of the
connection: it writes its answers between those of the kernel, and its own requests get ids that
nobody else gives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import traceback
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolkit_servers.protocol.offer import CAPABILITIES_KEY, MODERN_VERSION, VERSION_KEY
from toolkit_servers.protocol.wire import INTERNAL_ERROR, Frame, error_line

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.build import ToolServer
    from toolkit_servers.protocol.offer import Offer
    from toolkit_servers.stdio._kernel import Story
    from toolkit_servers.stdio._streams import LineWriter

_MOST_WAITING = 64
"""Messages for mcp that wait, before no further one is read."""

_STARTING_SECONDS = 30.0
_TOLD_BY_KERNEL = frozenset(f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources"))


class Behind:
    """mcp's server and the messages on their way to it."""

    def __init__(self, offer: Offer, writer: LineWriter, story: Story) -> None:
        self._offer = offer
        self._writer = writer
        self._story = story
        self._server: ToolServer | None = None
        self._inbox: deque[Frame] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self._has_failed = False
        self._taken = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._retold = 0
        self._mark = f"toolkit-{os.urandom(8).hex()}-"
        """How the ids of retold requests begin."""
        self.is_alone = False
        """mcp greets the client itself from now on."""
        self._tell_story()
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def give(self, frame: Frame) -> None:
        """Hand a message on."""
        if self._has_failed:
            self._refuse(frame)
            return
        self._is_idle.clear()
        self._inbox.append(frame)
        self._wake()

    async def caught_up(self) -> None:
        """Wait until mcp has begun to answer all it was given: it may still be on its way in."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STARTING_SECONDS):
                await self._is_idle.wait()

    async def room(self) -> None:
        """Wait until mcp has taken enough of its messages."""
        while len(self._inbox) > _MOST_WAITING and not self._has_failed:
            self._taken.clear()
            await self._taken.wait()

    async def next(self) -> Frame | None:
        """The next message for mcp; None at the end."""
        while not self._inbox:
            if self._is_closed:
                return None
            self._is_idle.set()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        frame = self._inbox.popleft()
        self._taken.set()
        return frame

    def is_for_client(self, answered: object, method: str | None) -> bool:
        """Whether a message of mcp's is to be sent: not an answer to what was only retold."""
        if isinstance(answered, str) and answered.startswith(self._mark):
            return False
        # The kernel tells a client that it has greeted itself.
        return self.is_alone or method not in _TOLD_BY_KERNEL or bool(self._story.is_modern)

    def retell_log_level(self) -> None:
        """Let mcp know the level that the client has set."""
        self._retell("logging/setLevel", {"level": self._story.log_level})

    def adopt(self, box: Toolbox) -> None:
        """The tools were swapped."""
        if self._server is not None:
            self._server.toolbox = box

    async def tell(self, what: str) -> None:
        """Tell the clients that mcp has greeted, those who subscribed and those who listen, that something changed."""
        if self._server is not None:
            await self._server.changes.tell(what)

    def close(self) -> None:
        """There are no more messages."""
        self._is_closed = True
        self._wake()

    def _tell_story(self) -> None:
        story = self._story
        if story.is_ready and not story.is_opened:
            self._inbox.append(_notified("notifications/initialized"))
        if not story.is_opened:
            return
        if story.is_modern:
            self._retell("server/discover", {"_meta": {VERSION_KEY: MODERN_VERSION, CAPABILITIES_KEY: {}}})
            return
        if story.greeting is None:
            self._retell("ping", None)
        else:
            self._retell("initialize", story.greeting)
        if story.is_ready:
            self._inbox.append(_notified("notifications/initialized"))
        if story.log_level is not None:
            self.retell_log_level()

    def _retell(self, method: str, params: dict[str, Any] | None) -> None:
        self._retold += 1
        request_id = f"{self._mark}{self._retold}"
        content = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.give(Frame(content if params is None else {**content, "params": params}, method, request_id, params))

    async def _serve(self) -> None:
        try:
            # In a thread, so that calls go on while it is imported.
            mcp_side = await asyncio.to_thread(import_module, "toolkit_servers.stdio._mcp_side")
            self._server = mcp_side.server_for(self._offer)
            await mcp_side.serve(self._server, self, self._writer)
        except Exception:
            sys.stderr.write(f"mcp cannot go on, so what only mcp can answer is refused\n{traceback.format_exc()}")
            self._has_failed = True
            while self._inbox:
                self._refuse(self._inbox.popleft())
            self._taken.set()
            self._is_idle.set()

    def _refuse(self, frame: Frame) -> None:
        if frame.is_request and self.is_for_client(frame.request_id, None):
            assert frame.request_id is not None
            line = error_line(frame.request_id, INTERNAL_ERROR, "this server cannot answer that now: see its stderr")
            self._writer.answer(frame.request_id, line)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _notified(method: str) -> Frame:
    return Frame({"jsonrpc": "2.0", "method": method}, method)
