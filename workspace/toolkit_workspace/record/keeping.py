"""Keep the bytes that files had when they were recorded, for the day the host changes.

A three-way merge needs them, and so does a diff. While a host file is as it was
copied, it is its own base (see `Hosts.base`); once it changes, only bytes that were
kept here can be merged over. That costs a fraction of a second copy: they are
appended to one store beside the workspace. What was not kept is lost, and said so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit_workspace.record.content import ByteStore, Content, ContentGone, Hosts, is_too_fresh, open_file
from toolkit_workspace.record.record import FRESH_NS, Record, Row, Rows, join

LARGEST_KEPT = 1 << 20
"""A larger file is not kept: it is hardly a text that merges."""
MOST_KEPT = 1 << 30
LARGEST_FRESH = 64 << 20
"""A file up to this is kept when its bytes would otherwise be lost for sure."""
_BUFFER = 1 << 20


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
    with Hosts(record, store) as hosts:
        keeping = _Keeping(hosts, root, only_fresh)
        for path in list(record.folders):
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

    def __init__(self, hosts: Hosts, root: int, only_fresh: bool) -> None:
        self.hosts, self.record, self.root, self.only_fresh = hosts, hosts.record, root, only_fresh
        self.kept = 0
        self._waiting: list[tuple[Rows, int, int, bytes]] = []
        self._size = 0

    def folder(self, path: bytes) -> None:
        rows = self.record.folders.get(path)
        if rows is None:
            return
        if self.only_fresh and max(rows.column("host_ctime_ns"), default=0) <= self.record.created_ns - FRESH_NS:
            return
        try:
            fd = open_beneath(self.root, path, READ_DIR)
        except OSError:
            fd = None
        try:
            with self.record.lock:
                moves = rows.moves
                listed = zip(rows.names, rows.kinds, rows.column("size"), rows.column("base"), strict=True)
            for position, (name, kind, size, base) in enumerate(listed):
                if kind == "f" and base < 0 and (size <= LARGEST_KEPT or self.only_fresh) and rows.moves == moves:
                    self._file(rows, position, path, name, fd)
        finally:
            if fd is not None:
                os.close(fd)

    def _file(self, rows: Rows, position: int, path: bytes, name: str, fd: int | None) -> None:
        moves, row = rows.moves, rows.row(position)
        data: bytes | None = None
        if self.only_fresh or fd is None or (data := _copied(fd, name, row)) is None:
            row = self.record.row(join(path, os.fsencode(name)), rows, position)
            if self.only_fresh and not is_too_fresh(self.record, row):
                return
            if row.copy.size > LARGEST_FRESH:
                rows.change(position, host_is_base=False)
                return
            data = self._recorded_bytes(row)
        if data is None:
            return
        self._waiting.append((rows, moves, position, data))
        self._size += len(data)
        if self._size >= _BUFFER:
            self.flush()

    def _recorded_bytes(self, row: Row) -> bytes | None:
        """The bytes from the copy while it is untouched, else from the host."""
        try:
            return _copy_of(row, self.root).read()
        except ContentGone:
            on_host = self.hosts.base(row)
        try:
            return None if on_host is None else on_host.read()
        except ContentGone:
            return None

    def flush(self) -> None:
        """Write what was collected, and only then note where it is: an offset must never lead to nothing."""
        at = self.hosts.store.append([b"".join(data for *_, data in self._waiting)])
        with self.record.lock:
            self.record.edits += 1
            for rows, moves, position, data in self._waiting:
                if rows.moves == moves:
                    rows.change(position, base=at)
                at += len(data)
        self.kept += self._size
        self._waiting, self._size = [], 0


def _copied(fd: int, name: str, row: Row) -> bytes | None:
    """The bytes of the copy, None if it was touched."""
    try:
        file = os.open(name, READ_FILE, dir_fd=fd)
    except OSError:
        return None
    try:
        data = os.read(file, row.copy.size + 1)
        st = os.fstat(file)
    finally:
        os.close(file)
    return data if row.is_untouched(st) and len(data) == row.copy.size else None


def _copy_of(row: Row, root: int) -> Content:
    return Content(partial(open_file, partial(os.dup, root), row.path), row.copy.size, stamp=row.copy)
