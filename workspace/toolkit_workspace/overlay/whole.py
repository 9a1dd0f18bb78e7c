"""Make a plain copy of what an agent sees: the kept copy, and over it what was written.

Whatever is written by then is an agent's: it is walked by handles, no link is followed, and however deep it is, a few
handles are enough.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from toolkit._base.handles import CREATE_FILE, READ_DIR, READ_FILE, open_beneath, remove_tree
from toolkit._base.layered import is_opaque, is_whiteout

_SECONDS = 1800
_TOLD = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT)
"""What a program says by its words only, and somebody here asks for."""


def copy_whole(below: Path, upper: Path, target: Path) -> None:
    """Fill the empty folder `target` with what shows; modes, times and links stay.

    Raises:
        OSError: something cannot be read or written.
    """
    copy_tree(below, target)
    _lay(upper, target)


def copy_tree(source: Path, target: Path) -> None:
    """Copy what is in a folder to an empty one, links as links; where the file system can, without copying a byte.

    Raises:
        OSError: something cannot be read or written.
    """
    try:
        _copy_by_program(source, target)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        _empty(target)
        _lay(source, target)


def _empty(folder: Path) -> None:
    handle = os.open(folder, READ_DIR)
    try:
        for name in os.listdir(handle):  # noqa: PTH208 - a handle
            remove_tree(handle, name)
    finally:
        os.close(handle)


def _lay(upper: Path, target: Path) -> None:
    """Lay what is in a folder over what is in another, which is there already."""
    written, into = os.open(upper, READ_DIR), -1
    try:
        into = os.open(target, READ_DIR)
        todo = [b""]
        finished: list[tuple[bytes, os.stat_result]] = []
        while todo:
            path = todo.pop()
            todo += _lay_folder(written, into, path, finished)
        for path, st in reversed(finished):  # when nothing more comes into them
            _dress(into, path, st)
    finally:
        os.close(written)
        if into >= 0:
            os.close(into)


def _copy_by_program(source: Path, target: Path) -> None:
    import subprocess

    # cp follows no link, and keeps modes, times and links between files. What it cannot reach by a path is too deep.
    command = ["cp", "-a", "--reflink=auto", "--", f"{source}/.", str(target)]
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS, env=environment)
    except subprocess.TimeoutExpired as error:
        raise OSError(0, f"it took longer than {_SECONDS} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"cp ended with {done.returncode}"]
        numbers = [number for number in _TOLD if any(line.endswith(os.strerror(number)) for line in said)]
        raise OSError(numbers[0] if numbers else 0, said[-1][-300:])


def _lay_folder(written: int, into: int, path: bytes, finished: list[tuple[bytes, os.stat_result]]) -> list[bytes]:
    """Lay what is directly in a folder over its copy; the folders in it."""
    source = open_beneath(written, path or b".", READ_DIR)
    target = -1
    try:
        target = open_beneath(into, path or b".", READ_DIR)
        folders = []
        for name in map(os.fsencode, sorted(os.listdir(source))):  # noqa: PTH208 - a handle
            st = os.stat(name, dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(st.st_mode):
                _make_folder(source, target, name)
                folders.append(path + b"/" + name if path else name)
                finished.append((folders[-1], st))
                continue
            remove_tree(target, name)
            if not is_whiteout(st):
                _lay_entry(source, target, name, st)
        return folders
    finally:
        os.close(source)
        if target >= 0:
            os.close(target)


def _make_folder(source: int, target: int, name: bytes) -> None:
    inner = os.open(name, READ_DIR, dir_fd=source)
    try:
        is_apart = is_opaque(inner)
    finally:
        os.close(inner)
    try:
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=target, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        is_folder = False
    if is_apart or not is_folder:
        remove_tree(target, name)
        os.mkdir(name, 0o700, dir_fd=target)


def _lay_entry(source: int, target: int, name: bytes, st: os.stat_result) -> None:
    if stat.S_ISLNK(st.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        os.utime(name, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=target, follow_symlinks=False)
    elif stat.S_ISFIFO(st.st_mode) or stat.S_ISSOCK(st.st_mode):
        os.mknod(name, st.st_mode, dir_fd=target)
    elif stat.S_ISREG(st.st_mode):
        _copy_file(source, target, name, st)


def _copy_file(source: int, target: int, name: bytes, st: os.stat_result) -> None:
    from toolkit_workspace.copying import Mover  # with all that a copy needs

    there = os.open(name, READ_FILE, dir_fd=source)
    try:
        here = os.open(name, CREATE_FILE, 0o600, dir_fd=target)
        try:
            Mover().move(there, here, st, st.st_size)
            os.fchmod(here, stat.S_IMODE(st.st_mode))
            os.utime(here, ns=(st.st_atime_ns, st.st_mtime_ns))
        finally:
            os.close(here)
    finally:
        os.close(there)


def _dress(into: int, path: bytes, st: os.stat_result) -> None:
    folder = open_beneath(into, path, READ_DIR)
    try:
        os.fchmod(folder, stat.S_IMODE(st.st_mode) | 0o700)
        os.utime(folder, ns=(st.st_atime_ns, st.st_mtime_ns))
    finally:
        os.close(folder)
