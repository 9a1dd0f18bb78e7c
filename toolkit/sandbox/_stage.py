"""Paths of a jail that root starts, put within reach of the unprivileged user it runs as.

That user may not look into the folders above a workspace. So every path gets a second place in a mount
namespace made for this purpose, which nobody lives in: it is held by a descriptor, and gone with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import UnconfinedError
from toolkit.sandbox._advice import IN_CONTAINER

# Always there and not used by the jail, so it may be covered in a namespace of our own.
PLACE = Path("/sys")
_NEW_NAMESPACE = 0x20000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


class Stage:
    """A mount namespace in which each path is also found at its place below PLACE.

    `folder` is an empty one to build it in.

    Raises:
        UnconfinedError: the kernel refuses.
    """

    def __init__(self, places: Mapping[Path, Path], folder: Path) -> None:
        self._places = places
        self._known: list[int] = []
        """The paths as they were staged."""
        try:
            for path in places:
                self._known.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
            self._namespace = _in_a_thread(places, folder)
        except OSError as error:
            _close(self._known)
            raise UnconfinedError(
                f"refusing to start: a mount namespace cannot be made: {error.strerror}",
                rules=("jail",),
                where=[str(error.filename)] if error.filename else (),
                fix=IN_CONTAINER if error.errno in (errno.EPERM, errno.EACCES) else "",
            ) from error

    @property
    def path(self) -> str:
        """Where other processes find the namespace."""
        return _held(self._namespace)

    def renewing(self, tools: Mapping[str, str]) -> list[str]:
        """Shell lines that stage a path again that was replaced by another file or folder."""
        lines = []
        for (path, place), known in zip(self._places.items(), self._known, strict=True):
            again = f"{tools['umount']} -l {place}; {tools['mount']} --rbind {shlex.quote(str(path))} {place}"
            inside = f"{tools['nsenter']} --mount={self.path} -- /bin/sh -ec {shlex.quote(again)}"
            lines.append(f"[ {shlex.quote(str(path))} -ef {_held(known)} ] || {inside}")
        return lines

    def close(self) -> None:
        """Give it up; it is gone with the last process in it."""
        _close([self._namespace, *self._known])
        self._namespace, self._known = -1, []


def _held(handle: int) -> str:
    return f"/proc/{os.getpid()}/fd/{handle}"


def _close(handles: list[int]) -> None:
    for handle in handles:
        if handle >= 0:
            os.close(handle)


def _in_a_thread(places: Mapping[Path, Path], folder: Path) -> int:
    """A namespace belongs to a thread: one takes it on and ends, the rest of the process stays where it is."""
    made: list[int | OSError] = []

    def build() -> None:
        try:
            made.append(_build(places, folder))
        except OSError as error:
            made.append(error)

    builder = threading.Thread(target=build, name="toolkit-stage")
    builder.start()
    builder.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _build(places: Mapping[Path, Path], folder: Path) -> int:
    if _libc.unshare(_NEW_NAMESPACE):
        raise _error()
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
    _mount("stage", folder, "tmpfs", 0, "mode=0755,size=64k")
    for path, place in places.items():
        here = folder / place.name
        if path.is_dir():
            here.mkdir(mode=0o755)
        else:
            here.touch()
        _mount(str(path), here, None, _BIND | _RECURSIVE)
    _mount(str(folder), PLACE, None, _BIND | _RECURSIVE)
    return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _mount(what: str | None, where: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (what, str(where), kind)]
    if _libc.mount(*texts, flags, None if data is None else data.encode()):
        raise _error(where)


def _error(where: Path | None = None) -> OSError:
    code = ctypes.get_errno() or errno.EPERM
    return OSError(code, os.strerror(code), None if where is None else str(where))
