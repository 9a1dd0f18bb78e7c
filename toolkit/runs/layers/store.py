"""All layers of one state folder: found, held, made by one at a time, and removed when nobody uses them.

A layer is held by its lock as long as a run uses it, shared with others; whoever removes it needs
the lock alone. Whoever makes one holds another lock, by the key, so that of several who
want the same new layer one makes it and the others wait. What a kill left half-made has no holder, and is swept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from toolkit._base.files import state_home
from toolkit._base.handles import remove_folder
from toolkit._base.locks import Lock, take_lock
from toolkit._base.unborn import UNBORN, is_stillborn, unborn_name
from toolkit._base.words import size_text
from toolkit.errors import RunError
from toolkit.runs.layers.layer import FACTS, Layer, lock_file

MOST_BYTES = 10_000_000_000
"""What all layers together may take, if nobody says otherwise."""
LIMIT = "TOOLKIT_SETUPS_LIMIT"
"""The variable that says otherwise, in bytes."""
_MAKING = "making"
_GONE = ".gone"
_POLL = 0.05
_log = logging.getLogger("toolkit.runs")


def layers_home(home: Path | str | None = None) -> Path:
    """The folder of layers, beside the one of runs."""
    return state_home(home) / "setups"


def most_bytes() -> int:
    """What all layers together may take here.

    Raises:
        RunError: the variable is no number.
    """
    written = os.environ.get(LIMIT, "").strip()
    if not written:
        return MOST_BYTES
    if not written.isdecimal():
        raise RunError(f"{LIMIT}={written!r} is no number of bytes", fix=f"Write for example: {LIMIT}={MOST_BYTES}")
    return int(written)


class Layers:
    """The layers of one state folder."""

    def __init__(self, home: Path | str | None = None) -> None:
        self.folder = layers_home(home)

    def all(self, on_damaged: Callable[[RunError], None] | None = None) -> list[Layer]:
        """All layers, the one that was used last first; one that cannot be read is given to `on_damaged`."""
        found = []
        for folder in self._folders():
            try:
                found.append(Layer.read(folder))
            except RunError as error:
                (on_damaged or (lambda damage: _log.warning("%s", damage)))(error)
        return sorted(found, key=lambda layer: layer.used, reverse=True)

    def find(self, name: str) -> Layer:
        """The layer that `name` means: its key, or a beginning of it that no other has.

        Raises:
            RunError: there is none, more than one, or it cannot be read.
        """
        found = [folder for folder in self._folders() if name and folder.name.startswith(name)]
        if len(found) == 1:
            return Layer.read(found[0])
        if not found:
            raise RunError(f"there is no layer '{name}'", where=[str(self.folder)], fix="See: toolkit setups list")
        names = [folder.name for folder in found[:10]]
        raise RunError(f"'{name}' is the beginning of {len(found)} layers", where=names, fix="Write more of it")

    def hold(self, key: str) -> Layer | None:
        """The layer of a key, held until it is released; None where there is none that can be read."""
        folder = self.folder / key
        for _ in range(10):
            lock = self._take(folder)
            if lock is None:
                return None
            try:
                if os.fstat(lock.handle).st_ino == lock_file(folder).stat().st_ino:
                    return Layer.read(folder).held(lock)
            except (OSError, RunError):
                pass  # it was removed, or put in another's place, this instant
            lock.release()
            if not (folder / FACTS).exists():
                return None
        return None

    def _take(self, folder: Path) -> Lock | None:
        try:
            return take_lock(lock_file(folder), create=False, shared=True)
        except OSError:
            return None

    @asynccontextmanager
    async def making(self, key: str, waits: Callable[[], None]) -> AsyncIterator[None]:
        """Be the one who makes the layer of a key; whoever comes meanwhile waits, also in another process.

        `waits` is called once where somebody else makes it just now.
        """
        folder = self.folder / _MAKING
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (lock := take_lock(folder / key)) is None:
            waits()
        # A thread that waits for a lock cannot be cancelled, so it is asked for again and again.
        while lock is None:
            await asyncio.sleep(_POLL)
            lock = take_lock(folder / key)
        with lock:
            yield

    def new(self, key: str) -> tuple[Path, Lock]:
        """An empty folder to make a layer in, and what says that somebody does."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.folder / unborn_name(f"{key}.{secrets.token_hex(4)}")
        folder.mkdir(mode=0o700)
        lock = take_lock(lock_file(folder))
        assert lock is not None, "nobody knows of a folder that was just made"
        return folder, lock

    def place(self, folder: Path, key: str) -> None:
        """A folder is complete: give it the name of its layer, in place of one that is not as it was.

        Raises:
            OSError: it cannot be.
        """
        target = self.folder / key
        if target.exists():
            self._put_aside(target)
        folder.rename(target)

    def remove(self, layer: Layer) -> bool:
        """Remove a layer; False where a run uses it.

        Raises:
            OSError: it cannot be removed.
        """
        try:
            lock = take_lock(lock_file(layer.folder), create=False)
        except FileNotFoundError:
            if not layer.folder.exists():
                return True
            lock = take_lock(lock_file(layer.folder))
        if lock is None:
            return False
        with lock:
            remove_folder(self._put_aside(layer.folder))
        return True

    def _put_aside(self, folder: Path) -> Path:
        return folder.rename(folder.with_name(f".{folder.name}-{secrets.token_hex(4)}{_GONE}"))

    def shrink(self, most: int, *, besides: Iterable[str] = ()) -> list[Layer]:
        """Remove what was not used for longest until the rest takes no more than this; never one in use."""
        kept, removed = {*besides}, []
        layers = self.all()
        total = sum(layer.size for layer in layers)
        for layer in reversed(layers):
            if total <= most:
                break
            with contextlib.suppress(OSError):
                if layer.key not in kept and self.remove(layer):
                    total -= layer.size
                    removed.append(layer)
        if removed:
            _log.info("removed %d layers to keep to %s", len(removed), size_text(most))
        return removed

    def sweep(self) -> list[Path]:
        """Remove what a kill left half-made or half-removed."""
        swept = []
        for rest in (*self.folder.glob(f".*{UNBORN}"), *self.folder.glob(f".*{_GONE}")):
            with contextlib.suppress(OSError):
                if _is_unused(rest) if rest.name.endswith(_GONE) else is_stillborn(rest):
                    remove_folder(rest)
                    swept.append(rest)
        return swept

    def _folders(self) -> list[Path]:
        try:
            return [one for one in self.folder.iterdir() if one.name != _MAKING and not one.name.startswith(".")]
        except FileNotFoundError:
            return []


def _is_unused(folder: Path) -> bool:
    """Whether no run holds a layer that was put aside."""
    try:
        lock = take_lock(lock_file(folder), create=False)
    except FileNotFoundError:
        return True
    if lock is not None:
        lock.release()
    return lock is not None
