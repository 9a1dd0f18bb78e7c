"""Write a file whole or not at all: beside its place first, then moved over.

By path for files of our own (`replacing`, `write_whole`, `write_json`), by open
folder for files in places that others may change meanwhile (`write_new` and a
rename). A fresh file that is not finished is hidden, ends in `.new` and is removed
when writing it fails; after a kill it is never taken for the file itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from toolkit._base.handles import CREATE_FILE
from toolkit._base.words import safe_name, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""Folders that usual tools make again by themselves: nobody's work."""
_NO_REPLACE = 1
_EXCHANGE = 2
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


@contextlib.contextmanager
def replacing(file: Path, *, mode: int = 0o600, durable: bool = False) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of `file` when the block ends well.

    With `durable` its bytes are on the disk before it does.
    """
    fresh = file.with_name(f".{file.name}.{os.urandom(6).hex()}.new")
    try:
        with os.fdopen(os.open(fresh, CREATE_FILE, mode), "wb") as out:
            yield out
            if durable:
                out.flush()
                os.fsync(out.fileno())
        fresh.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def write_whole(file: Path, data: str | bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace a file: a reader sees the old one or the new one."""
    with replacing(file, mode=mode, durable=durable) as out:
        out.write(data.encode("utf-8") if isinstance(data, str) else data)


def write_json(file: Path, data: Any, *, indent: int | None = None, durable: bool = False) -> None:
    """Replace a file by this value as JSON, readable by its owner only."""
    write_whole(file, json.dumps(data, indent=indent) + "\n", durable=durable)


def write_new(
    folder: int,
    name: str | bytes,
    pieces: Iterable[bytes],
    *,
    mode: int = 0o600,
    dress: Callable[[int], object] | None = None,
    durable: bool = False,
) -> None:
    """Make the file `name` in an open folder; nothing of it stays if that fails.

    `dress` gets the handle of the filled file, to give it its owner, mode and times.
    """
    handle = os.open(name, CREATE_FILE, mode, dir_fd=folder)
    try:
        write_all(handle, pieces)
        if dress is not None:
            dress(handle)
        if durable:
            os.fsync(handle)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(handle)


def write_all(handle: int, pieces: Iterable[bytes]) -> None:
    """Write every byte: one call may take only a part of what it is given."""
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(handle, view) :]


def rename_new(old_folder: int, old: str | bytes, new_folder: int, new: str | bytes) -> None:
    """Rename, but never over something that is there.

    Raises:
        FileExistsError: there is something.
        OSError: ENOSYS or EINVAL where the system or the file system cannot promise that.
    """
    _rename(old_folder, old, new_folder, new, _NO_REPLACE)


def exchange(old_folder: int, old: str | bytes, new_folder: int, new: str | bytes) -> None:
    """Let two names change places in one step; raises OSError as `rename_new` does."""
    _rename(old_folder, old, new_folder, new, _EXCHANGE)


def is_there(path: Path) -> bool:
    """Whether there is something at a path, a link to nowhere included.

    Raises:
        OSError: that cannot be looked at; `Path.exists` says no then.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def state_home(home: Path | str | None = None) -> Path:
    """The folder for what outlives a process: the given one, else TOOLKIT_HOME, else the platform's state folder."""
    home = home or os.environ.get("TOOLKIT_HOME")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home or Path(state) / "toolkit").absolute()


def nearest_existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there for this user to see."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            place.stat()
            return place
    return path


def is_full(error: OSError) -> bool:
    """Whether an error says that there is no room left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def room_in(folder: Path) -> str:
    """How much is free where a folder is, or would be, in words."""
    shown = safe_name(str(folder))
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            found = os.statvfs(place)
            more = "" if found.f_favail or not found.f_files else ", but no further file can be made (no free inode)"
            return f"{shown}: {size_text(found.f_bavail * found.f_frsize)} are free{more}"
    return f"{shown}: nobody can say how much is free"


def refused_at(path: Path, error: OSError) -> str:
    """Where something could not be written: the path, and how much is free there where that is why."""
    return room_in(path) if is_full(error) else safe_name(str(path))


def umask() -> int:
    """The process's umask, without setting it: other threads may be making files."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022


def _rename(old_folder: int, old: str | bytes, new_folder: int, new: str | bytes, flags: int) -> None:
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))  # a C library without the call
    if _renameat2(old_folder, os.fsencode(old), new_folder, os.fsencode(new), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(old), None, os.fsdecode(new))
