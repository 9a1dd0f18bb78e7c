"""One running tools/call: its context, its reports, its one answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from toolkit._base.json_bytes import as_read
from toolkit.tools import ToolContext
from toolkit_servers.protocol.offer import LOG_LEVEL_KEY, TOOL_USE_ID
from toolkit_servers.protocol.reports import CallReports
from toolkit_servers.protocol.wire import CONNECTION_CLOSED, INTERNAL_ERROR, error_line, notification_line, result_line
from toolkit_servers.tracing import enter_trace

if TYPE_CHECKING:
    from toolkit.tools.asking import Asking
    from toolkit_servers.protocol.offer import Offer
    from toolkit_servers.protocol.wire import Frame, RequestId
    from toolkit_servers.stdio._streams import LineWriter

_log = logging.getLogger("toolkit.servers")


class LineNotifier:
    """Sends the reports of one call as lines."""

    def __init__(self, writer: LineWriter, token: RequestId | None) -> None:
        self._writer = writer
        self._token = token

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Say how far the call is, if its client asked."""
        if self._token is None:
            return
        more = {key: value for key, value in (("total", total), ("message", message)) if value is not None}
        await self._send("notifications/progress", {"progressToken": self._token, "progress": done, **more})

    async def log(self, level: str, body: Any) -> None:
        """Send a log message."""
        from pydantic_core import to_jsonable_python

        await self._send("notifications/message", {"level": level, "data": to_jsonable_python(body, exclude_none=True)})

    async def _send(self, method: str, params: dict[str, Any]) -> None:
        if not self._writer.broken:
            self._writer.write(notification_line(method, params))
            await self._writer.drained()


class Call:
    """A call of a tool, from the request to its answer."""

    def __init__(
        self,
        frame: Frame,
        offer: Offer,
        writer: LineWriter,
        log_level: str,
        tell: Callable[[str], Awaitable[None]],
        *,
        modern: bool,
    ) -> None:
        assert frame.request_id is not None
        assert frame.params is not None
        self._request_id = frame.request_id
        self._params = frame.params
        self._offer = offer
        self._writer = writer
        self._tell = tell
        """Tells the client that something changed."""
        self._modern = modern
        meta = frame.params.get("_meta") or {}
        notifier = LineNotifier(writer, meta.get("progressToken"))
        self._reports = CallReports(notifier, meta.get(LOG_LEVEL_KEY) if modern else log_level)
        self._call_id = str(meta.get(TOOL_USE_ID) or frame.request_id)
        self._is_cancelled = False
        """The client waits for no answer any more."""
        self._has_begun = False
        self._task: asyncio.Task[None]

    def start(self, on_done: Callable[[], None]) -> None:
        """Run it as a task of its own; `on_done` is called when nothing is left to cancel."""
        self._task = asyncio.get_running_loop().create_task(self._run(on_done))

    def cancel(self) -> None:
        """The client has cancelled it: tell the tool, and answer nothing."""
        self._is_cancelled = True
        self._reports.drop()
        self._stop()

    def end(self) -> asyncio.Task[None]:
        """The connection ends: tell the tool, and whoever still waits."""
        self._stop()
        return self._task

    def _stop(self) -> None:
        if self._has_begun:
            self._task.cancel()
        else:  # a task that is cancelled before its turn would never begin, and nobody be told
            asyncio.get_running_loop().call_soon(self._task.cancel)

    async def _run(self, on_done: Callable[[], None]) -> None:
        self._has_begun = True
        try:
            line = await self._answer()
        except asyncio.CancelledError:
            self._reports.drop()
            line = error_line(self._request_id, CONNECTION_CLOSED, "Connection closed")
        except Exception as error:
            line = self._failure(error)
        finally:
            on_done()
        if not self._is_cancelled and not self._writer.broken:
            self._writer.answer(self._request_id, line)
            await self._writer.drained()

    async def _answer(self) -> bytes:
        enter_trace(self._params.get("_meta") or {}, self._call_id)
        reports = self._reports
        context = ToolContext(
            call_id=self._call_id,
            on_progress=reports.progress,
            on_log=reports.log,
            on_changed=lambda what: reports.put(lambda: self._tell(what)),
            asking=self._unasked,
        )
        try:
            reply = await self._offer.toolbox.call(self._params["name"], self._params.get("arguments") or {}, context)
        except Exception:
            await self._reports.finish()
            raise
        await self._reports.finish()
        result = reply.wire()
        return result_line(self._request_id, self._offer.stamped(result) if self._modern else result)

    def _unasked(self) -> Asking:
        """Nobody: a call of a client that can be asked for something is mcp's. What to say to others is known there."""
        from toolkit_servers.asking import Unasked

        return Unasked(modern=self._modern)

    def _failure(self, error: Exception) -> bytes:
        """The answer to a call without a reply: a protocol error of the tool's own, or a fault of ours."""
        told = getattr(error, "error", None)
        is_mcps = any(cls.__module__.startswith("mcp.") for cls in type(error).__mro__)
        if is_mcps and told is not None:
            return error_line(self._request_id, told.code, as_read(told.message), as_read(told.data))
        _log.error("a call ended without a reply", exc_info=error)
        if self._modern:
            return error_line(self._request_id, INTERNAL_ERROR, "Internal server error")
        return error_line(self._request_id, 0, str(error))
