"""Keep the bytes that files had when they were recorded, for the day the host changes.

A three-way merge needs them, and so does a diff. While a host file is as it was
copied, it is its own base (see `Hosts.base`); once it changes, only bytes that were
kept here can be merged over. That costs a fraction of a second copy: they are
appended to one store beside the workspace. What was not kept is lost, and said so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit_workspace.record.content import ByteStore, Content, ContentGone, Hosts, is_too_fresh, open_file
from toolkit_workspace.record.folder_table import Folder
from toolkit_workspace.record.manifest import FRESH_NS, Entry, Manifest, join

LARGEST_KEPT = 1 << 20
"""A larger file is not kept: it is hardly a text that merges."""
MOST_KEPT = 1 << 30
LARGEST_FRESH = 64 << 20
"""A file up to this is kept when its bytes would otherwise be lost for sure."""
_BUFFER = 1 << 20


def keep_bases(
    manifest: Manifest,
    store: ByteStore,
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
    with Hosts(manifest, store) as hosts:
        keeper = _Keeper(hosts, root_fd, only_fresh)
        for path in list(manifest.folders):
            if stop() or keeper.kept > MOST_KEPT:
                break
            keeper.folder(path)
        keeper.flush()
    return keeper.kept


def keep_base(manifest: Manifest, store: ByteStore, root_fd: int, path: bytes) -> bool:
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
    manifest.put(replace(entry, base=store.append([data])))
    return True


class _Keeper:
    """Collects bytes folder by folder, since opening a folder costs more than reading a file in it."""

    def __init__(self, hosts: Hosts, root_fd: int, only_fresh: bool) -> None:
        self.hosts, self.manifest, self.root_fd, self.only_fresh = hosts, hosts.manifest, root_fd, only_fresh
        self.kept = 0
        self._waiting: list[tuple[Folder, int, int, bytes]] = []
        self._size = 0

    def folder(self, path: bytes) -> None:
        folder = self.manifest.folders.get(path)
        if folder is None or (self.only_fresh and folder.newest_on_host() <= self.manifest.created_ns - FRESH_NS):
            return
        try:
            fd = open_beneath(self.root_fd, path, READ_DIR)
        except OSError:
            fd = None
        try:
            with self.manifest.lock:
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
            entry = self.manifest.entry(join(path, os.fsencode(name)), folder, position)
            if self.only_fresh and not is_too_fresh(self.manifest, entry):
                return
            if size > LARGEST_FRESH:
                folder.set_host_differs(position)
                return
            data = self._recorded_bytes(entry)
        if data is None:
            return
        self._waiting.append((folder, moves, position, data))
        self._size += len(data)
        if self._size >= _BUFFER:
            self.flush()

    def _recorded_bytes(self, entry: Entry) -> bytes | None:
        """The bytes from the copy while it is untouched, else from the host."""
        try:
            return _copy_of(entry, self.root_fd).read()
        except ContentGone:
            on_host = self.hosts.base(entry)
        try:
            return None if on_host is None else on_host.read()
        except ContentGone:
            return None

    def flush(self) -> None:
        """Write what was collected, and only then note where it is: an offset must never lead to nothing."""
        at = self.hosts.store.append([b"".join(data for *_, data in self._waiting)])
        with self.manifest.lock:
            self.manifest.edits += 1
            for folder, moves, position, data in self._waiting:
                if folder.moves == moves:
                    folder.set_base(position, at)
                at += len(data)
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
    root = partial(os.dup, root_fd)
    return Content(partial(open_file, root, entry.path), entry.size, stamp=(entry.ctime_ns, entry.inode))
