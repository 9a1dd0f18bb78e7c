"""The only file of this room that imports mcp: its server loop between our queues and lines."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from anyio import ClosedResourceError, EndOfStream
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolkit._base.json_bytes import json_bytes
from toolkit_servers.build import ToolServer
from toolkit_servers.protocol.wire import result_line

if TYPE_CHECKING:
    from toolkit_servers.protocol.offer import Offer
    from toolkit_servers.protocol.wire import Frame
    from toolkit_servers.stdio._behind import Behind
    from toolkit_servers.stdio._streams import LineWriter


def server_for(offer: Offer) -> ToolServer:
    """mcp's server for the tools that the kernel offers, the same ones after a reload."""
    return ToolServer(offer)


async def serve(server: ToolServer, behind: Behind, writer: LineWriter) -> None:
    """Answer the messages of `behind` until there are no more."""
    async with server.lifespan(server) as state:
        options = server.create_initialization_options()
        reading, writing = _Messages(behind), _Lines(behind, writer)
        await serve_dual_era_loop(server, reading, writing, lifespan_state=state, init_options=options)


class _Stream:
    """What both directions share: the shape of an mcp stream."""

    async def aclose(self) -> None:
        """Nothing to do: the connection outlives mcp's loop."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None


class _Messages(_Stream):
    def __init__(self, behind: Behind) -> None:
        self._behind = behind

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        frame = await self._behind.next()
        if frame is None:
            raise StopAsyncIteration
        return SessionMessage(message_of(frame))

    async def receive(self) -> SessionMessage:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise EndOfStream from None


class _Lines(_Stream):
    def __init__(self, behind: Behind, writer: LineWriter) -> None:
        self._behind = behind
        self._writer = writer

    async def send(self, item: SessionMessage, /) -> None:
        if self._writer.broken:
            raise ClosedResourceError
        message = item.message
        answered = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        if not self._behind.is_for_client(answered, getattr(message, "method", None)):
            return
        if answered is not None:
            self._writer.answer(answered, encode(message))
        else:
            self._writer.write(encode(message))
        await self._writer.drained()


def message_of(frame: Frame) -> JSONRPCMessage:
    """A frame as mcp knows it."""
    kind: type[JSONRPCMessage]
    if frame.method is None:
        kind = JSONRPCResponse if "result" in frame.content else JSONRPCError
    else:
        kind = JSONRPCRequest if frame.is_request else JSONRPCNotification
    return kind.model_validate(frame.content, by_name=False)


def encode(message: JSONRPCMessage) -> bytes:
    """A message of mcp's as one line."""
    if type(message) is JSONRPCResponse:
        return result_line(message.id, message.result)
    return json_bytes(message.model_dump(by_alias=True, exclude_unset=True)) + b"\n"
