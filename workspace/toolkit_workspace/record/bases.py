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
from dataclasses import replace
from pathlib import Path

from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.record.content import Content, ContentGone, open_file
from toolkit_workspace.record.folder_table import Folder
from toolkit_workspace.record.hosts import Hosts
from toolkit_workspace.record.manifest import FRESH_NS, Entry, Manifest, join

LARGEST_KEPT = 1 << 20
"""A larger file is not kept: it is hardly a text that merges."""
MOST_KEPT = 1 << 30
LARGEST_FRESH = 64 << 20
"""A file up to this is kept when its bytes would otherwise be lost for sure."""
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
    return entry.host_ctime_ns > manifest.created_ns - FRESH_NS


def keep_bases(
    manifest: Manifest,
    store: BaseStore,
    root_fd: int,
    *,
    only_fresh: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Append the recorded bytes of every small file to the store and note where; the number of bytes kept.

    With `only_fresh`, just the files, larger ones too, that were changed on the host right before they
    were copied: a later change could carry the same stamp. A file that changed on both sides is skipped.
    Goes on in steps of about 1 MiB until `stop` says so.
    """
    with Hosts(manifest.mounts) as hosts:
        keeper = _Keeper(Bases(manifest, store, hosts), root_fd, only_fresh)
        for path in list(manifest.folders):
            if stop() or keeper.kept > MOST_KEPT:
                break
            keeper.folder(path)
        keeper.flush()
    return keeper.kept


def keep_base(manifest: Manifest, store: BaseStore, root_fd: int, path: bytes) -> bool:
    """Keep the bytes of one file that was put into the workspace later, by `Manifest.put`; False if it changed since.

    Its host file is too fresh to be told from a later version, so without this it could not be merged.
    """
    entry = manifest.get(path)
    if entry is None or entry.kind != "f" or entry.size > LARGEST_FRESH:
        return False
    try:
        data = _copy_of(entry, root_fd).read()
    except ContentGone:
        return False
    manifest.put(replace(entry, base=store.append([data])[0]))
    return True


class _Keeper:
    """Collects bytes folder by folder, since opening a folder costs more than reading a file in it."""

    def __init__(self, bases: Bases, root_fd: int, only_fresh: bool) -> None:
        self.bases, self.root_fd, self.only_fresh = bases, root_fd, only_fresh
        self.kept = 0
        self._waiting: list[tuple[Folder, int, int, bytes]] = []
        self._size = 0

    def folder(self, path: bytes) -> None:
        folder = self.bases.manifest.folders.get(path)
        if folder is None or (self.only_fresh and folder.newest_on_host() <= self.bases.manifest.created_ns - FRESH_NS):
            return
        try:
            fd = open_beneath(self.root_fd, path, READ_DIR)
        except OSError:
            fd = None
        try:
            with self.bases.manifest.lock:
                moves, listed = folder.moves, list(zip(folder.names, folder.are_files, strict=True))
            for position, (name, is_file) in enumerate(listed):
                if is_file and folder.moves == moves:
                    self._file(folder, position, path, name, fd)
        finally:
            if fd is not None:
                os.close(fd)

    def _file(self, folder: Folder, position: int, path: bytes, name: str, fd: int | None) -> None:
        moves = folder.moves
        size, base = folder.size_and_base(position)
        if base >= 0 or (size > LARGEST_KEPT and not self.only_fresh):
            return
        data: bytes | None = None
        if self.only_fresh or fd is None or (data := _copied(fd, name, size, folder, position)) is None:
            entry = self.bases.manifest.entry(join(path, os.fsencode(name)), folder, position)
            if self.only_fresh and not is_too_fresh(self.bases.manifest, entry):
                return
            if size > LARGEST_FRESH:
                folder.set_host_differs(position)
                return
            data = _recorded_bytes(self.bases, entry, self.root_fd)
        if data is None:
            return
        self._waiting.append((folder, moves, position, data))
        self._size += len(data)
        if self._size >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what was collected, and only then note where it is."""
        offsets = self.bases.store.append([waiting[3] for waiting in self._waiting])
        with self.bases.manifest.lock:
            self.bases.manifest.edits += 1
            for (folder, moves, position, _), offset in zip(self._waiting, offsets, strict=True):
                if folder.moves == moves:
                    folder.set_base(position, offset)
        self.kept += self._size
        self._waiting, self._size = [], 0


def _copied(fd: int, name: str, size: int, folder: Folder, position: int) -> bytes | None:
    """The bytes of the copy, None if it was touched."""
    try:
        file = os.open(name, READ_FILE, dir_fd=fd)
    except OSError:
        return None
    try:
        data = os.read(file, size + 1)
        st = os.fstat(file)
    finally:
        os.close(file)
    stamp = (folder.probe[2 * position], folder.probe[2 * position + 1])
    return data if (st.st_ctime_ns, st.st_ino) == stamp and len(data) == size else None


def _copy_of(entry: Entry, root_fd: int) -> Content:
    return Content(lambda: open_file(root_fd, entry.path), entry.size, is_still=entry.is_untouched)


def _recorded_bytes(bases: Bases, entry: Entry, root_fd: int) -> bytes | None:
    """The bytes from the copy while it is untouched, else from the host."""
    try:
        return _copy_of(entry, root_fd).read()
    except ContentGone:
        on_host = bases.content(entry)
    try:
        return None if on_host is None else on_host.read()
    except ContentGone:
        return None
