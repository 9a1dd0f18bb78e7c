"""The bytes every workspace file had when it was recorded: kept, or found on the host, or lost.

A three-way merge needs them, and so does a diff. A host file that is still as it
was copied is its own base. For the day it changes, `keep_bases` appends the bytes
to one store beside the workspace, which costs a fraction of a second copy: no
files are made. What was neither kept nor is still on the host is lost, and said so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace._content import Content, ContentGone, open_file
from toolkit_workspace._hosts import Hosts
from toolkit_workspace._manifest import Entry, Manifest

LARGEST_KEPT = 1 << 20
"""A larger file is not kept: it is hardly a text that merges."""
MOST_KEPT = 1 << 30
_TICK_NS = 20_000_000
_BUFFER = 1 << 20


class BaseStore:
    """Bytes one after the other in a file that only grows; an offset stays good for ever."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()

    def append(self, pieces: list[bytes]) -> list[int]:
        """Add contents and say where each starts; they are in the file when this returns."""
        with self._lock:
            fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                at = os.lseek(fd, 0, os.SEEK_END)
                offsets = []
                for piece in pieces:
                    offsets.append(at)
                    at += len(piece)
                data = memoryview(b"".join(pieces))
                while data:
                    data = data[os.write(fd, data) :]
            finally:
                os.close(fd)
        return offsets

    def content(self, offset: int, size: int) -> Content:
        return Content(self._opened, size, offset)

    def _opened(self) -> int:
        try:
            return os.open(self.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise ContentGone("the kept bytes are gone", where=[f"{self.file}: {error.strerror}"]) from error


class Bases:
    """Finds the recorded bytes of an entry."""

    def __init__(self, manifest: Manifest, store: BaseStore, hosts: Hosts) -> None:
        self.manifest = manifest
        self.store = store
        self.hosts = hosts

    def content(self, entry: Entry) -> Content | None:
        """Where the bytes are now; None when they are lost."""
        if entry.kind != "f":
            return None
        if entry.base >= 0:
            return self.store.content(entry.base, entry.size)
        if not self._host_is_base(entry):
            return None
        return Content(self._opener(entry), entry.size, is_still=entry.host_is_untouched)

    def _host_is_base(self, entry: Entry) -> bool:
        if not entry.host_is_base or entry.mount < 0 or entry.host_size != entry.size:
            return False
        if is_too_fresh(self.manifest, entry):
            return False
        try:
            st = self.hosts.stat(entry.mount, entry.host_path)
        except WorkspaceSecurityError:
            return False
        return st is not None and entry.host_is_untouched(st)

    def _opener(self, entry: Entry) -> Callable[[], int]:
        def opened() -> int:  # with a handle of its own: it may be asked long after these hosts were closed
            with Hosts(self.manifest.mounts) as hosts:
                return open_file(hosts.folder(entry.mount), hosts.place(entry.mount, entry.host_path))

        return opened


def is_too_fresh(manifest: Manifest, entry: Entry) -> bool:
    """Whether the host file was changed so shortly before it was copied that a change after it could hide."""
    return entry.host_ctime_ns > manifest.created_ns - _TICK_NS


def keep_bases(
    manifest: Manifest,
    store: BaseStore,
    root_fd: int,
    hosts: Hosts,
    *,
    only_fresh: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Append the recorded bytes of every small file to the store and note where; the bytes kept.

    With `only_fresh`, just the files whose host copy cannot be told from a later one. A file that
    changed meanwhile on both sides is skipped. Goes on in steps of about 1 MiB until `stop` says so.
    """
    bases, kept = Bases(manifest, store, hosts), 0
    waiting: list[tuple[bytes, bytes]] = []

    def flush() -> None:
        for (path, _), offset in zip(waiting, store.append([data for _, data in waiting]), strict=True):
            manifest.set_base(path, offset)
        waiting.clear()

    size = 0
    for entry in manifest:
        if entry.kind != "f" or entry.base >= 0 or entry.size > LARGEST_KEPT or kept + size > MOST_KEPT:
            continue
        fresh = is_too_fresh(manifest, entry)
        if only_fresh and not fresh:
            continue
        data = _recorded_bytes(bases, entry, root_fd)
        if data is None:
            continue
        waiting.append((entry.path, data))
        size += len(data)
        if size >= _BUFFER:
            flush()
            kept, size = kept + size, 0
            if stop():
                return kept
    flush()
    return kept + size


def _recorded_bytes(bases: Bases, entry: Entry, root_fd: int) -> bytes | None:
    """The bytes from the copy while it is untouched, else from the host."""
    copy = Content(lambda: open_file(root_fd, entry.path), entry.size, is_still=entry.is_untouched)
    try:
        return copy.read()
    except ContentGone:
        on_host = bases.content(entry)
    try:
        return None if on_host is None else on_host.read()
    except ContentGone:
        return None
