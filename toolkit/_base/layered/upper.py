"""Work in an upper folder while it is not mounted.

Two signs hide what is below: a device for a name, an attribute for a whole folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath, open_folder

_OPAQUE = "user.overlay.opaque"
_ORIGIN = "user.overlay.origin"
_TYPE, _HANDLE = 4, 21  # where they are in it: what `name_to_handle_at` gives of the file below
_MOST_HANDLE = 128
_NOT_THERE = (errno.ENODATA, errno.EOPNOTSUPP)
_USUAL = 0o755

_handle_at = getattr(ctypes.CDLL(None, use_errno=True), "name_to_handle_at", None)


class _FileHandle(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * _MOST_HANDLE))


def is_whiteout(st: os.stat_result) -> bool:
    """Whether something in an upper folder says that the name below is gone."""
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def make_whiteout(folder: int, name: str | bytes) -> None:
    """Hide a name of the folder below; nothing may be there yet."""
    os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)


def is_opaque(folder: int) -> bool:
    """Whether nothing of the folder below shows through an open one.

    Raises:
        OSError: that cannot be told.
    """
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError as error:
        if error.errno in _NOT_THERE:
            return False
        raise


def make_opaque(folder: int) -> None:
    """Let nothing of the folder below show through an open one."""
    os.setxattr(folder, _OPAQUE, b"y")


def origin_of(file: int) -> tuple[int, bytes] | None:
    """Which file below an open one was until it was written to, or moved; None where nothing says so."""
    try:
        said = os.getxattr(file, _ORIGIN)
    except OSError:
        return None
    return (said[_TYPE], said[_HANDLE:]) if len(said) > _HANDLE else None


def as_origin(folder: int, name: bytes) -> tuple[int, bytes] | None:
    """What `origin_of` says of a file that was this one; None where the file system has no such handles."""
    if _handle_at is None:
        return None
    found, mount = _FileHandle(_MOST_HANDLE), ctypes.c_int()
    given = ctypes.c_int(folder), ctypes.c_char_p(name), ctypes.byref(found), ctypes.byref(mount), ctypes.c_int(0)
    return None if _handle_at(*given) else (found.kind, bytes(found.data[: found.size]))


def make_above(root: int, below: Sequence[Path], path: bytes) -> int:
    """Make a folder below the open `root` where it is missing, and open it.

    A folder that shows through from below gets the permissions and the time it has there: making it is no change.

    Raises:
        OSError: ELOOP or ENOTDIR where something else than a folder is on the way, here or below.
    """
    here = os.open(b".", READ_DIR, dir_fd=root)
    done, shows = b"", bool(below)
    try:
        for name in path.split(b"/"):
            if name in (b"", b"."):
                continue
            done = done + b"/" + name if done else name
            following, is_made = _entered(here, name, found := look_below(below, done) if shows else None)
            os.close(here)
            here = following
            if is_made and found is not None:
                os.fchmod(here, found.st_mode & 0o7777)
                os.utime(here, ns=(found.st_atime_ns, found.st_mtime_ns))
            shows = shows and not is_opaque(here)
    except BaseException:
        os.close(here)
        raise
    return here


def _entered(here: int, name: bytes, below: os.stat_result | None) -> tuple[int, bool]:
    with contextlib.suppress(FileNotFoundError):
        return open_folder(here, name), False
    if below is not None and not stat.S_ISDIR(below.st_mode):
        raise OSError(errno.ELOOP, "something else is there", os.fsdecode(name))
    os.mkdir(name, _USUAL, dir_fd=here)
    return open_folder(here, name), True


def look_below(below: Sequence[Path], path: bytes) -> os.stat_result | None:
    """What is at a path in the first of some folders that says something of it; None where nothing is.

    Raises:
        OSError: that cannot be told.
    """
    folder, _, name = path.rpartition(b"/")
    for top in below:
        root = os.open(top, READ_DIR)
        try:
            parent = open_beneath(root, folder or b".", READ_DIR)
        except (FileNotFoundError, NotADirectoryError):
            continue
        finally:
            os.close(root)
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            return None if is_whiteout(found) else found
        except FileNotFoundError:
            if is_opaque(parent):
                return None
        finally:
            os.close(parent)
    return None
