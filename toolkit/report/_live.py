"""The same page while the run goes on: served on loopback, for whoever has its address.

Two GET routes behind a random token that every request must name, for this machine's own
names only (a page from elsewhere that had its name point here is refused). New events go
out as Server-Sent Events; the last message holds what the run came to. Nothing can be
changed through it.

h11 reads and frames the HTTP, on asyncio's own server. uvicorn would start 45 ms later
with 7 MiB more, sets no time for a request to arrive, and notices only at its next tick
of 0.1 s that it should end.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from typing import TYPE_CHECKING, Any, Self

import h11

from toolkit.errors import RunError, ToolkitError
from toolkit.report._data import ending, event_data, live_data
from toolkit.report._page import embedded, make_page, policy

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

_HEAD_BYTES = 16384
_PATIENCE = 10.0
"""Seconds for a request to arrive, and for one message to leave."""
_LOOK = 0.2
"""Seconds between two looks for whether the run still goes on."""
_HEADERS = [
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]


class LiveReport:
    """The report of a run under way, served between `async with` and its end."""

    def __init__(self, run: StoredRun, *, port: int = 0) -> None:
        self._run = run
        self.port = port
        """The port it serves on, once it does."""
        self._token = secrets.token_urlsafe(24)
        self._streams: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Begin to serve.

        Raises:
            RunError: the run has ended already, or the port is taken.
        """
        if not self._run.is_running():
            raise RunError(f"run {self._run.id} has ended", fix=f"Look at it: toolkit report {self._run.id}")
        self._run.facts  # noqa: B018  (what cannot be read is said here, not to the browser)
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_HEAD_BYTES)
        except OSError as error:
            raise RunError(f"port {self.port} cannot be used: {error.strerror}", fix="Leave --port out") from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *ended: object) -> None:
        self._server.close()
        for stream in list(self._streams):
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://127.0.0.1:{self.port}/{self._token}/"

    async def wait(self) -> None:
        """Return when the run has ended and every open page has been told how."""
        while self._run.is_running():  # noqa: ASYNC110  (another process's end sets no event of ours)
            await asyncio.sleep(_LOOK)
        self._server.close()
        if self._streams:
            await asyncio.wait(self._streams, timeout=_PATIENCE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            asker = _Asker(reader, writer)
            async with asyncio.timeout(_PATIENCE):
                request = await asker.request()
            await self._answer(request, asker)
        except (TimeoutError, OSError, EOFError, h11.ProtocolError):
            pass  # whoever asked has gone, never asked, or speaks no HTTP
        finally:
            self._streams.discard(task)
            writer.close()

    async def _answer(self, request: h11.Request, asker: _Asker) -> None:
        host = dict(request.headers).get(b"host", b"").decode("latin-1").lower()
        token, _, path = request.target.removeprefix(b"/").partition(b"/")
        if host not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            await asker.say(403, "this address is not served here\n")
        elif not hmac.compare_digest(token, self._token.encode()):
            await asker.say(403, "the address has no valid token\n")
        elif request.method != b"GET":
            await asker.say(405, "this page can only be read\n")
        elif path == b"":
            page = await asyncio.to_thread(make_page, live_data(self._run))
            rules = ("Content-Security-Policy", f"{policy(live=True)}; frame-ancestors 'none'")
            await asker.say(200, page, "text/html; charset=utf-8", rules)
        elif path == b"events":
            await self._stream(asker)
        else:
            await asker.say(404, "there is nothing here\n")

    async def _stream(self, asker: _Asker) -> None:
        await asker.send(h11.Response(status_code=200, headers=[("Content-Type", "text/event-stream"), *_HEADERS]))
        try:
            async for event in self._run.follow():
                await asker.tell("event", event_data(event, self._run))
            last = await asyncio.to_thread(ending, self._run)
        except ToolkitError as error:
            last = {"error": error.what}
        await asker.tell("end", last)
        await asker.send(h11.EndOfMessage())


class _Asker:
    """One connection, for one request; whatever is sent must leave in time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    async def request(self) -> h11.Request:
        """What is asked for; a body that may follow is not read.

        Raises:
            EOFError: the connection ended before that.
            h11.RemoteProtocolError: it is no HTTP, or too long.
        """
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_HEAD_BYTES))
        if not isinstance(event, h11.Request):
            raise EOFError
        return event

    async def say(self, status: int, text: str, kind: str = "text/plain", *more: tuple[str, str]) -> None:
        """A whole answer."""
        body = text.encode()
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *more, *_HEADERS]
        await self.send(h11.Response(status_code=status, headers=headers), h11.Data(body), h11.EndOfMessage())

    async def tell(self, name: str, data: Any) -> None:
        """One Server-Sent Event."""
        await self.send(h11.Data(f"event: {name}\ndata: {embedded(data)}\n\n".encode()))

    async def send(self, *events: h11.Event) -> None:
        """Pass events on, and wait until they have left."""
        for event in events:
            self._writer.write(self._http.send(event) or b"")
        async with asyncio.timeout(_PATIENCE):
            await self._writer.drain()
