"""Look whether the host is still what a kept copy was made of: one stat for each row, and no more.

A folder of the host whose stamp is as recorded has had nothing added or removed. One that has another stamp is
listed; as long as it has the same names, only files were replaced. Whatever else is different (a new name, a link, a
rule file) is not judged here: then the mount is walked as for a copy, and that decides.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolkit._base.files import umask
from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.pristine.comparing import Comparer
from toolkit_workspace.record.record import FRESH_NS, Record, Rows, join
from toolkit_workspace.selecting import Source, Tally

_UNSURE = ("unreadable", "vanished", "changed meanwhile", "holds credentials")
"""Reasons that can go away without a trace in the folder that something lies in."""
_NOTHING = Rows()


class Walkable(Exception):
    """Something is different that only a walk can judge."""


@dataclass(slots=True)
class Suspect:
    """A file of the host that may hold other bytes than its copy."""

    path: bytes
    """Relative to the workspace."""
    host_path: bytes
    """Relative to the mount."""
    is_fresh: bool
    """Whether its stamp is as recorded, but too young to prove anything."""


@dataclass(slots=True)
class OtherFolder:
    """A folder of the host that has the same names in it, and another stamp."""

    path: bytes
    host_path: bytes
    stat: os.stat_result


def folder_mode(st: os.stat_result, umask: int) -> int:
    """The permissions that a copy of a folder gets."""
    return (st.st_mode & 0o777 | 0o700) & ~umask


def is_simple(source: Source, tally: Tally) -> bool:
    """Whether a mount's rows say all there is to know about it, once nothing is different."""
    mount = source.mount
    if mount.include_glob or mount.follow_symlinks:
        return False
    return not any(why in _UNSURE for why, _ in tally.left.counts)


def suspects(
    record: Record, number: int, source: Source, tally: Tally, comparer: Comparer
) -> tuple[list[Suspect], list[OtherFolder]]:
    """The files of a mount that may be different, sorted by path, and the folders that have another time.

    Raises:
        Walkable: something else is different.
        OSError: the host cannot be looked at.
    """
    look = _Rescan(record, number, source, {*tally.repositories})
    if source.record.name is not None:
        look.single()
    else:
        look.tree(comparer)
    return sorted(look.found, key=lambda one: one.path), look.folders


@dataclass(slots=True)
class _Rescan:
    record: Record
    number: int
    source: Source
    repositories: set[bytes]
    found: list[Suspect] = field(default_factory=list)
    folders: list[OtherFolder] = field(default_factory=list)
    umask: int = field(default_factory=umask)
    newest: int = field(init=False)

    def __post_init__(self) -> None:
        self.newest = self.record.created_ns - FRESH_NS

    def single(self) -> None:
        at, name = self.source.record.at, self.source.record.name
        row = self.record.get(at)
        if row is None or row.kind != "f":
            raise Walkable
        try:
            st = os.stat(name or b"", dir_fd=self.source.handle, follow_symlinks=False)
        except OSError as error:
            raise Walkable from error
        is_same = row.host_is_untouched(st)
        if not stat.S_ISREG(st.st_mode):
            raise Walkable
        if not is_same or row.host.ctime_ns > self.newest:
            self.found.append(Suspect(at, b"", is_same))

    def tree(self, comparer: Comparer) -> None:
        at = self.source.record.at
        for host_path in comparer.differing():
            path = join(at, host_path) if host_path else at
            try:
                fd = open_beneath(self.source.handle, host_path or b".", READ_DIR)
            except OSError as error:
                raise Walkable from error
            try:
                self.folder(fd, path, host_path)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                    raise Walkable from error
                raise
            finally:
                os.close(fd)

    def folder(self, fd: int, path: bytes, host_path: bytes) -> None:
        """Look closely at one open folder of the host in which something differs."""
        rows = self.record.folders.get(path, _NOTHING)
        names, st = rows.names, os.fstat(fd)
        row = self.record.get(path) if path else None
        if row is None or not row.host_is_untouched(st) or row.host.ctime_ns > self.newest:
            self._same_names(fd, host_path, names)
            if row is not None and host_path and row.mode & 0o777 != folder_mode(st, self.umask):
                raise Walkable
        if row is not None and not row.host_is_untouched(st):
            self.folders.append(OtherFolder(path, host_path, st))
        self._rows(fd, path, host_path, rows, names)

    def _rows(self, fd: int, path: bytes, host_path: bytes, rows: Rows, names: Sequence[str]) -> None:
        listed = zip(names, rows.kinds, rows.column("host_ctime_ns"), rows.column("host_inode"), strict=True)
        for name, kind, ctime_ns, inode in listed:
            st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            is_same = st.st_ctime_ns == ctime_ns and st.st_ino == inode
            if is_same and ctime_ns <= self.newest:
                continue
            if kind == "d" and stat.S_ISDIR(st.st_mode):
                continue  # it is looked at by itself
            raw = os.fsencode(name)
            if kind == "f" and stat.S_ISREG(st.st_mode) and st.st_nlink == 1 and name != ".gitignore":
                self.found.append(Suspect(join(path, raw), join(host_path, raw), is_same))
            elif not (kind == "l" and is_same):
                raise Walkable

    def _same_names(self, fd: int, host_path: bytes, names: Sequence[str]) -> None:
        extra = set(os.listdir(fd)).difference(names)
        if host_path in self.repositories:
            extra.discard(".git")
        if extra:
            raise Walkable
