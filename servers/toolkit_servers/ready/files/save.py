"""Change the tree below a root: each change happens whole or not at all.

A file is written beside its place under a name of its own and then moved there,
with the mode and owner of the file it replaces. A link is never written through, a
hard link to a file elsewhere is parted from it, a file without any write
permission is not overwritten, and a file that changed meanwhile is left alone.
`check` is asked about the very place that would change, once all links on the way
are followed: what a run protects stays as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from toolkit._base.files import rename_new, write_new
from toolkit._base.handles import make_folders, open_beneath, remove_tree
from toolkit._base.words import count_text
from toolkit.errors import ToolError
from toolkit_servers.ready.files.root import FOLDER, Place, Root, as_path, require_regular

Check = Callable[[Path], None]
"""Raises where a host path may not be changed, as `ToolContext.check_change` does."""


def save_file(root: Root, place: Place, data: bytes, check: Check, *, seen: os.stat_result | None = None) -> bool:
    """Put `data` at a place, folders above it included; True where there was no file before.

    With `seen`, the file must still be the one that was looked at.
    """
    if not place.path:
        raise ToolError("this is the root of these files itself; name a file in it")
    with _made_folder(root, place.parent, place, check) as folder, root.in_words(place):
        name = os.fsencode(place.name)
        check(_real(folder, place.name))
        old = _lstat(folder, name)
        if old is not None:
            _require_writable(old, folder, place)
        if seen is not None and not _is_same(old, seen):
            raise _changed(place)
        fresh = f".toolkit-{secrets.token_hex(8)}.new".encode()
        write_new(folder, fresh, [data], mode=0o666, dress=partial(_dress, old), durable=True)
        try:
            if not _is_same(_lstat(folder, name), old):
                raise _changed(place)
            if old is None:
                _rename_new(folder, fresh, folder, name)
            else:
                os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=folder)
            raise
        return old is None


def make_folder(root: Root, place: Place, check: Check) -> bool:
    """Make a folder and those above it; False where it was there already."""
    try:
        with root.folder(place):
            return False
    except ToolError:
        with _made_folder(root, place, place, check):
            return True


def move(root: Root, source: Place, destination: Place, check: Check, to_root: Root | None = None) -> None:
    """Give a file, link or folder another place, which must be free; below another root where one is given."""
    to_root = to_root or root
    root.stat(source)
    with root.parent(source) as old, to_root.parent(destination) as new, to_root.in_words(destination):
        check(_real(old, source.name))
        check(_real(new, destination.name))
        try:
            _rename_new(old, os.fsencode(source.name), new, os.fsencode(destination.name))
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise ToolError(f"{source} cannot be moved into itself") from error
            if error.errno == errno.EXDEV:
                raise ToolError(
                    f"{destination} is on another file system: write it there, then remove {source}"
                ) from error
            raise


def remove(root: Root, place: Place, check: Check, *, recursive: bool) -> None:
    """Remove a file or a link, or a folder: an empty one, or with `recursive` whatever is in it."""
    st = root.stat(place)
    name = os.fsencode(place.name)
    with root.parent(place) as folder, root.in_words(place):
        check(_real(folder, place.name))
        if not stat.S_ISDIR(st.st_mode):
            os.unlink(name, dir_fd=folder)
        elif recursive:
            remove_tree(folder, name)
        else:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                with root.folder(place) as handle:
                    held = count_text(len(os.listdir(handle)), "entry")  # noqa: PTH208  by handle
                raise ToolError(f"{place} has {held}; remove them all with recursive=true") from error


@contextlib.contextmanager
def _made_folder(root: Root, folder: Place, place: Place, check: Check) -> Iterator[int]:
    """A folder, open for reading; what is missing of it is made. Errors speak of `place`."""
    here, missing = folder, list[str]()
    with root.in_words(place):
        while True:
            try:
                existing = open_beneath(root.handle, here.raw, FOLDER, follow_links=True)
                break
            except FileNotFoundError:
                if not here.path:
                    raise
                missing.insert(0, here.name)
                here = here.parent
        try:
            if missing:
                check(_real(existing, *missing))
            handle = make_folders(existing, os.fsencode("/".join(missing)), 0o777)
        finally:
            os.close(existing)
    try:
        yield handle
    finally:
        os.close(handle)


def _real(folder: int, *names: str) -> Path:
    """The host path of something in an open folder."""
    return Path(f"/proc/self/fd/{folder}").readlink().joinpath(*names)


def _require_writable(st: os.stat_result, folder: int, place: Place) -> None:
    if stat.S_ISLNK(st.st_mode):
        target = as_path(os.readlink(place.name, dir_fd=folder))
        raise ToolError(f"{place} is a link to {target}: write to the file itself, or remove the link first")
    require_regular(st, place)
    if not st.st_mode & 0o222:
        raise ToolError(f"{place} is marked read-only and was left as it is")


def _dress(old: os.stat_result | None, handle: int) -> None:
    """Give a fresh file the owner and the mode of the one it replaces."""
    if old is not None:
        with contextlib.suppress(OSError):  # another owner's file in a folder of ours
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, old.st_mode & 0o777)


def _lstat(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(getattr(one, fact) == getattr(other, fact) for fact in ("st_dev", "st_ino", "st_size", "st_ctime_ns"))


def _changed(place: Place) -> ToolError:
    return ToolError(f"{place} was changed by someone else meanwhile and was left as it is; read it again")


def _rename_new(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Rename, but never over something that is there."""
    try:
        rename_new(old_folder, old, new_folder, new)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):
            raise
        # A file system without that promise, or a folder moved into itself, which the plain call refuses as well.
        if _lstat(new_folder, new) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)
