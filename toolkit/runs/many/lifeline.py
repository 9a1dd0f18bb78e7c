"""A line between a caller and the runs in other processes of its machine: when the caller goes, they end.

The caller listens on a socket that nobody else can open; a worker holds a
connection as long as its run lives. The end of the caller's side, by cancellation
or by death, cancels the run; the end of the worker's side says that it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from toolkit._base.processes import boot_id

T = TypeVar("T")
_PATIENCE = 15.0
"""Seconds that runs get to end when their caller goes: an interrupt, a close and a kill fit in."""
_MOUNTS = Path("/proc/self/ns/mnt")
_LONGEST = 70
"""Characters of a temp folder whose sockets still have names that fit."""


class CallerGoneError(Exception):
    """Whoever asked for the run is not there any more."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where a worker finds its caller."""

    machine: str
    path: str


class Lifeline:
    """The caller's side, as an async context manager; leaving it in any way ends the runs that hold on to it."""

    def __init__(self) -> None:
        place = tempfile.gettempdir()
        self._folder = Path(tempfile.mkdtemp(prefix="toolkit-", dir=place if len(place) <= _LONGEST else "/tmp"))
        self.line = Line(_this_machine(), str(self._folder / "line"))
        self._held: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._connected, self.line.path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        for writer in self._held.values():
            with contextlib.suppress(OSError):
                writer.write_eof()
        if self._held:
            await asyncio.wait(set(self._held), timeout=_PATIENCE)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_until_gone(reader, writer))
        self._held[task] = writer
        task.add_done_callback(self._held.pop)


async def _until_gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            await reader.read()
    finally:
        writer.close()


async def hold_on(line: Line, work: Coroutine[Any, Any, T]) -> T:
    """The worker's side: do the work as long as the caller is there. From another machine it is not seen at all.

    Raises:
        CallerGoneError: it went; the work was cancelled and has ended.
    """
    if line.machine != _this_machine():
        return await work
    try:
        reader, writer = await asyncio.open_unix_connection(line.path)
    except PermissionError:  # a worker of another user: it cannot hold on, and it does the work
        return await work
    except OSError:
        work.close()
        raise CallerGoneError from None
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(reader.read())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        raise CallerGoneError
    finally:
        gone.cancel()
        writer.close()


def _this_machine() -> str:
    """The same for processes that see the same files: the host since it was started, and its mounts."""
    try:
        return f"{platform.node()} {boot_id()} {_MOUNTS.readlink()}"
    except OSError:
        return platform.node()
