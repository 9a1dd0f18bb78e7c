"""The bytes of a path, wherever they are: in the workspace, on the host, or kept in a store of ours.

A `Content` knows where bytes lie and reads them when asked. If what is found is no
longer what was meant, it raises `ContentGone`; it never returns other bytes. What
could not be looked at is `Unreadable` instead, and nothing is decided from it. `Hosts`
finds the bytes a file had when it was recorded: kept, still on the host, or lost.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.record.record import FRESH_NS, MountRecord, Record, Row, stamp_numbers
from toolkit_workspace.record.trouble import is_gone, leads_away, unreadable

if TYPE_CHECKING:
    from toolkit_workspace.record.keeping import ByteStore

NodeKind = Literal["f", "d", "l", "s"]
"""A file, a folder, a link, or something special (FIFO, socket, device) that is never opened."""

_CHUNK = 1 << 20
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_")  # never security.*: capabilities must not survive new bytes
_BINARY_PROBE = 8000  # how much of a file git looks at for a NUL byte


class ContentGone(WorkspaceError):
    """The bytes that were meant are no longer there."""


@dataclass(frozen=True, slots=True)
class Content:
    """`size` bytes from `offset` of whatever `open` opens."""

    open: Callable[[], int]
    """Opens the file for reading or raises ContentGone; the caller closes it."""
    size: int
    offset: int = 0
    stamp: tuple[int, int, int, int] | None = None
    """The `Stamp` the opened file has to have, before and after reading."""

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces of 1 MiB, the last one shorter.

        Raises:
            ContentGone: another file is there now, or it changed while it was read.
            Unreadable: it cannot be read.
        """
        fd = self.open()
        try:
            self._check(fd)
            at, end = self.offset, self.offset + self.size
            while at < end:
                piece = self._piece(fd, at, min(_CHUNK, end - at))
                at += len(piece)
                yield piece
            self._check(fd)
        finally:
            os.close(fd)

    def _piece(self, fd: int, at: int, length: int) -> bytes:
        """So many bytes from a place on: one call may return only a part of them."""
        parts: list[bytes] = []
        while length:
            try:
                part = os.pread(fd, length, at)
            except OSError as error:
                raise unreadable(_name_of(fd), error) from error
            if not part:
                raise ContentGone("a file became shorter while it was read")
            parts.append(part)
            at, length = at + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _check(self, fd: int) -> None:
        if self.stamp is not None and stamp_numbers(os.fstat(fd)) != self.stamp:
            raise ContentGone("a file changed while it was read")

    def read(self) -> bytes:
        """All the bytes."""
        return b"".join(self.chunks())

    def head(self, length: int) -> bytes:
        """The first bytes."""
        return Content(self.open, min(length, self.size), self.offset, self.stamp).read()

    def sha256(self) -> str:
        """The digest of the bytes."""
        digest = hashlib.sha256()
        for piece in self.chunks():
            digest.update(piece)
        return digest.hexdigest()

    def attributes(self) -> tuple[tuple[str, bytes], ...]:
        """The extended attributes of the file that new bytes in its place may have, too."""
        fd = self.open()
        try:
            return attributes_of(fd)
        finally:
            os.close(fd)

    def equals(self, other: Content) -> bool:
        """Whether both hold the same bytes, read side by side; where neither has any, nothing is read.

        Raises as `chunks` does.
        """
        if self.size != other.size:
            return False
        if self.size <= _CHUNK:
            return all(a == b for a, b in zip_longest(self.chunks(), other.chunks()))
        with self._opened() as mine, other._opened() as theirs:
            at = 0
            while (at := min(self._next_bytes(mine, at), other._next_bytes(theirs, at))) < self.size:
                length = min(_CHUNK, self.size - at)
                if self._piece(mine, self.offset + at, length) != other._piece(theirs, other.offset + at, length):
                    return False
                at += length
            self._check(mine)
            other._check(theirs)
        return True

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, open and as it is meant to be; raises as `chunks` does."""
        fd = self.open()
        try:
            self._check(fd)
            yield fd
        finally:
            os.close(fd)

    def _next_bytes(self, fd: int, at: int) -> int:
        """Where bytes come next, from a place on that may be in a hole; the end if there are none."""
        try:
            return min(self.size, max(at, os.lseek(fd, self.offset + at, os.SEEK_DATA) - self.offset))
        except OSError as error:  # a file system that does not tell has bytes everywhere
            return self.size if error.errno == errno.ENXIO else at


Source = Content | bytes
"""Bytes to be written somewhere: where they are, or the bytes themselves."""


def pieces_of(source: Source | None) -> Iterable[bytes]:
    return source.chunks() if isinstance(source, Content) else [source or b""]


def is_binary(data: bytes) -> bool:
    """Whether git would treat these contents as binary."""
    return b"\0" in data[:_BINARY_PROBE]


@dataclass(frozen=True, slots=True)
class Node:
    """One version of a path."""

    kind: NodeKind
    mode: int
    size: int = 0
    target: bytes | None = None
    content: Content | None = None
    """Where a file's bytes are; None when nobody kept them."""
    inode: int = 0
    st: os.stat_result | None = None
    """The full stat of a version that is there now."""

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)

    @property
    def is_binary(self) -> bool:
        """Whether it is a file that git would treat as binary, as far as its bytes can be had."""
        try:
            return self.content is not None and is_binary(self.content.head(_BINARY_PROBE))
        except ContentGone:
            return False

    def has_bytes_of(self, other: Node) -> bool:
        """Whether two files hold the same bytes; bytes that are lost, or change while they are read, equal nothing.

        Raises:
            Unreadable: that cannot be told.
        """
        if self.kind != "f" or other.kind != "f":
            return self.kind == other.kind
        if self.size != other.size or self.content is None or other.content is None:
            return False
        try:
            return self.content.equals(other.content)
        except ContentGone:
            return False


def node_of(st: os.stat_result, target: bytes | None, root: Callable[[], int], path: bytes) -> Node:
    """The version of a path that has this stat now; `root` opens the folder that the path is below."""
    if not stat.S_ISREG(st.st_mode):
        kind: NodeKind = "d" if stat.S_ISDIR(st.st_mode) else "l" if stat.S_ISLNK(st.st_mode) else "s"
        return Node(kind, st.st_mode, 0, target, None, st.st_ino, st)
    content = Content(partial(open_file, root, path), st.st_size, stamp=stamp_numbers(st))
    return Node("f", st.st_mode, st.st_size, None, content, st.st_ino, st)


def open_file(root: Callable[[], int], path: bytes) -> int:
    """Open a regular file below a folder for reading, through no link and without blocking on a FIFO.

    Raises:
        ContentGone: there is no such file, or it is something else now.
        Unreadable: there may be one, and it cannot be opened.
    """
    parent, _, name = path.rpartition(b"/")
    top = root()
    try:
        folder = open_beneath(top, parent, READ_DIR)
        try:
            # Opening a device can have effects of its own.
            is_file = stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            fd = os.open(name, READ_FILE, dir_fd=folder) if is_file else -1
        finally:
            os.close(folder)
    except OSError as error:
        if is_gone(error) or leads_away(error) or error.errno == errno.ENXIO:
            raise ContentGone(f"cannot read {os.fsdecode(path)!r}", where=[str(error.strerror)]) from error
        raise unreadable(path, error, _name_of(top)) from error
    finally:
        os.close(top)
    if fd < 0 or not stat.S_ISREG(os.fstat(fd).st_mode):
        if fd >= 0:
            os.close(fd)
        raise ContentGone(f"{os.fsdecode(path)!r} is no longer a file")
    return fd


def attributes_of(fd: int) -> tuple[tuple[str, bytes], ...]:
    """The extended attributes of an open file or folder that what is put in its place may have, too.

    Raises:
        ContentGone: they changed this instant.
        Unreadable: they cannot be read.
    """
    try:
        names = [name for name in os.listxattr(fd) if name.startswith(_KEPT_ATTRIBUTES)]
        return tuple((name, os.getxattr(fd, name)) for name in sorted(names))
    except OSError as error:
        if error.errno == errno.ENODATA:  # one of them was removed this instant
            raise ContentGone("a file changed while it was read") from error
        if error.errno != errno.EOPNOTSUPP:  # a file system without attributes
            raise unreadable(_name_of(fd), error) from error
        return ()


def open_stored(file: Path) -> int:
    """Open a file of our own that holds bytes."""
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if not is_gone(error):
            raise unreadable(str(file), error) from error
        raise ContentGone("kept bytes are gone", where=[f"{file}: {error.strerror}"]) from error


def _name_of(fd: int) -> str:
    """What the system calls an open file, for a message."""
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return "a file"


class Hosts:
    """The mounts' own folders on the host, opened when needed and proven to be the ones that were copied; close it.

    A folder is reached component by component through no link and must have the identity recorded at
    preparation; another folder put in its place is refused.
    """

    def __init__(self, record: Record, store: ByteStore) -> None:
        self.record = record
        self.mounts = record.mounts
        self.store = store
        self._open: dict[int, int] = {}

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def folder(self, mount: int) -> int:
        """The handle of a mount's host folder; it stays ours.

        Raises:
            WorkspaceSecurityError: the folder is gone, is reached through a link now, or is another one.
        """
        if mount not in self._open:
            self._open[mount] = _open_mount(self.mounts[mount])
        return self._open[mount]

    def has_folder(self, mount: int) -> bool:
        """Whether there is anything at the path of a mount's host folder: on another machine there may be nothing.

        Raises:
            WorkspaceSecurityError: there is, and it is not the folder.
        """
        try:
            self.folder(mount)
        except WorkspaceSecurityError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise
        return True

    def open_folder(self, mount: int) -> int:
        """A handle of its own; contents ask for one long after these hosts were closed."""
        return os.dup(self._open[mount]) if mount in self._open else _open_mount(self.mounts[mount])

    def open_parent(self, mount: int, host_path: bytes) -> tuple[int, bytes]:
        """The folder a host path lies in, and its name there; the caller closes the folder.

        Raises:
            OSError: there is no such folder, or the way leads through a link.
        """
        single_file = self.mounts[mount].name
        parent, _, name = (host_path if single_file is None else single_file).rpartition(b"/")
        return open_beneath(self.folder(mount), parent, READ_DIR), name

    def find_parent(self, mount: int, host_path: bytes) -> tuple[int, bytes] | None:
        """`open_parent`, but None where there is no such folder, or only behind a link."""
        try:
            return self.open_parent(mount, host_path)
        except OSError as error:
            if is_gone(error) or leads_away(error):
                return None
            raise

    def look(self, mount: int, host_path: bytes) -> Node | None:
        """What is at a host path now, None if nothing.

        Raises:
            WorkspaceSecurityError: the way there leads through a link.
            ContentGone: it changed this instant.
            Unreadable: it cannot be looked at.
        """
        try:
            folder, name = self.open_parent(mount, host_path)
        except OSError as error:
            if is_gone(error):
                return None
            if leads_away(error):
                raise leads_elsewhere(self.mounts[mount], host_path, error) from error
            raise unreadable(host_path, error, self.mounts[mount].host) from error
        try:
            return self.look_in(folder, name, mount, host_path)
        finally:
            os.close(folder)

    def look_in(self, folder: int, name: bytes, mount: int, host_path: bytes) -> Node | None:
        """`look` where the folder is open already."""
        target = None
        try:
            st = os.stat(name or b".", dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(host_path, error, self.mounts[mount].host) from error
        if stat.S_ISLNK(st.st_mode):
            try:
                target = os.readlink(name, dir_fd=folder)
            except OSError as error:
                if is_gone(error) or error.errno == errno.EINVAL:
                    raise ContentGone("a link became something else while it was read") from error
                raise unreadable(host_path, error, self.mounts[mount].host) from error
        place = host_path if self.mounts[mount].name is None else name
        return node_of(st, target, partial(self.open_folder, mount), place)

    def recorded(self, row: Row) -> Node:
        """The version of a path that the record remembers."""
        return Node(row.kind, row.mode, row.copy.size, row.target, self.base(row), row.copy.inode)

    def base(self, row: Row) -> Content | None:
        """Where the bytes of a recorded file are now; None when they are lost.

        A host file that is still as it was copied is its own base, so most bytes never have to be kept.

        Raises:
            Unreadable: whether they are lost cannot be told.
        """
        if row.kind != "f":
            return None
        if row.base >= 0:
            return self.store.content(row.base, row.copy.size)
        if (below := self._below(row)) is not None:
            return below
        if not row.host_is_base or row.mount < 0 or row.host.size != row.copy.size:
            return None
        if is_too_fresh(self.record, row):
            return None
        try:
            now = self.look(row.mount, row.host_path)
        except (WorkspaceSecurityError, ContentGone):
            return None
        return now.content if now and now.st and row.host_is_untouched(now.st) else None

    def _below(self, row: Row) -> Content | None:
        """The bytes in the kept copy that the workspace lies over; None where it has another version, or there is none.

        Raises:
            Unreadable: that cannot be told.
        """
        top = self.store.below()
        if top is None:
            return None
        found = Content(partial(open_file, partial(_open_kept, top), row.path), row.copy.size, stamp=row.copy)
        try:
            found.head(0)
        except ContentGone:
            return None
        return found


def _open_kept(top: Path) -> int:
    try:
        return os.open(top, READ_DIR)
    except OSError as error:
        raise unreadable(str(top), error) from error


def is_too_fresh(record: Record, row: Row) -> bool:
    """Whether the host file was changed so shortly before it was copied that a change after it could hide."""
    return row.host.ctime_ns > record.created_ns - FRESH_NS


def leads_elsewhere(mount: MountRecord, host_path: bytes, error: OSError) -> WorkspaceSecurityError:
    """The error for a host path that can no longer be reached without leaving the mount."""
    return WorkspaceSecurityError(
        f"{safe_name(host_path or mount.host)} can no longer be reached in the mount without following a link",
        where=[f"{safe_name(mount.host)}: {error.strerror}"],
        fix="Put the folder back, or choose other changes by their paths",
    )


def _open_mount(mount: MountRecord) -> int:
    root = os.open("/", READ_DIR)
    try:
        fd = open_beneath(root, mount.host.strip(b"/") or b".", READ_DIR)
    except OSError as error:
        if is_gone(error) or leads_away(error):
            raise leads_elsewhere(mount, b"", error) from error
        raise unreadable(mount.host, error) from error
    finally:
        os.close(root)
    st = os.fstat(fd)
    if (st.st_dev, st.st_ino) != (mount.dev, mount.inode):
        os.close(fd)
        raise WorkspaceSecurityError(
            "the mount's folder was replaced by another one since the workspace was prepared",
            where=[os.fsdecode(mount.host)],
            fix="Prepare a new workspace, or apply changes().patch() by hand.",
        )
    return fd
