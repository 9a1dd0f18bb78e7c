"""The bytes every workspace file had when it was recorded: kept, or found on the host, or lost.

A three-way merge needs them, and so does a diff. An unchanged host file is its own
base. In case it changes, `keep_bases` appends the bytes to one store beside the
workspace, which costs a fraction of a second copy: no files are made. What was
neither kept nor is still on the host is lost, and said so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from toolkit._base.files import write_all
from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.record.content import Content, ContentGone, open_file
from toolkit_workspace.record.hosts import Hosts
from toolkit_workspace.record.record import FRESH_NS, Record, Row, Rows, join

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
                write_all(fd, [b"".join(pieces)])
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
    """Finds the recorded bytes of a row."""

    def __init__(self, record: Record, store: BaseStore, hosts: Hosts) -> None:
        self.record = record
        self.store = store
        self.hosts = hosts

    def content(self, row: Row) -> Content | None:
        """Where the bytes are now; None when they are lost."""
        if row.kind != "f":
            return None
        if row.base >= 0:
            return self.store.content(row.base, row.copy.size)
        if not self._host_is_base(row):
            return None
        return Content(self._opener(row), row.copy.size, is_still=row.host_is_untouched)

    def _host_is_base(self, row: Row) -> bool:
        if not row.host_is_base or row.mount < 0 or row.host.size != row.copy.size:
            return False
        if is_too_fresh(self.record, row):
            return False
        try:
            st = self.hosts.stat(row.mount, row.host_path)
        except WorkspaceSecurityError:
            return False
        return st is not None and row.host_is_untouched(st)

    def _opener(self, row: Row) -> Callable[[], int]:
        def opened() -> int:  # with a handle of its own: it may be asked long after these hosts were closed
            with Hosts(self.record.mounts) as hosts:
                return open_file(hosts.folder(row.mount), hosts.place(row.mount, row.host_path))

        return opened


def is_too_fresh(record: Record, row: Row) -> bool:
    """Whether the host file was changed so shortly before it was copied that a change after it could hide."""
    return row.host.ctime_ns > record.created_ns - FRESH_NS


def keep_bases(
    record: Record,
    store: BaseStore,
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
    with Hosts(record.mounts) as hosts:
        keeping = _Keeping(Bases(record, store, hosts), root, only_fresh)
        for path in list(record.folders):
            if stop() or keeping.kept > MOST_KEPT:
                break
            keeping.folder(path)
        keeping.flush()
    return keeping.kept


def keep_base(record: Record, store: BaseStore, root: int, path: bytes) -> bool:
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
    record.put(row._replace(base=store.append([data])[0]))
    return True


class _Keeping:
    """Collects bytes folder by folder, since opening a folder costs more than reading a file in it."""

    def __init__(self, bases: Bases, root: int, only_fresh: bool) -> None:
        self.bases, self.root, self.only_fresh = bases, root, only_fresh
        self.kept = 0
        self._waiting: list[tuple[Rows, int, int, bytes]] = []
        self._size = 0

    def folder(self, path: bytes) -> None:
        record = self.bases.record
        rows = record.folders.get(path)
        if rows is None:
            return
        if self.only_fresh and max(rows.column("host_ctime_ns"), default=0) <= record.created_ns - FRESH_NS:
            return
        try:
            fd = open_beneath(self.root, path, READ_DIR)
        except OSError:
            fd = None
        try:
            with record.lock:
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
            row = self.bases.record.row(join(path, os.fsencode(name)), rows, position)
            if self.only_fresh and not is_too_fresh(self.bases.record, row):
                return
            if row.copy.size > LARGEST_FRESH:
                rows.change(position, host_is_base=False)
                return
            data = _recorded_bytes(self.bases, row, self.root)
        if data is None:
            return
        self._waiting.append((rows, moves, position, data))
        self._size += len(data)
        if self._size >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what was collected, and only then note where it is."""
        record = self.bases.record
        offsets = self.bases.store.append([waiting[3] for waiting in self._waiting])
        with record.lock:
            record.edits += 1
            for (rows, moves, position, _), offset in zip(self._waiting, offsets, strict=True):
                if rows.moves == moves:
                    rows.change(position, base=offset)
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
    return Content(lambda: open_file(root, row.path), row.copy.size, is_still=row.is_untouched)


def _recorded_bytes(bases: Bases, row: Row, root: int) -> bytes | None:
    """The bytes from the copy while it is untouched, else from the host."""
    try:
        return _copy_of(row, root).read()
    except ContentGone:
        on_host = bases.content(row)
    try:
        return None if on_host is None else on_host.read()
    except ContentGone:
        return None
