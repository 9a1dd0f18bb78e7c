"""What a jail needs besides when root starts it: an unprivileged user, and paths within that user's reach.

Inside the jail everyone is uid 1000; for the host kernel that must not be uid 0,
or `/proc/sys` and every root-owned file are one mistake away. So root lends the
workspace to a uid nobody else has, the tenant, and takes it back afterwards. Files
with a second name elsewhere are not lent: changing their owner would reach outside.

The tenant may not look into the folders above a workspace. So every path gets a
second place, the stage, in a mount namespace that nobody lives in: it is held by a
descriptor, and gone with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
import stat
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from toolkit._base.handles import READ_DIR, walk_folders
from toolkit._base.layered import in_a_thread
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.jail.machine import IN_CONTAINER

# Above every range that distributions and systemd hand out, below the sign bit.
FIRST_TENANT, LAST_TENANT = 1_879_048_192, 1_879_113_727
_NOBODY = 65_534
# Always there and not used by the jail, so it may be covered in a namespace of our own.
PLACE = Path("/sys")
_NEW_NAMESPACE, _OWN_DIRECTORY = 0x20000, 0x200
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def choose_tenant() -> int | None:
    """Return the host uid (and gid) for the next jail, or None if the caller is not root."""
    if os.geteuid() != 0:
        return None
    tenant = FIRST_TENANT + int.from_bytes(os.urandom(8)) % (LAST_TENANT - FIRST_TENANT + 1)
    return tenant if _is_mapped(tenant) else _NOBODY


def is_tenant(uid: int) -> bool:
    """Whether a file with this owner was left by a jail whose starter was killed."""
    return FIRST_TENANT <= uid <= LAST_TENANT


def lend(folder: Path, tenant: int) -> None:
    """Give the tenant everything in `folder` that belongs to the caller and has no name elsewhere."""
    try:
        names = _lend_where(folder, tenant, lambda found: found.st_nlink == 1)
        if names:
            _lend_where(folder, tenant, lambda found: names[found.st_dev, found.st_ino] == found.st_nlink)
        os.chown(folder, tenant, tenant, follow_symlinks=False)
    except OSError as error:
        raise SandboxError(
            f"the workspace cannot be given to the jail's user: {error}",
            where=[str(folder)],
            fix="Use a folder on a local file system, or start as a plain user.",
        ) from error


def _lend_where(folder: Path, tenant: int, is_ours: Callable[[os.stat_result], bool]) -> Counter[tuple[int, int]]:
    """Lend folders and the files `is_ours` accepts; count the names of those that have several."""
    mine, names = os.geteuid(), Counter[tuple[int, int]]()
    top = os.open(folder, READ_DIR)
    try:
        # Walks by handle and never follows a link, so nothing outside can be reached.
        for handle, folders, files in walk_folders(top):
            for name in (*folders, *files):
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    names[found.st_dev, found.st_ino] += 1
                if found.st_uid == mine and (stat.S_ISDIR(found.st_mode) or is_ours(found)):
                    os.chown(name, tenant, tenant, dir_fd=handle, follow_symlinks=False)
    finally:
        os.close(top)
    return names


def take_back(folders: Iterable[Path], tenant: int) -> None:
    """Return to the caller what the tenant has or made; set-user-id bits are lost on the way.

    Raises:
        SandboxError: for some of it that failed; the rest is the caller's again.
    """
    there = [folder for folder in folders if folder.is_dir()]
    if not there:
        return
    command = take_back_command(there, tenant)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(
            "the workspace could not be taken back from the jail's user",
            where=[done.stderr.strip()[-300:]],
            fix=f"Run: {shlex.join(command)}",
        )


def take_back_command(folders: Iterable[Path], tenant: int) -> list[str]:
    """The same as a command: what the tenant owns is in the jail's folders only, so its owner decides.

    A command, because whoever clears up after a kill is a shell. It walks by handle, however deep.
    """
    mine = f"{os.geteuid()}:{os.getegid()}"
    return ["chown", "-R", "-P", "-h", f"--from={tenant}", mine, "--", *map(str, folders)]


def _is_mapped(uid: int) -> bool:
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, _, count = (int(part) for part in line.split())
        if inside <= uid < inside + count:
            return True
    return False


class Stage:
    """A mount namespace in which each path is also found at its place below PLACE.

    `folder` is an empty one to build it in. `within` is a mount namespace to build it from, not the process's own.

    Raises:
        UnconfinedError: the kernel refuses.
    """

    def __init__(self, places: Mapping[Path, Path], folder: Path, within: int = -1) -> None:
        self._places = places
        self._known: list[int] = []
        """The paths as they were staged."""
        try:
            for path in places:
                self._known.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
            self._namespace = in_a_thread(lambda: _build(places, folder, within))
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
        """Shell lines that stage a path again that was replaced by another file or folder.

        A mount shows the file it was made for, also when an editor or a checkout has put a new one in its place.
        """
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


def _build(places: Mapping[Path, Path], folder: Path, within: int) -> int:
    # Only a thread with a working directory of its own may go to another mount namespace.
    if within >= 0 and (_libc.unshare(_OWN_DIRECTORY) or _libc.setns(within, _NEW_NAMESPACE)):
        raise _error()
    if _libc.unshare(_NEW_NAMESPACE):
        raise _error()
    # Private first: on most machines / is shared, and what is mounted below would appear on the host as well.
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
    # A file system of its own, because the tenant may not even look into the private folder it is built in.
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
