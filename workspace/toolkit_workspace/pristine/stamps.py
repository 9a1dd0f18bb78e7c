"""Find the folders in which something has another stamp than recorded: one stat for each file, and every call is felt.

This file is also the program of a second process (`comparing.py`): it imports nothing but the standard library.
"""

from __future__ import annotations

import marshal
import os
import sys
from array import array
from collections.abc import Iterable

Stamps = tuple[bytes, int, int, bytes, bytes, bytes]
"""A folder relative to its mount, its own ctime and inode; names, each followed by a NUL; their ctimes and inodes."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def differing(top: int, folders: Iterable[Stamps], newest: int) -> list[int]:
    """The positions of the folders below an open one in which anything differs, or is younger than `newest`.

    Only a folder that cannot be told from the recorded one is passed over, with all that is directly in it.
    """
    found = []
    for position, (path, own_ctime, own_inode, names, ctimes, inodes) in enumerate(folders):
        try:
            handle = os.open(path or b".", _OPEN, dir_fd=top)
        except OSError:
            found.append(position)
            continue
        try:
            own = os.fstat(handle)
            is_same = own.st_ctime_ns == own_ctime <= newest and own.st_ino == own_inode
            if not is_same or not _is_same(handle, names, ctimes, inodes, newest):
                found.append(position)
        except OSError:
            found.append(position)
        finally:
            os.close(handle)
    return found


def _is_same(handle: int, names: bytes, ctimes: bytes, inodes: bytes, newest: int) -> bool:
    look = os.stat
    listed = os.fsdecode(names[:-1]).split("\0") if names else []
    stamps, numbers = array("q", ctimes), array("Q", inodes)
    if stamps and max(stamps) > newest:
        return False
    for name, ctime_ns, inode in zip(listed, stamps, numbers, strict=True):
        st = look(name, dir_fd=handle, follow_symlinks=False)
        if st.st_ctime_ns != ctime_ns or st.st_ino != inode:
            return False
    return True


def main() -> None:
    """Write which of the last folders differ: `argv` has an open folder, a file of stamps, the mount, and a start."""
    top, number, start = int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
    with open(sys.argv[2], "rb") as file:  # noqa: PTH123 - pathlib would cost half of our start
        newest, mounts = marshal.load(file)
    sys.stdout.buffer.write(marshal.dumps(differing(top, mounts[number][start:], newest)))


if __name__ == "__main__":
    main()
