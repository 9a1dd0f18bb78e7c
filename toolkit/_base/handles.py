"""Reach files through directory handles, so that a path swapped meanwhile leads nowhere else.

Every function takes an open directory and a path relative to it. What is opened
lies beneath that directory or the call fails with EXDEV (a way out) or ELOOP (a
link where none may be); a string is never compared with a string to decide that.
The kernel's openat2 does the work where it exists; the same rules are applied
component by component where it does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

PATH_HANDLE = os.O_PATH | os.O_CLOEXEC
READ_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a file swapped for a FIFO between listing and opening must not hang us.
READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
_MOST_LINKS = 40
_CHUNK = 3_000
"""Longest path handed to the kernel at once; PATH_MAX is 4,096."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def _openat2(root: int, path: bytes, flags: int, mode: int, resolve: int) -> int:
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    number, size = ctypes.c_long(_OPENAT2), ctypes.c_size_t(ctypes.sizeof(how))
    while (handle := _syscall(number, ctypes.c_int(root), ctypes.c_char_p(path), ctypes.byref(how), size)) < 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:  # Python's own calls are made again after a signal, too
            raise OSError(code, os.strerror(code), os.fsdecode(path))
    return int(handle)


def _has_openat2() -> bool:
    root = os.open("/", PATH_HANDLE)
    try:
        os.close(_openat2(root, b".", os.O_PATH, 0, _BENEATH))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


HAS_OPENAT2 = _has_openat2()


def open_beneath(root: int, path: bytes, flags: int, mode: int = 0, *, follow_links: bool = False) -> int:
    """Open `path` below the directory `root`; `b"."` is the directory itself.

    With `follow_links` a link is followed as long as it stays beneath `root`.

    Raises:
        OSError: EXDEV where the path leads out, ELOOP where it meets a link that may not be followed.
    """
    if b"\0" in path:
        raise ValueError("a path cannot hold a NUL byte")
    if len(path) > _CHUNK:
        return _open_far_beneath(root, path, flags, mode, follow_links)
    if HAS_OPENAT2:
        resolve = _BENEATH | _NO_MAGICLINKS | (0 if follow_links else _NO_SYMLINKS)
        for _ in range(8):  # EAGAIN: something was renamed meanwhile and the kernel cannot tell
            try:
                return _openat2(root, path or b".", flags, mode, resolve)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
    return _open_by_steps(root, path, flags, mode, follow_links)


def _open_far_beneath(root: int, path: bytes, flags: int, mode: int, follow_links: bool) -> int:
    """A path too long for one call, in chunks; a link may then not climb out of its own chunk."""
    here, rest = os.dup(root), path.strip(b"/")
    try:
        while len(rest) > _CHUNK:
            cut = rest.rfind(b"/", 0, _CHUNK)
            if cut < 0:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), os.fsdecode(path))
            following = open_beneath(here, rest[:cut], PATH_HANDLE | os.O_DIRECTORY, follow_links=follow_links)
            os.close(here)
            here, rest = following, rest[cut:].lstrip(b"/")
        return open_beneath(here, rest or b".", flags, mode, follow_links=follow_links)
    finally:
        os.close(here)


def _open_by_steps(root: int, path: bytes, flags: int, mode: int, follow_links: bool) -> int:
    """What openat2(RESOLVE_BENEATH) does, one component at a time."""
    if path.startswith(b"/"):
        raise OSError(errno.EXDEV, "leads out", os.fsdecode(path))
    chain = [os.dup(root)]
    todo = [part for part in reversed(path.split(b"/")) if part not in (b"", b".")]
    links = 0
    try:
        while todo:
            name = todo.pop()
            if name == b"..":
                if len(chain) == 1:
                    raise OSError(errno.EXDEV, "leads out", os.fsdecode(path))
                os.close(chain.pop())
                continue
            if not todo and flags & os.O_CREAT:
                return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=chain[-1])
            handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW, dir_fd=chain[-1])
            kind = stat.S_IFMT(os.fstat(handle).st_mode)
            if kind == stat.S_IFLNK:
                target = os.readlink(b"", dir_fd=handle)
                os.close(handle)
                links += 1
                if not follow_links or links > _MOST_LINKS or (not todo and flags & os.O_NOFOLLOW):
                    raise OSError(errno.ELOOP, "a link", os.fsdecode(path))
                if target.startswith(b"/"):
                    raise OSError(errno.EXDEV, "leads out", os.fsdecode(path))
                todo.extend(part for part in reversed(target.split(b"/")) if part not in (b"", b"."))
            elif todo:
                chain.append(handle)  # the next step fails by itself if this is no folder
            else:
                os.close(handle)
                return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=chain[-1])
        return os.open(b".", flags | os.O_CLOEXEC, dir_fd=chain[-1])
    finally:
        for handle in chain:
            os.close(handle)


def open_folder(parent: int, name: str | bytes) -> int:
    """Open one folder directly in `parent`, for reading; a link is refused."""
    return os.open(name, READ_DIR, dir_fd=parent)


def make_folders(root: int, path: bytes, mode: int = 0o700) -> int:
    """Make `path` below `root`, where it is missing, and open it for reading; links are refused."""
    here = os.open(b".", READ_DIR, dir_fd=root)
    try:
        for name in path.split(b"/"):
            if name in (b"", b"."):
                continue
            if name == b"..":
                raise OSError(errno.EXDEV, "leads out", os.fsdecode(path))
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=here)
            following = open_folder(here, name)
            os.close(here)
            here = following
    except BaseException:
        os.close(here)
        raise
    return here


class DirStack:
    """The open folders from a root down to where a walk stands, however deep.

    Only the last few stay open. An upper one is reopened through `..` of the
    folder below it and must then be the very folder it was, so that a folder
    moved away meanwhile cannot lead the walk elsewhere.
    """

    __slots__ = ("_handles", "_known", "_lowest_open", "_most_open")

    def __init__(self, root: int, most_open: int = 8) -> None:
        self._handles = [root]
        st = os.fstat(root)
        self._known = [(st.st_dev, st.st_ino)]
        self._lowest_open = 0
        self._most_open = most_open

    @property
    def top(self) -> int:
        return self._handles[-1]

    def __len__(self) -> int:
        return len(self._handles)

    def identities(self) -> frozenset[tuple[int, int]]:
        """(st_dev, st_ino) of every folder walked down."""
        return frozenset(self._known)

    def push(self, handle: int, identity: tuple[int, int]) -> None:
        """Go down into an open folder; the stack closes it."""
        self._handles.append(handle)
        self._known.append(identity)
        if len(self._handles) - self._lowest_open > self._most_open:
            os.close(self._handles[self._lowest_open])
            self._handles[self._lowest_open] = -1
            self._lowest_open += 1

    def pop(self) -> int:
        """Go up one folder; the handle of the one the walk stands in then.

        Raises:
            OSError: ESTALE where the folder above is no longer the one walked through.
        """
        last = len(self._handles) - 1
        if last and self._handles[last - 1] < 0:
            above = os.open(b"..", READ_DIR, dir_fd=self._handles[last])
            st = os.fstat(above)
            if (st.st_dev, st.st_ino) != self._known[last - 1]:
                os.close(above)
                raise OSError(errno.ESTALE, "a folder was moved during the walk")
            self._handles[last - 1] = above
            self._lowest_open = last - 1
        os.close(self._handles.pop())
        self._known.pop()
        return self._handles[-1] if self._handles else -1

    def close(self) -> None:
        for handle in self._handles:
            if handle >= 0:
                os.close(handle)
        self._handles.clear()
        self._known.clear()


def walk_folders(top: int) -> Iterator[tuple[int, list[str], list[str]]]:
    """Every folder from an open one down: its handle, the names of the folders in it, and all other names.

    However deep, with a few handles at most; a link is never entered, and a folder that is gone when its
    turn comes is passed over. A handle is good until the next folder is asked for.

    Raises:
        OSError: a folder cannot be opened or listed.
    """
    stack = DirStack(os.open(b".", READ_DIR, dir_fd=top))
    try:
        levels = [_listed(stack.top)]
        yield stack.top, levels[0][0][:], levels[0][1]
        while levels:
            if not levels[-1][0]:
                levels.pop()
                if levels:
                    stack.pop()
                continue
            try:
                handle = open_folder(stack.top, levels[-1][0].pop())
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if error.errno == errno.ELOOP:
                    continue
                raise
            st = os.fstat(handle)
            stack.push(handle, (st.st_dev, st.st_ino))
            levels.append(_listed(handle))
            yield handle, levels[-1][0][:], levels[-1][1]
    finally:
        stack.close()


def remove_tree(parent: int, name: str | bytes) -> None:
    """Remove `name` in the folder `parent` and all below it, whatever modes and oddities are there.

    However deep, with a few handles at most. Links are removed, never followed; a name that is already
    gone is fine, at the top and below.

    Raises:
        OSError: something cannot be removed; what else could not be reached before it is still there.
    """
    top = _open_for_removal(parent, name)
    if top is None:
        return
    stack = DirStack(top)
    try:
        levels: list[tuple[str | bytes, list[str]]] = [(name, _empty_but_folders(top))]
        while levels:
            done, folders = levels[-1]
            if folders:
                child = folders.pop()
                handle = _open_for_removal(stack.top, child)
                if handle is not None:
                    st = os.fstat(handle)
                    stack.push(handle, (st.st_dev, st.st_ino))
                    levels.append((child, _empty_but_folders(handle)))
                continue
            levels.pop()
            if levels:
                stack.pop()
                _remove(os.rmdir, done, stack.top)
    finally:
        stack.close()
    _remove(os.rmdir, name, parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder in which an agent worked: `remove_tree` where there is no handle of its parent."""
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_tree(parent, folder.name)
    finally:
        os.close(parent)


def _open_for_removal(parent: int, name: str | bytes) -> int | None:
    """Open a folder that is to be emptied, taking the right to do so; None if it is gone, and no folder any more."""
    try:
        handle = os.open(name, PATH_HANDLE | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISDIR(mode):
            _remove(os.unlink, name, parent)
            return None
        if mode & 0o700 != 0o700:
            # Through the handle: by name it could meanwhile be a link.
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(b".", READ_DIR, dir_fd=handle)
    finally:
        os.close(handle)


def _empty_but_folders(folder: int) -> list[str]:
    """Unlink all in a folder that is no folder; the names of those that are."""
    folders, others = _listed(folder)
    for name in others:
        _remove(os.unlink, name, folder)
    return folders


def _listed(folder: int) -> tuple[list[str], list[str]]:
    """The names of the folders in an open folder, and all other names."""
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return [name for name, is_folder in listed if is_folder], [name for name, is_folder in listed if not is_folder]


def _remove(how: Callable[..., None], name: str | bytes, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        how(name, dir_fd=folder)
