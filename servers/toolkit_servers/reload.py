"""Serve tools that follow their source files.

When a file behind the tools changes, they are loaded anew and swapped in between two
requests: connections stay, calls that run finish with the old tools, clients are told
that the list changed. A change that does not load keeps the old tools and says on
stderr what is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolkit.errors import ToolkitError
from toolkit_servers._live import Live

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.build import ToolServer

_Signature = dict[Path, tuple[int, int, int] | None]

_RETRY_SECONDS = 0.5
_LOOK_AGAIN_MS = 300


class Loaded(Protocol):
    """Tools, and the files a change of which may change them."""

    @property
    def toolbox(self) -> Toolbox: ...

    @property
    def files(self) -> Collection[Path]: ...


class Reload:
    """Tools to serve, and how to load them again."""

    def __init__(self, loaded: Loaded, load: Callable[[], Loaded]) -> None:
        self.live = Live(loaded.toolbox)
        self._files = frozenset(loaded.files)
        self._load = load
        self._failed = False
        self._seen = self._signature()

    async def follow(self, server: ToolServer) -> None:
        """Swap the tools whenever their files change, until cancelled."""
        while True:
            folders = {file.parent for file in self._files}
            async with contextlib.aclosing(_changes(folders)) as changes:
                async for _ in changes:
                    if await self._swap_if_changed():
                        await server.announce()
                    if {file.parent for file in self._files} != folders:
                        break

    async def _swap_if_changed(self) -> bool:
        if self._signature() == self._seen:
            return False
        before = _signature(self._files | self._neighbours())
        swapped = await self._swap()
        # What changes while the tools are loaded is for the next turn; so is a file that appears
        # after a failed load, which may have been for want of it.
        self._seen = {
            file: before.get(file, None if self._failed else state) for file, state in self._signature().items()
        }
        return swapped

    async def _swap(self) -> bool:
        # In a thread, so that calls go on while the module is imported.
        loaded = await asyncio.to_thread(self._try_to_load)
        self._failed = loaded is None
        if loaded is None:
            return False
        self._files = frozenset(loaded.files)
        self.live.current = loaded.toolbox
        count = len(loaded.toolbox.tools)
        _say(f"reloaded {loaded.toolbox.name}: {count} {'tool' if count == 1 else 'tools'}")
        return True

    def _try_to_load(self) -> Loaded | None:
        try:
            return self._load()
        except ToolkitError as problem:
            what = str(problem)
        except BaseException:  # also sys.exit() in the user's module
            what = traceback.format_exc().rstrip()
        _say(f"not reloaded, the tools from before are still served\n{what}")
        return None

    def _signature(self) -> _Signature:
        return _signature(self._files | self._neighbours() if self._failed else self._files)

    def _neighbours(self) -> frozenset[Path]:
        return frozenset(file for folder in {file.parent for file in self._files} for file in folder.glob("*.py"))


@contextlib.asynccontextmanager
async def server_following(tools: Toolbox | Reload) -> AsyncIterator[ToolServer]:
    """The server for these tools; inside the block it follows their files, if it is to."""
    from toolkit_servers.build import build_server

    if not isinstance(tools, Reload):
        yield build_server(tools)
        return
    server = build_server(tools.live, reloads=True)
    task = asyncio.create_task(tools.follow(server))
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _changes(folders: Collection[Path]) -> AsyncGenerator[None, None]:
    """Yield when something in these folders may have changed, and now and then for what the watcher missed."""
    import watchfiles

    try:
        async for _ in watchfiles.awatch(
            *folders,
            watch_filter=None,
            recursive=False,
            rust_timeout=_LOOK_AGAIN_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            yield
    except Exception:
        # A folder that was moved away, or a name in it that is not UTF-8: the watcher ends, we do not.
        await asyncio.sleep(_RETRY_SECONDS)
        yield


def _signature(files: Collection[Path]) -> _Signature:
    return {file: _state(file) for file in files}


def _state(file: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = file.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
