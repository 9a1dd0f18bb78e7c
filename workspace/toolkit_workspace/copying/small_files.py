"""Copy the small plain files of one folder: they are most of any copy, and every call in here is felt.

This file is also the program of a large copy's second process (`second.py`): it imports nothing but the
standard library, and is told how files are opened.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys
from collections.abc import Sequence

LONGEST_MESSAGE = 1 << 17
_KIND, _REGULAR = 0o170000, 0o100000

Result = tuple[list[int], list[tuple[int, tuple[int, int, int, int], tuple[int, int, int, int]]]]
"""Positions of the names that were left; of the others the copy's mode and stamp, and the stamp of what was read."""


class SmallFiles:
    """Copies files of up to `largest` bytes that have one name and no holes; the others are left to the caller."""

    def __init__(self, read_flags: int, create_flags: int, largest: int) -> None:
        self._flags = read_flags, create_flags
        self._largest = largest

    def copy(self, names: Sequence[str | bytes], parent: int, into: int, room: int) -> Result:
        """Copy `names` from one open folder to another, `room` bytes at most."""
        open_, fstat, close, read, write, utime = os.open, os.fstat, os.close, os.read, os.write, os.utime
        (read_flags, create_flags), largest = self._flags, self._largest
        rest: list[int] = []
        files = []
        for position, name in enumerate(names):
            try:
                source = open_(name, read_flags, dir_fd=parent)
            except OSError:
                rest.append(position)
                continue
            try:
                st = fstat(source)
                mode, size, data = st.st_mode, st.st_size, None
                if mode & _KIND == _REGULAR and size <= largest and size <= room and st.st_nlink == 1:
                    try:
                        data = read(source, size)
                    except OSError:
                        data = None
                if data is None or not len(data) == size <= st.st_blocks << 9:
                    rest.append(position)
                    continue
                target = open_(name, create_flags, (mode & 0o777) | 0o600, dir_fd=into)
                try:
                    done = write(target, data)
                    while done < size:
                        done += write(target, data[done:])
                    utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
                    made = fstat(target)
                finally:
                    close(target)
            finally:
                close(source)
            room -= size
            copy = size, made.st_mtime_ns, made.st_ctime_ns, made.st_ino
            host = size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino
            files.append((made.st_mode, copy, host))
        return rest, files


def main() -> None:
    """Answer one message after the other until the other end is closed; a number is the error that ended a copy.

    A child of our parent may hold the other end as well, so we also look whether the parent still lives.
    """
    channel, parent_process = socket.socket(fileno=0), int(sys.argv[1])
    channel.settimeout(1.0)
    small = SmallFiles(*marshal.loads(channel.recv(LONGEST_MESSAGE)))
    while os.getppid() == parent_process:
        try:
            message, handles, _, _ = socket.recv_fds(channel, LONGEST_MESSAGE, 2)
        except TimeoutError:
            continue
        if not message:
            return
        parent, into = handles
        room, names = marshal.loads(message)
        try:
            answer: Result | int = small.copy(names.split(b"\0"), parent, into, room)
        except OSError as error:
            answer = error.errno or 0
        os.close(parent)
        os.close(into)
        channel.send(marshal.dumps(answer))


if __name__ == "__main__":
    main()
