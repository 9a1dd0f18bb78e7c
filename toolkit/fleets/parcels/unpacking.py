"""Unpack a parcel into an empty folder, through handles: nothing of it lands anywhere else, and no more than it said.

Blocks are fetched, compared with their hashes and inflated a few ahead of the writing. Files are made new, with no
owner, setuid, setgid or sticky bit; links are made last, so that no path leads through one.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from toolkit._base.files import umask, write_all
from toolkit._base.handles import CREATE_FILE, READ_DIR, READ_FILE, open_beneath
from toolkit.fleets.parcels.entries import Block, Entry, Manifest, ParcelError
from toolkit.fleets.parcels.sending import Parts
from toolkit.fleets.parcels.squeezing import unsqueezed

_AHEAD = 3
_PIECE = 1 << 20


def unpack_into(folder: Path, manifest: Manifest, parts: Parts) -> None:
    """Make every entry of a parcel in an empty folder.

    Raises:
        ParcelError: a block is missing, damaged or another one.
        OSError: it cannot be written: the disk is full, say.
    """
    root = os.open(folder, READ_DIR)
    try:
        writing = _Writing(root)
        rows = sorted((one for one in manifest.entries if one.kind == "f"), key=lambda one: (one.start, -one.size))
        first: dict[tuple[int, int], Entry] = {}
        copies: list[tuple[Entry, Entry]] = []
        for entry in manifest.entries:
            if entry.kind == "d":
                writing.folder(entry)
        with _Raw(manifest.blocks, parts) as raw:
            for entry in rows:
                known = first.setdefault((entry.start, entry.size), entry)
                if not entry.size:
                    writing.file(entry, [])
                elif known is not entry:
                    copies.append((entry, known))
                else:
                    writing.file(entry, raw.pieces(entry.start, entry.size))
        for entry, known in copies:
            writing.copy(entry, known)
        for entry in manifest.entries:
            if entry.kind == "l":
                writing.link(entry)
        writing.finish()
    finally:
        os.close(root)


def read_contents(
    entries: Iterable[Entry], manifest: Manifest, parts: Parts
) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    """The bytes of some files of a parcel, in the order in which they lie there; raises ParcelError as `unpack_into`.

    Those of one are to be taken before the next is asked for.
    """
    with _Raw(manifest.blocks, parts) as raw:
        for entry in sorted(entries, key=lambda one: one.start):
            raw.go_back_to(entry.start)
            yield entry, raw.pieces(entry.start, entry.size)


class _Writing:
    """The tree being made; the folder written to last stays open."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._umask = umask()
        self._path: bytes | None = None
        self._handle = -1
        self._folders: list[Entry] = []

    def _parent(self, path: bytes) -> tuple[int, bytes]:
        parent, _, name = path.rpartition(b"/")
        if parent != self._path:
            self._close()
            self._handle = open_beneath(self._root, parent, READ_DIR)
            self._path = parent
        return self._handle, name

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle, self._path = -1, None

    def folder(self, entry: Entry) -> None:
        parent, name = self._parent(entry.path)
        os.mkdir(name, 0o700, dir_fd=parent)
        self._folders.append(entry)

    def file(self, entry: Entry, pieces: Iterable[bytes]) -> None:
        parent, name = self._parent(entry.path)
        mode = (0o600 if entry.mode < 0 else entry.mode & 0o777) | 0o600
        handle = os.open(name, CREATE_FILE, mode, dir_fd=parent)
        try:
            write_all(handle, pieces)
            if mode & self._umask:
                os.fchmod(handle, mode)
            os.utime(handle, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(handle)

    def copy(self, entry: Entry, known: Entry) -> None:
        """A file whose bytes another one has that is written already."""
        source = open_beneath(self._root, known.path, READ_FILE)
        try:
            self.file(entry, iter(lambda: os.read(source, _PIECE), b""))
        finally:
            os.close(source)

    def link(self, entry: Entry) -> None:
        assert entry.target is not None
        parent, name = self._parent(entry.path)
        os.symlink(entry.target, name, dir_fd=parent)
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=parent, follow_symlinks=False)

    def finish(self) -> None:
        """Give the folders their modes and times, the innermost first."""
        self._close()
        for entry in reversed(self._folders):
            handle = open_beneath(self._root, entry.path, READ_DIR)
            try:
                if entry.mode >= 0:
                    os.fchmod(handle, (entry.mode & 0o777) | 0o700)
                os.utime(handle, ns=(entry.mtime_ns, entry.mtime_ns))
            finally:
                os.close(handle)


class _Raw:
    """The bytes of all blocks, one after the other, read forwards."""

    def __init__(self, blocks: Sequence[Block], parts: Parts) -> None:
        self._blocks, self._parts = blocks, parts
        self._starts = [0]
        for block in blocks:
            self._starts.append(self._starts[-1] + block.size)
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="toolkit-parcel")
        self._ahead: deque[tuple[int, Future[bytes]]] = deque()
        self._next = 0
        self._number, self._data = -1, b""

    def __enter__(self) -> _Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def pieces(self, start: int, size: int) -> Iterator[bytes]:
        """The bytes from a place on; places come in order."""
        while size:
            self._advance(start)
            offset = start - self._starts[self._number]
            piece = self._data[offset : offset + size]
            start, size = start + len(piece), size - len(piece)
            yield piece

    def go_back_to(self, start: int) -> None:
        """Let `start` be the next place, also where it lies in the block at hand or before."""
        if self._number >= 0 and start < self._starts[self._number]:
            self._number, self._next = -1, 0
            self._ahead.clear()

    def _advance(self, start: int) -> None:
        if self._number >= 0 and start < self._starts[self._number]:
            raise ParcelError("the files of a parcel overlap")
        while self._number < 0 or start >= self._starts[self._number + 1]:
            if not self._ahead:
                self._skip(start)
            self._fill()
            self._number, future = self._ahead.popleft()
            self._data = future.result()

    def _skip(self, start: int) -> None:
        """Blocks before a place need not be fetched."""
        while self._starts[self._next + 1] <= start:
            self._next += 1

    def _fill(self) -> None:
        while len(self._ahead) < _AHEAD and self._next < len(self._blocks):
            self._ahead.append((self._next, self._pool.submit(self._fetch, self._next)))
            self._next += 1

    def _fetch(self, number: int) -> bytes:
        block = self._blocks[number]
        data = self._parts.block(number)
        if len(data) != block.packed or hashlib.sha256(data).hexdigest() != block.hash:
            raise ParcelError("a block of a parcel is damaged, or another one", where=[f"block {number}: {block.hash}"])
        try:
            raw = unsqueezed(block.how, data, block.size)
        except ValueError as error:
            raise ParcelError(f"a block of a parcel cannot be read: {error}", where=[f"block {number}"]) from None
        if len(raw) != block.size:
            raise ParcelError("a block of a parcel is not as long as it said", where=[f"block {number}"])
        return raw
