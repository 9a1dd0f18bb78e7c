"""Mount folders over one another in a mount namespace that nobody lives in.

The namespace is held by a handle and gone with it, mount included: nothing shows on the host, and a killed process
leaves nothing mounted. A plain user needs a user namespace around it, which a short-lived helper makes; root does
without, and can show the lower folders as another user's. Either way the whole is reached from here by a handle.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import READ_DIR
from toolkit._base.layered.thread import in_a_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import IO

_SECONDS = 20
_NEW_NAMESPACE = 0x20000
_RECURSIVE, _PRIVATE = 0x4000, 0x40000
# The numbers are the same on every machine.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _CLOEXEC, _EMPTY_PATH, _HERE, _FROM_EMPTY_PATH = 1, 0o2000000, 0x1000, -100, 4
_READ_ONLY, _IDMAP = 1, 0x100000
_HELPER = 'mount -t overlay overlay -o "$1" "$2" && echo && read -r end || exit 1'
_IDLE = "echo && read -r end"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.syscall.restype = ctypes.c_long


@dataclass(frozen=True, slots=True)
class Layers:
    """Folders to lay over one another."""

    upper: Path
    """What is written goes here; the whole appears at the same path, in the namespace."""
    work: Path
    """An empty folder on the same file system, for the kernel."""
    lower: tuple[Path, ...]
    """What shows through, never written; the first is on top."""

    def options(self, lower: Sequence[Path] | None = None) -> str:
        """The mount's options. Marks are attributes that a plain user may set, so that one form fits all."""
        below = ":".join(str(one) for one in lower or self.lower)
        return f"lowerdir={below},upperdir={self.upper},workdir={self.work},userxattr"


class Mounted:
    """Layers that are mounted as long as this is open, or a process lives in its namespace."""

    def __init__(self, whole: int, mounts: int, users: int = -1) -> None:
        self.whole = whole
        """The folder with everything in it, as a handle."""
        self.mounts = mounts
        """The mount namespace, as a handle."""
        self._users = users

    def entering(self) -> list[str]:
        """The options of nsenter for a plain user's command that is to see the whole at its path."""
        return [f"--user={_held(self._users)}", f"--mount={_held(self.mounts)}", "--preserve-credentials"]

    def close(self) -> None:
        """Give it up; twice does no harm."""
        for handle in (self.whole, self.mounts, self._users):
            if handle >= 0:
                os.close(handle)
        self.whole = self.mounts = self._users = -1

    def __enter__(self) -> Mounted:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def mount_layers(layers: Layers, *, shown_as: int | None = None, points: Path | None = None) -> Mounted:
    """Mount layers in a namespace of their own.

    Args:
        layers: What to mount.
        shown_as: For root: the user that our own files in the lower folders appear to belong to.
        points: For `shown_as`: an empty folder to put such views of the lower folders in.

    Raises:
        OSError: the kernel, or its lack of a program, refuses.
    """
    if os.geteuid() != 0:
        return _by_helper(layers)
    return in_a_thread(lambda: _as_root(layers, shown_as, points))


def _by_helper(layers: Layers) -> Mounted:
    own = ["--user", "--map-current-user", "--keep-caps", "--mount"]
    command = [_program("unshare"), *own, "--", "/bin/sh", "-c", _HELPER, "sh", layers.options(), str(layers.upper)]
    with _Helper(command) as pid:
        opened: list[int] = []
        try:
            opened.append(os.open(f"/proc/{pid}/root{layers.upper}", READ_DIR))
            opened += [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("mnt", "user")]
        except BaseException:
            for handle in opened:
                os.close(handle)
            raise
    return Mounted(*opened)


class _Helper:
    """A process that has said that it is ready, for a block."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> int:
        import subprocess

        pipe = subprocess.PIPE
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, env=clean, cwd="/")
        out: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        if out.readline():  # it answers, or ends
            return self._process.pid
        _, said = self._process.communicate(timeout=_SECONDS)
        text = said.decode(errors="replace").strip().splitlines()
        raise OSError(errno.EPERM, text[-1][-200:] if text else "it is refused")

    def __exit__(self, *_: object) -> None:
        import subprocess

        try:
            self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _program(name: str) -> str:
    import shutil

    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise FileNotFoundError(errno.ENOENT, f"{name} is not installed", name)
    return found


def _as_root(layers: Layers, shown_as: int | None, points: Path | None) -> Mounted:
    if _libc.unshare(_NEW_NAMESPACE):
        raise _error()
    # Private first: on most machines / is shared, and what is mounted below would appear on the host as well.
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
    lower: Sequence[Path] = layers.lower
    if shown_as is not None and points is not None:
        lower = [_as_users(one, points / str(number), shown_as) for number, one in enumerate(lower)]
    _mount("overlay", layers.upper, "overlay", 0, layers.options(lower))
    whole = os.open(layers.upper, READ_DIR)
    try:
        return Mounted(whole, os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    except BaseException:
        os.close(whole)
        raise


def _as_users(folder: Path, point: Path, user: int) -> Path:
    """A read-only view of a folder in which what is root's belongs to another user; nothing is changed in it."""
    point.mkdir(mode=0o700)
    with _Helper([_program("unshare"), "--user", "--", "/bin/sh", "-c", _IDLE]) as pid:
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{kind}").write_text(f"0 {user} 1\n", encoding="ascii")
        space = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        tree = _call(_OPEN_TREE, _HERE, os.fsencode(folder), _CLONE | _CLOEXEC)
        try:
            wanted = (ctypes.c_uint64 * 4)(_READ_ONLY | _IDMAP, 0, 0, space)
            _call(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, wanted, ctypes.sizeof(wanted))
            _call(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(point), _FROM_EMPTY_PATH)
        finally:
            os.close(tree)
    finally:
        os.close(space)
    return point


def _call(number: int, *values: object) -> int:
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    done = int(_libc.syscall(ctypes.c_long(number), *given))
    if done < 0:
        raise _error()
    return done


def _mount(what: str | None, where: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (what, str(where), kind)]
    if _libc.mount(*texts, flags, None if data is None else os.fsencode(data)):
        raise _error(where)


def _error(where: Path | None = None) -> OSError:
    code = ctypes.get_errno() or errno.EPERM
    return OSError(code, os.strerror(code), None if where is None else str(where))


def _held(handle: int) -> str:
    return f"/proc/{os.getpid()}/fd/{handle}"
