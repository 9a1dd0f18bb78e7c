"""The same page while the run goes on: served on loopback, for whoever has its address.

A small HTTP server of our own: two GET routes behind a random token that every request
must name, for this machine's own names only (a page from elsewhere that had its name
point here is refused). New events go out as Server-Sent Events; the last message holds
what the run came to. Nothing can be changed through it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

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
_STATUS = {200: "OK", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


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
        if not self._run.is_live():
            raise RunError(f"run {self._run.id} has ended", fix=f"Look at it: toolkit report {self._run.id}")
        self._run.facts  # noqa: B018  (what cannot be read is said here, not to the browser)
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_HEAD_BYTES)
        except OSError as error:
            raise RunError(f"port {self.port} cannot be used: {error.strerror}", fix="Leave --port out") from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        while self._run.is_live():  # noqa: ASYNC110  (another process's end sets no event of ours)
            await asyncio.sleep(_LOOK)
        self._server.close()
        if self._streams:
            await asyncio.wait(self._streams, timeout=_PATIENCE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head.decode("latin-1"), writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, or never asked
        finally:
            self._streams.discard(task)
            writer.close()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        target = rest.partition(" ")[0]
        headers = [line.partition(":") for line in lines]
        hosts = [value.strip().lower() for name, _, value in headers if name.lower() == "host"]
        token, _, path = target.removeprefix("/").partition("/")
        if hosts not in ([f"127.0.0.1:{self.port}"], [f"localhost:{self.port}"]):
            await _send(writer, 403, b"this address is not served here\n")
        elif not hmac.compare_digest(token.encode(), self._token.encode()):
            await _send(writer, 403, b"the address has no valid token\n")
        elif method != "GET":
            await _send(writer, 405, b"this page can only be read\n")
        elif path == "":
            page = await asyncio.to_thread(make_page, live_data(self._run))
            more = f"Content-Security-Policy: {policy(live=True)}; frame-ancestors 'none'\r\n"
            await _send(writer, 200, page.encode(), "text/html; charset=utf-8", more)
        elif path == "events":
            await self._stream(writer)
        else:
            await _send(writer, 404, b"there is nothing here\n")

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, "text/event-stream"))
        try:
            async for event in self._run.follow():
                await _say(writer, "event", event_data(event))
            last = await asyncio.to_thread(ending, self._run)
        except ToolkitError as error:
            last = {"error": error.what}
        await _say(writer, "end", last)


def _head(status: int, kind: str, more: str = "") -> bytes:
    lines = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: {kind}\r\n{more}"
        "Cache-Control: no-store\r\nConnection: close\r\nReferrer-Policy: no-referrer\r\n"
        "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n"
    )
    return lines.encode("latin-1")


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "text/plain", more: str = ""
) -> None:
    writer.write(_head(status, kind, f"{more}Content-Length: {len(body)}\r\n") + body)
    async with asyncio.timeout(_PATIENCE):
        await writer.drain()


async def _say(writer: asyncio.StreamWriter, event: str, data: Any) -> None:
    writer.write(f"event: {event}\ndata: {embedded(data)}\n\n".encode())
    async with asyncio.timeout(_PATIENCE):
        await writer.drain()
