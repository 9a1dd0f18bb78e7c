"""An HTTP server of the host, heard: each message in its answers is judged before the CLI reads it.

The two sides are joined as HTTP and not as bytes. Answers are asked for without compression. A JSON answer is
held until it is whole, a stream of events until one event is; one that may not pass is kept back. What else
an answer is (a page, an error) a client does not take for a message, so it passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import h11

from toolkit.sandbox.relay.events import Events, NotHeard

Message = Callable[[str, bytes], bool]
"""Gets the path that was asked for and one message of the answer. False keeps it back."""
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

MAX_BODY_BYTES = 64 * 1024 * 1024
_PIECE = 64 * 1024
_SILENCE_SECONDS = 600.0
_LENGTHS = (b"content-length", b"transfer-encoding")
# An answer in another form, or another protocol, could not be heard.
_NOT_ASKED = (b"accept-encoding", b"upgrade", b"http2-settings", b"te")


async def join_http(client: Ends, server: Ends, heard: Message, begun: bytes = b"") -> None:
    """Carry requests and answers until either side is done, or does not keep to HTTP.

    `begun` is what the client has said already.
    """
    joined = _Joined(client[1], server[1], heard)
    reading: dict[asyncio.Future[bytes], bool] = {}
    try:
        if begun:
            joined.take(begun, is_client=True)
        for ends, is_client in ((client, True), (server, False)):
            reading[asyncio.ensure_future(ends[0].read(_PIECE))] = is_client
        while not joined.is_over:
            done, _ = await asyncio.wait(reading, timeout=_SILENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return
            for task in done:
                is_client = reading.pop(task)
                joined.take(task.result(), is_client=is_client)
                ends = client if is_client else server
                reading[asyncio.ensure_future(ends[0].read(_PIECE))] = is_client
            await client[1].drain()
            await server[1].drain()
    except (h11.ProtocolError, NotHeard):
        return
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


@dataclass(slots=True)
class _Joined:
    """Both sides, as far as they have come with one another."""

    to_client: asyncio.StreamWriter
    to_server: asyncio.StreamWriter
    heard: Message
    is_over: bool = False
    _ours: h11.Connection = field(default_factory=lambda: h11.Connection(h11.SERVER))
    """Towards the client."""
    _theirs: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))
    _path: str = ""
    _answer: h11.Response | None = None
    """The head of an answer that is held until it is whole."""
    _body: bytearray = field(default_factory=bytearray)
    _events: Events | None = None

    def take(self, data: bytes, *, is_client: bool) -> None:
        """Go on with what one side has sent; nothing is its end."""
        side = self._ours if is_client else self._theirs
        side.receive_data(data)
        if is_client:
            self._requests()
        else:
            for event in _events(self._theirs):
                self._answers(event)
        if not data:
            self.is_over = True

    def _requests(self) -> None:
        for event in _events(self._ours):
            if isinstance(event, h11.Request):
                self._path = event.target.decode("latin-1").partition("?")[0]
                if not self._path.startswith("/"):
                    raise NotHeard
                headers = [(name, value) for name, value in event.headers if name not in _NOT_ASKED]
                headers.append((b"accept-encoding", b"identity"))
                event = h11.Request(method=event.method, target=event.target, headers=headers)
            if isinstance(event, h11.ConnectionClosed):
                self.is_over = True
            elif sent := self._theirs.send(event):
                self.to_server.write(sent)

    def _answers(self, event: h11.Event) -> None:
        if isinstance(event, h11.Response):
            self._begin(event)
        elif isinstance(event, h11.Data):
            self._go_on(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            self._end(event)
        elif isinstance(event, h11.ConnectionClosed):
            self.is_over = True
        elif isinstance(event, h11.InformationalResponse) and event.status_code != 101:
            self._say(event)

    def _begin(self, head: h11.Response) -> None:
        kind = _all(head, b"content-type")
        is_stream, is_json = "text/event-stream" in kind, "json" in kind
        is_plain = _all(head, b"content-encoding") in ("", "identity")
        if (is_stream and is_json) or ((is_stream or is_json) and not is_plain):
            raise NotHeard
        self._events = Events() if is_stream else None
        headers = [(name, value) for name, value in head.headers if name not in _LENGTHS]
        if is_json:
            self._answer = h11.Response(status_code=head.status_code, headers=headers, reason=head.reason)
        else:
            kept = headers if is_stream else list(head.headers)
            self._say(h11.Response(status_code=head.status_code, headers=kept, reason=head.reason))

    def _go_on(self, data: bytes) -> None:
        if self._answer is not None:
            self._body += data
            if len(self._body) > MAX_BODY_BYTES:
                raise NotHeard
        elif self._events is not None:
            self._pass(self._events.feed(data))
        else:
            self._say(h11.Data(data=data))

    def _end(self, end: h11.EndOfMessage) -> None:
        if self._answer is not None:
            body, head, self._answer, self._body = bytes(self._body), self._answer, None, bytearray()
            if body and not self.heard(self._path, body):
                raise NotHeard
            headers = [*head.headers, (b"content-length", str(len(body)).encode())]
            self._say(h11.Response(status_code=head.status_code, headers=headers, reason=head.reason))
            self._say(h11.Data(data=body))
        elif self._events is not None:
            self._pass(self._events.finish())
        self._say(end)
        states = (side.states[role] for side in (self._ours, self._theirs) for role in (h11.CLIENT, h11.SERVER))
        if any(state is not h11.DONE for state in states):
            self.is_over = True
            return
        self._ours.start_next_cycle()
        self._theirs.start_next_cycle()
        self._requests()  # one that is here already

    def _pass(self, blocks: Iterator[tuple[bytes, bytes | None]]) -> None:
        for block, message in blocks:
            if message is None or self.heard(self._path, message):
                self._say(h11.Data(data=block))

    def _say(self, event: h11.Event) -> None:
        if sent := self._ours.send(event):
            self.to_client.write(sent)


def _all(head: h11.Response, name: bytes) -> str:
    """All values of a header in one text, as a client puts them together."""
    return ", ".join(value.decode("latin-1").lower() for key, value in head.headers if key == name)


def _events(side: h11.Connection) -> Iterator[h11.Event]:
    while True:
        event = side.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            return
        assert isinstance(event, h11.Event)
        yield event
        if isinstance(event, h11.ConnectionClosed):
            return
