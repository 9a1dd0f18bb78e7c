"""One path of a workspace that is new, gone or no longer as recorded, and how it is looked at.

What an agent took the right to read away from is made readable again, through a handle: by its name it could
meanwhile be a link.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import PATH_HANDLE, READ_DIR

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Removed since it was seen, or replaced by a file or a link: the next look says so. Any other failure is an error."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What is new, gone or no longer as recorded at a path."""

    is_known: bool
    """Whether the record has a row for it."""
    now: os.stat_result | None
    """None when it is gone."""
    target: bytes | None = None
    """Where a link points now."""


def seen(is_known: bool, name: str, fd: int, st: os.stat_result) -> Touched:
    target = None
    if stat.S_ISLNK(st.st_mode):
        try:
            target = os.fsencode(os.readlink(name, dir_fd=fd))
        except OSError as error:
            if error.errno not in (*GONE, errno.EINVAL):  # EINVAL: it is no link any more
                raise
            target = b""  # swapped this instant: an empty target is nobody's
    elif stat.S_ISREG(st.st_mode) and not st.st_mode & stat.S_IRUSR and st.st_uid == os.geteuid() != 0:
        st = _make_readable(name, fd, st)
    return Touched(is_known, st, target)


def _make_readable(name: str, fd: int, st: os.stat_result) -> os.stat_result:
    """Give ourselves back the right to read a file that the agent took away; the stat after it."""
    try:
        handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW, dir_fd=fd)
    except FileNotFoundError:
        return st
    try:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(st.st_mode) | stat.S_IRUSR)
        return os.fstat(handle)
    finally:
        os.close(handle)


def open_readable(fd: int, name: str) -> int:
    """Open a folder, giving ourselves back the right to read it where the agent took it away."""
    try:
        return os.open(name, READ_DIR, dir_fd=fd)
    except PermissionError:
        handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=fd)
    try:
        # Through the handle: by name it could meanwhile be a link.
        Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(b".", READ_DIR, dir_fd=handle)
    finally:
        os.close(handle)
