"""Keep the bytes that files had when they were recorded, for the day the host changes.

A three-way merge needs them, and so does a diff. While a host file is as it was
copied, it is its own base (see `Hosts.base`); once it changes, only bytes that were
kept here can be merged over. That costs a fraction of a second copy: they are
appended to one store beside the workspace. What was not kept is lost, and said so.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from toolkit._base.files import write_all
from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit_workspace.record.content import (
    Content,
    ContentGone,
    Hosts,
    Source,
    is_too_fresh,
    open_file,
    open_stored,
    pieces_of,
)
from toolkit_workspace.record.record import FRESH_NS, Record, Row, Rows, join
from toolkit_workspace.record.trouble import Unreadable

LARGEST_KEPT = 1 << 20
"""A larger file is not kept: it is hardly a text that merges."""
MOST_KEPT = 1 << 30
LARGEST_FRESH = 64 << 20
"""A file up to this is kept when its bytes would otherwise be lost for sure."""
_BUFFER = 1 << 20
_MOST_WAITING = 1_000
"""Files whose bytes are collected at once: a tree can have a million empty ones."""


class ByteStore:
    """Bytes one after the other in a file that only grows; an offset stays good for ever.

    One file instead of many: it costs one sync, and no files are made.
    """

    def __init__(self, file: Path, below: Callable[[], Path | None] = lambda: None) -> None:
        self.file = file
        self.below = below
        """The kept copy that a workspace lies over, if it does: what that holds need not be kept again."""
        self._lock = threading.Lock()

    def append(self, pieces: Iterable[bytes]) -> int:
        """Add bytes and say where they start; they are in the file when this returns."""
        with self._lock:
            fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                start = os.lseek(fd, 0, os.SEEK_END)
                write_all(fd, pieces)
            finally:
                os.close(fd)
        return start

    def keep(self, source: Source) -> tuple[Content, str]:
        """Append bytes from elsewhere; where they are from now on, and their digest."""
        digest, size = hashlib.sha256(), 0

        def passing() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces_of(source):
                digest.update(piece)
                size += len(piece)
                yield piece

        start = self.append(passing())
        return self.content(start, size), digest.hexdigest()

    def content(self, offset: int, size: int) -> Content:
        return Content(partial(open_stored, self.file), size, offset)


def keep_bases(
    record: Record,
    store: ByteStore,
    root: int,
    *,
    only_fresh: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Append the recorded bytes of every small file to the store and note where; the number of bytes kept.

    With `only_fresh`, just the files, larger ones too, that were changed on the host right before they
    were copied: a later change could carry the same stamp. A file that changed on both sides is skipped.
    Goes on in steps of about 1 MiB until `stop` says so.
    """
    keeping = _Keeping(record, store, root, only_fresh)
    newer_than = record.created_ns - FRESH_NS if only_fresh else 0
    for path in record.folders_with_host_files(newer_than):
        if stop() or keeping.kept > MOST_KEPT:
            break
        keeping.folder(path)
    keeping.flush()
    return keeping.kept


def keep_base(record: Record, store: ByteStore, root: int, path: bytes) -> bool:
    """Keep the bytes of one file that was put into the workspace later, by `Record.put`; False if it changed since.

    Its host file is too fresh to be told from a later version, so without this it could not be merged.
    """
    row = record.get(path)
    if row is None or row.kind != "f" or row.copy.size > LARGEST_FRESH:
        return False
    try:
        data = _copy_of(row, root).read()
    except ContentGone:
        return False
    record.put(row._replace(base=store.append([data])))
    return True


class _Keeping:
    """Collects bytes folder by folder, since opening a folder costs more than reading a file in it."""

    def __init__(self, record: Record, store: ByteStore, root: int, only_fresh: bool) -> None:
        self.record, self.store, self.root, self.only_fresh = record, store, root, only_fresh
        self.kept = 0
        self._waiting: list[tuple[Rows, int, int, bytes]] = []
        self._size = 0

    def folder(self, path: bytes) -> None:
        rows = self.record.folders.get(path)
        if rows is None:  # forgotten meanwhile
            return
        try:
            fd = open_beneath(self.root, path, READ_DIR)
        except OSError:
            fd = None
        try:
            with self.record.lock:
                moves, files = rows.moves, rows.files_without_base()
            for position, name, size, identity in files:
                if rows.moves != moves:
                    break
                if size <= LARGEST_KEPT or self.only_fresh:
                    data = None if self.only_fresh or fd is None else _untouched_bytes(fd, name, size, identity)
                    if data is None:
                        data = self._recorded_bytes(rows, position, join(path, os.fsencode(name)))
                    if data is not None:
                        self._collect(rows, moves, position, data)
                    elif self.only_fresh and is_too_fresh(self.record, rows.row(position)):
                        rows.change(position, host_is_base=False)  # its stamp proves nothing, and its bytes are lost
        finally:
            if fd is not None:
                os.close(fd)

    def _recorded_bytes(self, rows: Rows, position: int, path: bytes) -> bytes | None:
        """The bytes from the copy while it is untouched, else from the host; None if they are not to be kept."""
        row = self.record.row(path, rows, position)
        if self.only_fresh and not is_too_fresh(self.record, row):
            return None
        if row.copy.size > LARGEST_FRESH:
            return None
        try:
            with contextlib.suppress(ContentGone):
                return _copy_of(row, self.root).read()
            with contextlib.suppress(ContentGone), Hosts(self.record, self.store) as hosts:
                on_host = hosts.base(row)
                return None if on_host is None else on_host.read()
        except Unreadable:
            if self.only_fresh:  # a workspace is being made: nothing of it may be in doubt
                raise
        return None

    def _collect(self, rows: Rows, moves: int, position: int, data: bytes) -> None:
        self._waiting.append((rows, moves, position, data))
        self._size += len(data)
        if self._size >= _BUFFER or len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what was collected, and only then note where it is: an offset must never lead to nothing."""
        if not self._waiting:
            return
        at = self.store.append([b"".join(data for *_, data in self._waiting)])
        with self.record.lock:
            self.record.edits += 1
            for rows, moves, position, data in self._waiting:
                if rows.moves == moves:
                    rows.change(position, base=at)
                at += len(data)
        self.kept += self._size
        self._waiting, self._size = [], 0


def _untouched_bytes(fd: int, name: str, size: int, identity: tuple[int, int]) -> bytes | None:
    """The bytes of a copy, None if it was touched."""
    try:
        file = os.open(name, READ_FILE, dir_fd=fd)
    except OSError:
        return None
    try:
        data = os.read(file, size + 1)
        st = os.fstat(file)
    except OSError:
        return None
    finally:
        os.close(file)
    return data if (st.st_ctime_ns, st.st_ino) == identity and len(data) == size else None


def _copy_of(row: Row, root: int) -> Content:
    return Content(partial(open_file, partial(os.dup, root), row.path), row.copy.size, stamp=row.copy)
