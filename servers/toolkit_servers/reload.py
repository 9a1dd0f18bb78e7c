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
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolkit._base.words import count_text
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.build import ToolServer
    from toolkit_servers.target import Target

_Signature = dict[Path, tuple[int, int, int] | None]

_RETRY_SECONDS = 0.5
_LOOK_AGAIN_MS = 300


class Follower(Protocol):
    """A server whose tools can be swapped."""

    async def swap(self, box: Toolbox) -> None:
        """Put another box in place of the one before, and tell every connected client."""


class Reload:
    """A target whose tools are loaded again whenever its files change: serve it in place of a Toolbox."""

    def __init__(self, target: Target) -> None:
        self.target = target
        """What was loaded last."""
        self._failed = False
        self._seen = self._signature()

    async def follow(self, server: Follower) -> None:
        """Swap the tools of a server whenever their files change, until cancelled."""
        while True:
            folders = self._folders()
            async with contextlib.aclosing(_changes(folders)) as changes:
                async for _ in changes:
                    if await self._load_if_changed():
                        await server.swap(self.target.toolbox)
                    if self._folders() != folders:
                        break

    async def _load_if_changed(self) -> bool:
        if self._signature() == self._seen:
            return False
        before = _signature(self.target.files | self._neighbours())
        # In a thread, so that calls go on while the module is imported.
        loaded = await asyncio.to_thread(self._try_to_load)
        self._failed = loaded is None
        if loaded is not None:
            self.target = loaded
            _say(f"reloaded {loaded.toolbox.name}: {count_text(len(loaded.toolbox), 'tool')}")
        # What changes while the tools are loaded is for the next turn; so is a file that appears
        # after a failed load, which may have been for want of it.
        self._seen = {file: before.get(file, None if self._failed else now) for file, now in self._signature().items()}
        return loaded is not None

    def _try_to_load(self) -> Target | None:
        from toolkit_servers.target import load_again

        try:
            return load_again(self.target)
        except ToolkitError as problem:
            what = str(problem)
        except BaseException:  # also sys.exit() in the user's module
            what = traceback.format_exc().rstrip()
        _say(f"not reloaded, the tools from before are still served\n{what}")
        return None

    def _signature(self) -> _Signature:
        return _signature(self.target.files | self._neighbours() if self._failed else self.target.files)

    def _folders(self) -> frozenset[Path]:
        return frozenset(file.parent for file in self.target.files)

    def _neighbours(self) -> frozenset[Path]:
        return frozenset(file for folder in self._folders() for file in folder.glob("*.py"))


@contextlib.asynccontextmanager
async def server_following(tools: Toolbox | Reload) -> AsyncIterator[ToolServer]:
    """The server for these tools; inside the block it follows their files, if it is to."""
    from toolkit_servers.build import build_server

    if isinstance(tools, Reload):
        server = build_server(tools.target.toolbox, reloads=True)
        async with following(tools, server):
            yield server
    else:
        yield build_server(tools)


@contextlib.asynccontextmanager
async def following(tools: Reload, server: Follower) -> AsyncIterator[None]:
    """Inside the block the tools of `server` follow their files."""
    task = asyncio.create_task(tools.follow(server))
    try:
        yield
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
    return {file: _version(file) for file in files}


def _version(file: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = file.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
