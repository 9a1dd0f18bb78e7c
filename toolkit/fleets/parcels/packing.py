"""Pack files into a parcel: the same bytes once, in blocks that are deflated beside the reading.

The blocks lie in one file, one after the other; the manifest is known when all is packed.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from toolkit._base.files import write_whole
from toolkit._base.words import size_text
from toolkit.fleets.parcels.entries import BLOCK, Block, Entry, Manifest, Parcel, ParcelError
from toolkit.fleets.parcels.squeezing import squeezed

_AT_ONCE = 2
"""Blocks that are deflated at the same time."""
_ENOUGH = 0.9
"""A block that stays longer than this part of itself travels as it is."""
_PROBE = 4096
MANIFEST, BLOCKS = "manifest", "blocks"


class Packing:
    """A parcel being packed into a folder: add entries, folders before what is in them, then `finish`; a context."""

    def __init__(self, folder: Path, *, most_bytes: int | None = None) -> None:
        self.folder = folder
        self._most = most_bytes
        self._file: BinaryIO = (folder / BLOCKS).open("xb")
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toolkit-parcel")
        self._waiting: deque[Future[tuple[Block, bytes]]] = deque()
        self._raw = bytearray()
        self._deflates = True
        self._size = 0
        self._known: dict[bytes, int] = {}
        self._entries: list[Entry] = []
        self._blocks: list[Block] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._file.close()

    @property
    def size(self) -> int:
        """How many bytes it holds by now."""
        return self._size

    def folder_entry(self, path: bytes, mode: int, mtime_ns: int = 0) -> None:
        """Add a folder."""
        self._entries.append(Entry(path, "d", mode, mtime_ns))

    def link(self, path: bytes, target: bytes, mtime_ns: int = 0) -> None:
        """Add a link."""
        self._entries.append(Entry(path, "l", 0o777, mtime_ns, target=target))

    def file(self, path: bytes, data: bytes, mode: int, mtime_ns: int = 0) -> None:
        """Add a file of these bytes.

        Raises:
            ParcelError: that would be more than the parcel may hold.
            OSError: it cannot be written.
        """
        digest = hashlib.sha256(data).digest()
        start = self._known.get(digest)
        if start is None:
            start = self._known[digest] = self._size
            self._add(data)
        self._entries.append(Entry(path, "f", mode, mtime_ns, len(data), start))

    def stream(
        self, path: bytes, pieces: Iterable[bytes], mode: int, mtime_ns: int = 0, *, deflate: bool = True
    ) -> int:
        """Add a large file, piece by piece; how long it was. Raises as `file`, and what reading the pieces raises."""
        start, size = self._size, 0
        if deflate != self._deflates:
            self._cut()
            self._deflates = deflate
        try:
            for piece in pieces:
                self._add(piece)
                size += len(piece)
        finally:
            if not deflate:
                self._cut()
                self._deflates = True
        self._entries.append(Entry(path, "f", mode, mtime_ns, size, start))
        return size

    def finish(self, facts: dict[str, Any]) -> Parcel:
        """The parcel, once everything is in; nothing can be added any more."""
        self._cut()
        while self._waiting:
            self._write()
        self._file.flush()
        manifest = Manifest(tuple(self._entries), tuple(self._blocks), facts)
        write_whole(self.folder / MANIFEST, manifest.to_bytes())
        return manifest.parcel()

    def _add(self, data: bytes) -> None:
        self._size += len(data)
        if self._most is not None and self._size > self._most:
            raise ParcelError(f"a parcel would hold more than the {size_text(self._most)} that are allowed")
        view = memoryview(data)
        while view:
            room = BLOCK - len(self._raw)
            self._raw += view[:room]
            view = view[room:]
            if len(self._raw) == BLOCK:
                self._cut()

    def _cut(self) -> None:
        """The block at hand is full, or to be ended."""
        if not self._raw:
            return
        if len(self._waiting) > _AT_ONCE:
            self._write()
        self._waiting.append(self._pool.submit(_packed, bytes(self._raw), self._deflates))
        self._raw = bytearray()

    def _write(self) -> None:
        block, data = self._waiting.popleft().result()
        self._file.write(data)
        self._blocks.append(block)


def _packed(raw: bytes, deflate: bool) -> tuple[Block, bytes]:
    how, data = "raw", raw
    if deflate and _is_worth_it(raw):
        how, data = squeezed(raw)
        if len(data) >= len(raw) * _ENOUGH:
            how, data = "raw", raw
    return Block(len(data), len(raw), how, hashlib.sha256(data).hexdigest()), data


def _is_worth_it(raw: bytes) -> bool:
    """Whether some of a block becomes shorter: pictures and archives do not, and trying takes long."""
    probe = b"".join(raw[start : start + _PROBE] for start in range(0, len(raw), len(raw) // 8 + 1))
    return len(zlib.compress(probe, 1)) < len(probe) * _ENOUGH


def packed_pieces(folder: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The blocks of a parcel that was packed into a folder, as they travel."""
    with (folder / BLOCKS).open("rb") as file:
        for block in blocks:
            data = file.read(block.packed)
            if len(data) != block.packed:
                raise ParcelError("a parcel was cut short after it was packed", where=[os.fspath(folder)])
            yield data
