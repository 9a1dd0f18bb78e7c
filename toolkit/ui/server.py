"""The page, served on loopback behind a random token.

Every request names the token in its path and this machine in its Host. What changes something is a POST of JSON that
the page itself sent: another site's page can neither know the token nor send that.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolkit.errors import RunError, ToolkitError
from toolkit.report import embedded, ending, event_data, live_data, make_page, policy, render_report
from toolkit.report.batches import batch_data, batch_policy, make_batch_page
from toolkit.runs import StoredRun, load_run
from toolkit.ui.actions import ACTIONS
from toolkit.ui.batches import BatchLines
from toolkit.ui.metrics import metrics_text
from toolkit.ui.page import make_ui_page, ui_policy
from toolkit.ui.table import RunTable

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable

_TICK = 0.5
"""Seconds between two looks at the runs."""
_PATIENCE = 10.0
_MOST_BODY = 64 * 1024
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class UiServer:
    """Serves the page between `async with` and its end."""

    def __init__(self, *, home: Path | str | None = None, port: int = 0) -> None:
        self._home = home
        self.port = port
        """The port it serves on, once it does."""
        self._token = secrets.token_urlsafe(24)
        self._table = RunTable(home)
        self._news = asyncio.Condition()
        self._version = 0
        self._batches = BatchLines(home)
        self._log: list[tuple[int, str, Any]] = []
        """What was told, with its number and the name of its event; the latest last."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_over = False

    async def __aenter__(self) -> Self:
        """Begin to serve.

        Raises:
            RunError: the port is taken.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            listener.listen()
        except OSError as error:
            listener.close()
            raise RunError(f"port {self.port} cannot be used: {error.strerror}", fix="Leave --port out") from error
        self.port = listener.getsockname()[1]
        await asyncio.to_thread(self._table.look)
        await asyncio.to_thread(self._batches.look)
        config = uvicorn.Config(
            _Door(self._app(), self),
            log_config=None,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
        )
        self._server = _Quiet(config)
        self._tasks = [asyncio.create_task(self._server.serve([listener])), asyncio.create_task(self._watch())]
        return self

    async def __aexit__(self, *ended: object) -> None:
        self._is_over = True
        async with self._news:
            self._news.notify_all()
        self._server.should_exit = self._server.force_exit = True
        self._tasks[1].cancel()
        await asyncio.wait(self._tasks, timeout=_PATIENCE)

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://127.0.0.1:{self.port}/{self._token}/"

    def may_enter(self, scope: Scope) -> str | None:
        """Why a request is refused; None where it may enter."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        here = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        if headers.get(b"host", "").lower() not in here:
            return "this address is not served here\n"
        token = scope["path"].removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return "the address has no valid token\n"
        if scope["method"] == "POST":
            origin = headers.get(b"origin", "")
            if origin not in [f"http://{name}" for name in here]:
                return "this did not come from the page\n"
            if headers.get(b"content-type", "").partition(";")[0].strip() != "application/json":
                return "an action is sent as JSON\n"
        return None

    def _app(self) -> Starlette:
        routes = [
            Route("/{token}/", self._index),
            Route("/{token}/changes", self._stream),
            Route("/{token}/metrics", self._metrics),
            Route("/{token}/batch/{batch}/", self._batch),
            Route("/{token}/run/{run}/", self._report),
            Route("/{token}/run/{run}/events", self._events),
            Route("/{token}/run/{run}/{action}", self._act, methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={ToolkitError: _in_words})

    async def _index(self, request: Request) -> Response:
        page = await asyncio.to_thread(make_ui_page, self._table.rows(), self._batches.lines(), live=True)
        return _page(page, ui_policy())

    async def _metrics(self, request: Request) -> Response:
        text = metrics_text(self._table.rows(), self._batches.lines())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _batch(self, request: Request) -> Response:
        table = self._batches.table(request.path_params["batch"])

        def page() -> str:
            return make_batch_page(batch_data(table, lambda run: _address(table, run)))

        return _page(await asyncio.to_thread(page), batch_policy())

    async def _report(self, request: Request) -> Response:
        run = self._run(request)
        is_live = run.is_running()
        page = await asyncio.to_thread(lambda: make_page(live_data(run)) if is_live else render_report(run))
        return _page(page, policy(live=is_live))

    async def _events(self, request: Request) -> Response:
        run = self._run(request)
        return StreamingResponse(_told(run), media_type="text/event-stream")

    async def _act(self, request: Request) -> Response:
        run = self._run(request)
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            return PlainTextResponse("there is no such action\n", 404)
        said = await _body(request)
        try:
            done = await asyncio.to_thread(action, run, said)
        except ToolkitError as error:
            return JSONResponse({"error": str(error)}, 409)
        return JSONResponse(done)

    async def _stream(self, request: Request) -> Response:
        return StreamingResponse(self._rows_told(), media_type="text/event-stream")

    async def _rows_told(self) -> AsyncIterator[str]:
        """Every row first, then what changes."""
        version = self._version
        yield f"event: all\ndata: {embedded(self._table.rows())}\n\n"
        yield f"event: batches\ndata: {embedded(self._batches.lines())}\n\n"
        while not self._is_over:
            async with self._news:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _PATIENCE)
            fresh = [entry for entry in self._log if entry[0] > version]
            version = self._version
            for _, name, data in fresh:
                yield f"event: {name}\ndata: {embedded(data)}\n\n"
            yield ": still here\n\n"

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK)  # files of other processes set no event of ours
            rows, gone = await asyncio.to_thread(self._table.look)
            if rows or gone:
                await self._tell("some", {"rows": rows, "gone": gone})
            if await asyncio.to_thread(self._batches.look):
                await self._tell("batches", self._batches.lines())

    async def _tell(self, name: str, data: Any) -> None:
        self._version += 1
        self._log = [*self._log[-200:], (self._version, name, data)]
        async with self._news:
            self._news.notify_all()

    def _run(self, request: Request) -> StoredRun:
        name: str = request.path_params["run"]
        run = load_run(name, self._home)
        if run.id != name:
            raise RunError(f"there is no run '{name}'")
        return run


class _Quiet(uvicorn.Server):
    """Leaves signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


class _Door:
    """Asks of every request whether it may enter, and puts the same headers on every answer."""

    def __init__(self, app: ASGIApp, server: UiServer) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._server.may_enter(scope)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.lower().encode(), value.encode()) for name, value in _HEADERS.items()),
                ]
            await send(message)

        if refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _address(table: BatchTable, run: str) -> str | None:
    """Where the report of a batch's run is, seen from the page of the batch."""
    return f"../../run/{quote(run, safe='')}/" if table.stored(run).folder.is_dir() else None


async def _in_words(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 404)


def _page(text: str, rules: str) -> Response:
    return HTMLResponse(text, headers={"Content-Security-Policy": f"{rules}; frame-ancestors 'none'"})


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent; nothing where it is none, or too long."""
    sent = b""
    async for piece in request.stream():
        sent += piece
        if len(sent) > _MOST_BODY:
            return {}
    with contextlib.suppress(ValueError):
        said = json.loads(sent)
        if isinstance(said, dict):
            return said
    return {}


async def _told(run: StoredRun) -> AsyncIterator[str]:
    try:
        async for event in run.follow():
            yield f"event: event\ndata: {embedded(event_data(event, run))}\n\n"
        last = await asyncio.to_thread(ending, run)
    except ToolkitError as error:
        last = {"error": error.what}
    yield f"event: end\ndata: {embedded(last)}\n\n"
