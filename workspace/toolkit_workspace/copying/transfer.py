"""Move the bytes of one open file into another, the cheapest way the file systems offer.

Never more than the size the file had when it was opened: a file that grows
meanwhile cannot make the copy endless. Holes stay holes.
"""

from __future__ import annotations

import errno
import fcntl
import os

SMALL = 256 * 1024
_STEP = 8 * 1024 * 1024
_FICLONE = 0x40049409
_CANNOT = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM, errno.ETXTBSY}
)


class TooLarge(Exception):
    """The bytes to write pass what is left of the budget."""


class Mover:
    """Copies file contents, and remembers what the file systems at hand cannot do."""

    def __init__(self) -> None:
        self._no_reflink: set[int] = set()
        self._no_range: set[int] = set()

    def move(self, source: int, target: int, st: os.stat_result, most: int) -> int:
        """Copy an open file to an empty one; the bytes written, holes not counted.

        Raises:
            TooLarge: more than `most` bytes would have to be written.
        """
        size = st.st_size
        if size > st.st_blocks * 512 and size >= 4096:
            return self._move_sparse(source, target, st, most)
        if size > most:
            raise TooLarge
        if size <= SMALL:
            return self.finish(source, target, 0, size)
        if st.st_dev not in self._no_reflink and self._reflink(source, target, st):
            return size
        return self._move_range(source, target, 0, size, st.st_dev)

    def finish(self, source: int, target: int, start: int, end: int) -> int:
        """Read and write from `start` on; the bytes written, fewer where the file became shorter."""
        os.lseek(target, start, os.SEEK_SET)
        at = start
        while at < end:
            data = os.pread(source, min(1 << 20, end - at), at)
            if not data:
                break
            at += _write_all(target, data)
        return at - start

    def _reflink(self, source: int, target: int, st: os.stat_result) -> bool:
        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._no_reflink.add(st.st_dev)
            return False
        if os.fstat(target).st_size > st.st_size:
            os.ftruncate(target, st.st_size)
        return True

    def _move_range(self, source: int, target: int, start: int, end: int, device: int) -> int:
        at = start
        while at < end and device not in self._no_range:
            try:
                count = os.copy_file_range(source, target, min(_STEP, end - at), at, at)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._no_range.add(device)
                break
            if not count:
                break  # the end, or a file system that gives nothing this way: reading tells
            at += count
        return at - start + self.finish(source, target, at, end)

    def _move_sparse(self, source: int, target: int, st: os.stat_result, most: int) -> int:
        written = at = 0
        while at < st.st_size:
            try:
                start = os.lseek(source, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break  # nothing but a hole is left
                raise
            end = min(os.lseek(source, start, os.SEEK_HOLE), st.st_size)
            if start >= end:
                break
            if written + end - start > most:
                raise TooLarge
            written += self._move_range(source, target, start, end, st.st_dev)
            at = end
        os.ftruncate(target, min(st.st_size, os.fstat(source).st_size))
        return written


def _write_all(target: int, data: bytes) -> int:
    done = os.write(target, data)
    while done < len(data):
        done += os.write(target, data[done:])
    return done
