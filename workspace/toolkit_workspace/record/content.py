"""One version of a file, folder or link, and a way to read its bytes that notices a change.

A `Content` knows where bytes lie (in the workspace, on the host, in a store) and
reads them when asked. If what is found is no longer what was meant, it raises
`ContentGone`; it never returns other bytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit.errors import WorkspaceError

NodeKind = Literal["f", "d", "l", "s"]
"""A file, a folder, a link, or something special (FIFO, socket, device) that is never opened."""

_CHUNK = 1 << 20


class ContentGone(WorkspaceError):
    """The bytes that were meant are no longer there."""


@dataclass(frozen=True, slots=True)
class Content:
    """`size` bytes from `offset` of whatever `open` opens."""

    open: Callable[[], int]
    """Opens the file for reading or raises ContentGone; the caller closes it."""
    size: int
    offset: int = 0
    is_still: Callable[[os.stat_result], bool] = lambda _: True
    """Whether the opened file is the one that is meant; asked before and after reading."""

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces of at most 1 MiB.

        Raises:
            ContentGone: another file is there now, or it changed while it was read.
        """
        fd = self.open()
        try:
            self._check(fd)
            at, end = self.offset, self.offset + self.size
            while at < end:
                piece = os.pread(fd, min(_CHUNK, end - at), at)
                if not piece:
                    raise ContentGone("a file became shorter while it was read")
                at += len(piece)
                yield piece
            self._check(fd)
        finally:
            os.close(fd)

    def _check(self, fd: int) -> None:
        if not self.is_still(os.fstat(fd)):
            raise ContentGone("a file changed while it was read")

    def read(self) -> bytes:
        """All the bytes."""
        return b"".join(self.chunks())

    def head(self, length: int) -> bytes:
        """The first bytes."""
        part = Content(self.open, min(length, self.size), self.offset, self.is_still)
        return part.read()

    def sha256(self) -> str:
        """The digest of the bytes."""
        digest = hashlib.sha256()
        for piece in self.chunks():
            digest.update(piece)
        return digest.hexdigest()

    def equals(self, other: Content) -> bool:
        """Whether both hold the same bytes, read side by side."""
        if self.size != other.size:
            return False
        return all(a == b for a, b in zip_longest(self.chunks(), other.chunks()))


@dataclass(frozen=True, slots=True)
class Node:
    """One version of a path."""

    kind: NodeKind
    mode: int
    size: int = 0
    target: bytes | None = None
    content: Content | None = None
    """Where a file's bytes are; None when nobody kept them."""
    inode: int = 0
    st: os.stat_result | None = None
    """The full stat of a version that is there now."""

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)


def open_file(root_fd: int, path: bytes) -> int:
    """Open a regular file below a folder for reading, through no link and without blocking on a FIFO.

    Raises:
        ContentGone: there is no such file, or it is something else now.
    """
    parent, _, name = path.rpartition(b"/")
    try:
        folder = open_beneath(root_fd, parent, READ_DIR)
        try:
            fd = _open_readable(folder, name)
        finally:
            os.close(folder)
    except OSError as error:
        raise ContentGone(f"cannot read {os.fsdecode(path)!r}", where=[str(error.strerror)]) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ContentGone(f"{os.fsdecode(path)!r} is no longer a file")
    return fd


def _open_readable(folder: int, name: bytes) -> int:
    st = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(st.st_mode):  # opening a device can have effects of its own
        raise OSError(0, "not a regular file")
    return os.open(name, READ_FILE, dir_fd=folder)
