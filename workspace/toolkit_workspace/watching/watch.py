"""Watch a prepared workspace: keep it in step with the host, or report what the agent does.

watchfiles says where to look; what is true is decided by looking. It loses events in
folders that were just made, so a new folder is looked at again a moment later; it
ends on a name that is not UTF-8, so it is started again and everything is looked at;
and a slow full look catches whatever else was missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from toolkit_workspace.record.trouble import in_words_of

Direction = Literal["host→workspace", "workspace→events", "host->workspace", "workspace->events"]

EventKind = Literal["copied", "removed", "merged", "conflict", "over budget", "added", "modified", "deleted"]

_MANY_FOLDERS = 500
_AGAIN_SECONDS = (0.1, 0.5)
_STEP_MS, _DEBOUNCE_MS = 10, 60


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One thing that happened to a file, folder or link."""

    kind: EventKind
    """Host→workspace: copied, removed, conflict, over budget; merged by an update. Else added, modified, deleted."""
    path: str
    """Relative to the workspace."""
    detail: str = ""


class Affected:
    """Which folders of a mount a pass looks at."""

    def __init__(self, folders: Iterable[bytes] = (), trees: Iterable[bytes] = ()) -> None:
        """`folders` are looked at themselves, `trees` with all below them; the empty path is the mount itself."""
        self.folders = frozenset(folders)
        self.trees = frozenset(trees)
        self._above = {above for path in (*self.folders, *self.trees) for above in _steps(path)}

    def covers(self, path: bytes) -> bool:
        """Whether a folder is one of those to be looked at."""
        return path in self.folders or any(step in self.trees for step in _steps(path))

    def leads_to(self, path: bytes) -> bool:
        """Whether a folder has to be walked through, or looked at."""
        return path in self._above or self.covers(path)


def _steps(path: bytes) -> Iterator[bytes]:
    """A path and all folders above it, up to the empty one."""
    while path:
        yield path
        path = path.rpartition(b"/")[0]
    yield b""


_EVERYTHING = Affected(trees=[b""])


class Work(Protocol):
    """What is done when something changed; called in a thread, one call at a time."""

    def tops(self) -> list[tuple[Path, bool]]:
        """The folders to watch, and whether with all below them."""

    def run(self, affected: dict[int, Affected]) -> list[WatchEvent]:
        """Look at the affected folders of each top."""

    def close(self) -> None: ...


@dataclass(slots=True)
class _Pending:
    """What is to be looked at next, by the number of the watched folder."""

    paths: dict[int, set[str]] = field(default_factory=dict)
    trees: dict[int, set[bytes]] = field(default_factory=dict)
    later: list[tuple[float, int, bytes]] = field(default_factory=list)
    """When to look again at which tree of which top."""

    def take(self, now: float) -> tuple[dict[int, set[str]], dict[int, set[bytes]]]:
        for when, number, tree in [one for one in self.later if one[0] <= now]:
            self.trees.setdefault(number, set()).add(tree)
            self.later.remove((when, number, tree))
        paths, self.paths = self.paths, {}
        trees, self.trees = self.trees, {}
        return paths, trees


class Watching:
    """A running watch: an async context manager, and the events as an async iterator."""

    def __init__(self, work: Callable[[], Work], *, rescan_seconds: float) -> None:
        self._make = work
        self._rescan_seconds = rescan_seconds
        self._events: asyncio.Queue[WatchEvent | BaseException | None] = asyncio.Queue()
        self._pending = _Pending()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._work = await asyncio.to_thread(self._make)
        self._tops = self._work.tops()
        loop = asyncio.get_running_loop()
        for number, (top, recursive) in enumerate(self._tops):
            self._tasks.append(loop.create_task(self._watch(number, top, recursive)))
            # Nobody says when the watch is set up: look again once it must be.
            self._look_again(number, b"")
        self._tasks.append(loop.create_task(self._run()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._stop.set()
        self._wake.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._turn:  # a pass in its thread ends by itself
            await asyncio.to_thread(self._work.close)
        self._events.put_nowait(None)

    async def settle(self) -> None:
        """Look at everything now; afterwards all changes made before the call are taken in and their events queued."""
        await self._pass(dict.fromkeys(range(len(self._tops)), _EVERYTHING))

    def __aiter__(self) -> AsyncIterator[WatchEvent]:
        return self

    async def __anext__(self) -> WatchEvent:
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise StopAsyncIteration
        if isinstance(event, BaseException):
            raise event
        return event

    def _look_again(self, number: int, tree: bytes) -> None:
        now = asyncio.get_running_loop().time()
        self._pending.later += [(now + seconds, number, tree) for seconds in _AGAIN_SECONDS]
        self._wake.set()

    async def _watch(self, number: int, top: Path, recursive: bool) -> None:
        """Collect what watchfiles reports, starting it again as often as it ends."""
        from watchfiles import awatch

        while not self._stop.is_set():
            with contextlib.suppress(Exception):  # a name that is not UTF-8, a top that is gone, no more watches
                async for batch in awatch(
                    top,
                    watch_filter=None,
                    step=_STEP_MS,
                    debounce=_DEBOUNCE_MS,
                    stop_event=self._stop,
                    recursive=recursive,
                    ignore_permission_denied=True,
                ):
                    self._pending.paths.setdefault(number, set()).update(path for _, path in batch)
                    self._wake.set()
            self._look_again(number, b"")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 0.05)

    async def _run(self) -> None:
        """Look where something happened, and everywhere from time to time."""
        loop = asyncio.get_running_loop()
        next_rescan = loop.time() + self._rescan_seconds
        try:
            while not self._stop.is_set():
                due = min([next_rescan, *(when for when, _, _ in self._pending.later)])
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), max(0.0, due - loop.time()))
                self._wake.clear()
                paths, trees = self._pending.take(loop.time())
                if loop.time() >= next_rescan:
                    trees = {number: {b""} for number in range(len(self._tops))}
                affected = await asyncio.to_thread(self._affected, paths, trees)
                await self._pass(affected)
                if loop.time() >= next_rescan:
                    next_rescan = loop.time() + self._rescan_seconds
                for number, one in affected.items():
                    for tree in one.trees - trees.get(number, set()):
                        self._look_again(number, tree)
        except Exception as error:  # the reader of the events hears about it
            told = in_words_of(error, "the watch cannot go on") if isinstance(error, OSError) else error
            self._events.put_nowait(told)
            self._events.put_nowait(None)

    async def _pass(self, affected: dict[int, Affected]) -> None:
        if affected:
            async with self._turn:
                for event in await asyncio.to_thread(self._work.run, affected):
                    self._events.put_nowait(event)

    def _affected(self, paths: dict[int, set[str]], trees: dict[int, set[bytes]]) -> dict[int, Affected]:
        """The folders that hold what was reported; a folder that was reported itself with all below it."""
        found = {}
        for number in {*paths, *trees}:
            top = os.fsencode(self._tops[number][0])
            folders: set[bytes] = set()
            whole = set(trees.get(number, ()))
            for path in paths.get(number, ()):
                inner = os.fsencode(path)[len(top) :].strip(b"/")
                above, _, name = inner.rpartition(b"/")
                folders.add(above)
                if name == b".gitignore":
                    whole.add(above)  # its rules speak about everything below
                elif inner and _is_folder(path):
                    whole.add(inner)
            if len(folders) > _MANY_FOLDERS:
                whole = {b""}
            found[number] = Affected(folders, whole)
        return found


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
