"""Copy the folders of a walk into the workspace, and record each entry in the manifest.

Files are opened once, looked at through the open handle, and never written past
the mount's budget. Owners, setuid, setgid and sticky bits stay behind; the
permission bits come along (owner access is always given: it is the agent's copy).
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace._bytes import SMALL, Mover, TooLarge
from toolkit_workspace._handles import CREATE_FILE, READ_FILE, DirStack, make_folders, open_beneath, open_folder
from toolkit_workspace._manifest import Kind, Manifest, join
from toolkit_workspace._notes import Notes
from toolkit_workspace._outline import Outline
from toolkit_workspace._render import shown, size_text
from toolkit_workspace._roots import AllowedRoots
from toolkit_workspace._walk import Folder, Walk

_NO_LIMIT = 1 << 62
_KIND, _REGULAR = 0o170000, stat.S_IFREG
_TICK_SECONDS = 0.05
_BAD_SOURCE = frozenset({errno.EIO, errno.EACCES, errno.EISDIR, errno.ESTALE})

Copied = tuple[str, os.stat_result, os.stat_result]
"""Name, stat of the copy, stat of what was read."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a copy is."""

    files: int
    bytes: int
    path: str
    """The folder it is in, relative to the workspace."""


@dataclass(slots=True)
class Tally:
    """What one mount brought along."""

    files: int = 0
    folders: int = 0
    links: int = 0
    size: int = 0
    """The sizes of the files."""
    largest: list[tuple[int, bytes]] = field(default_factory=list)
    """The five largest files, a heap; kept only under a budget."""
    outline: Outline = field(default_factory=Outline)

    def keep_largest(self, size: int, path: bytes) -> None:
        if len(self.largest) < 5:
            heapq.heappush(self.largest, (size, path))
        elif size > self.largest[0][0]:
            heapq.heapreplace(self.largest, (size, path))


class OverBudget(Exception):
    """The mount's budget would be passed; carries the path that would have."""

    def __init__(self, path: bytes, size: int) -> None:
        self.path = path
        self.size = size


class Ticker:
    """Calls back about progress, a few times a second at most."""

    def __init__(self, callback: Callable[[Progress], None] | None) -> None:
        self._callback = callback
        self._next = time.monotonic() + _TICK_SECONDS
        self._before = (0, 0)

    def tick(self, tally: Tally, folder: bytes) -> None:
        if self._callback is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _TICK_SECONDS
        files, size = self._before
        self._callback(Progress(files + tally.files, size + tally.size, os.fsdecode(folder)))

    def mount_done(self, tally: Tally) -> None:
        files, size = self._before
        self._before = (files + tally.files, size + tally.size)


@dataclass(slots=True)
class Job:
    """One mount being copied: from which walk, to which place, under which budget."""

    index: int
    at: bytes
    """Where the mount lands, relative to the workspace; empty for the workspace itself."""
    walk: Walk
    notes: Notes
    budget: int | None
    follow: AllowedRoots | None
    tally: Tally = field(default_factory=Tally)
    room: int = _NO_LIMIT
    """Bytes that may still be written."""

    def __post_init__(self) -> None:
        self.room = _NO_LIMIT if self.budget is None else self.budget


class Copier:
    """Fills one workspace."""

    def __init__(self, workspace: int, manifest: Manifest, ticker: Ticker) -> None:
        self._workspace = workspace
        self._manifest = manifest
        self._ticker = ticker
        self._mover = Mover()
        self._names: dict[tuple[int, int], _Names] = {}

    def copy_folder(self, job: Job, handle: int, real_paths: tuple[bytes, ...]) -> None:
        """Copy the folder mount that `handle` is open on; the walk closes it."""
        target = _Target(self._workspace, job, self._manifest)
        try:
            for folder in job.walk.folders(handle, real_paths):
                target.enter(folder)
                if folder.is_wanted or folder.files or folder.links or folder.followed:
                    target.make()
                    self._fill(job, folder, target)
                self._ticker.tick(job.tally, folder.path)
            target.leave_all()
        finally:
            target.close()
        self._note_other_names(job)

    def copy_single(self, job: Job, parent: int, name: bytes) -> None:
        """Copy the file mount `name` in the open folder `parent`."""
        above, _, landing = job.at.rpartition(b"/")
        target = make_folders(self._workspace, above)
        try:
            source = open_beneath(parent, name, READ_FILE)
            try:
                copied: list[Copied] = []
                self._copy_open(job, source, os.fstat(source), target, os.fsdecode(landing), b"", copied)
                self._count(job, above, b"", copied, plain=False)
            finally:
                os.close(source)
        finally:
            os.close(target)
        self._note_other_names(job)

    def _fill(self, job: Job, folder: Folder, target: _Target) -> None:
        copied: list[Copied] = []
        plain = self._copy_files(job, folder, target.handle, copied)
        for name, host in folder.followed:
            self._copy_followed(job, folder, host, name, target.handle, copied)
        size = self._count(job, target.path, folder.path, copied, plain)
        for name, link in folder.links:
            self._copy_link(job, folder, name, link, target)
        outline = job.tally.outline
        first: list[tuple[str, str]] = []
        if outline.keeps(folder.path):
            first += [(name, size_text(made.st_size)) for name, made, _ in copied[: outline.most_names]]
            first += [(name, f"-> {shown(link)}") for name, link in folder.links[: outline.most_names]]
        outline.add(folder.path, len(copied), size, first)

    def _copy_files(self, job: Job, folder: Folder, into: int, copied: list[Copied]) -> bool:
        """The innermost loop: a small plain file is copied right here, and every call is felt.

        Whether all were such files; only otherwise is there more to say about one of them.
        """
        open_, fstat, close, read, write, utime = os.open, os.fstat, os.close, os.read, os.write, os.utime
        parent, room, plain = folder.handle, job.room, True
        for name in folder.files:
            try:
                source = open_(name, READ_FILE, dir_fd=parent)
            except OSError as error:
                job.walk.failed(join(folder.path, os.fsencode(name)), error)
                continue
            try:
                st = fstat(source)
                mode, size = st.st_mode, st.st_size
                if mode & _KIND == _REGULAR and size <= SMALL and size <= room and st.st_nlink == 1:
                    try:
                        data = read(source, size)
                    except OSError:
                        data = b""
                    if len(data) == size <= st.st_blocks << 9:
                        target = open_(name, CREATE_FILE, (mode & 0o777) | 0o600, dir_fd=into)
                        try:
                            if write(target, data) != size:
                                self._mover.finish(source, target, 0, size)
                            utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
                            copied.append((name, fstat(target), st))
                        finally:
                            close(target)
                        room -= size
                        continue
                job.room, plain = room, False
                self._copy_open(job, source, st, into, name, folder.path, copied)
                room = job.room
            finally:
                close(source)
        job.room = room
        return plain

    def _copy_open(
        self,
        job: Job,
        source: int,
        st: os.stat_result,
        into: int,
        name: str,
        host_folder: bytes,
        copied: list[Copied],
    ) -> None:
        """Copy any open file as `name` into the open folder `into`."""
        if st.st_mode & _KIND != _REGULAR:
            job.notes.add(join(host_folder, os.fsencode(name)), "vanished", detail="became something else meanwhile")
            return
        target = os.open(name, CREATE_FILE, (st.st_mode & 0o777) | 0o600, dir_fd=into)
        try:
            job.room -= self._mover.move(source, target, st, job.room)
            os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
            copied.append((name, os.fstat(target), st))
        except TooLarge:
            raise OverBudget(join(host_folder, os.fsencode(name)), st.st_size) from None
        except OSError as error:
            if error.errno not in _BAD_SOURCE:
                raise
            os.unlink(name, dir_fd=into)
            job.walk.failed(join(host_folder, os.fsencode(name)), error)
        finally:
            os.close(target)

    def _count(self, job: Job, folder: bytes, host_folder: bytes, copied: list[Copied], plain: bool) -> int:
        """Put the files of one folder into the tally and the manifest; the sum of their sizes."""
        if not copied:
            return 0
        tally = job.tally
        size = sum([made.st_size for _, made, _ in copied])
        tally.files += len(copied)
        tally.size += size
        self._manifest.add_files(job.index, folder, host_folder, copied)
        if not plain or job.budget is not None:
            for one in copied:
                self._remark(job, host_folder, *one)
        return size

    def _remark(self, job: Job, host_folder: bytes, name: str, made: os.stat_result, st: os.stat_result) -> None:
        host_path = join(host_folder, os.fsencode(name))
        if made.st_size != st.st_size:
            job.notes.add(host_path, "changed meanwhile", detail="became shorter")
        if job.budget is not None:
            job.tally.keep_largest(made.st_size, host_path)
        if st.st_nlink > 1:
            self._names.setdefault((st.st_dev, st.st_ino), _Names(host_path, st.st_nlink)).seen += 1

    def _copy_followed(self, job: Job, folder: Folder, host: bytes, name: str, into: int, copied: list[Copied]) -> None:
        assert job.follow is not None
        host_path = join(folder.path, os.fsencode(name))
        try:
            source = job.follow.open(host, READ_FILE & ~os.O_NOFOLLOW)
        except WorkspaceSecurityError:
            job.notes.add(host_path, "link leads out", detail="changed meanwhile")
            return
        except OSError as error:
            job.walk.failed(host_path, error)
            return
        try:
            self._copy_open(job, source, os.fstat(source), into, name, folder.path, copied)
        finally:
            os.close(source)

    def _copy_link(self, job: Job, folder: Folder, name: str, link: bytes, target: _Target) -> None:
        into, raw = target.handle, os.fsencode(name)
        host_path = join(folder.path, raw)
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
        except OSError as error:
            job.walk.failed(host_path, error)
            return
        os.symlink(link, name, dir_fd=into)
        os.utime(name, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=into, follow_symlinks=False)
        made = os.stat(name, dir_fd=into, follow_symlinks=False)
        job.tally.links += 1
        record(self._manifest, job, join(target.path, raw), "l", made, link, host_path, st)

    def _note_other_names(self, job: Job) -> None:
        """Report files with names outside the mount: a change taken back would show there too."""
        for names in self._names.values():
            if names.there_are > names.seen:
                count = names.there_are - names.seen
                job.notes.add(names.first, "has other names", detail=f"{count} outside the mount")
        self._names.clear()


@dataclass(slots=True)
class _Names:
    """A file with more than one name: the first one met, how many there are, how many were met."""

    first: bytes
    there_are: int
    seen: int = 0


def record(
    manifest: Manifest,
    job: Job,
    path: bytes,
    kind: Kind,
    made: os.stat_result,
    link: bytes | None,
    host_path: bytes,
    st: os.stat_result,
) -> None:
    """One entry for the manifest: the copy as it was made, the source as it was read."""
    manifest.add(
        job.index,
        path,
        kind,
        made.st_mode,
        made.st_size if kind != "d" else 0,
        made.st_mtime_ns,
        made.st_ctime_ns,
        made.st_ino,
        link,
        host_path,
        st.st_size if kind != "d" else 0,
        st.st_mtime_ns,
        st.st_ctime_ns,
        st.st_ino,
    )


class _Target:
    """The workspace side of a walk: folders are made when something comes into them."""

    def __init__(self, workspace: int, job: Job, manifest: Manifest) -> None:
        self._job = job
        self._manifest = manifest
        self._stack = DirStack(make_folders(workspace, job.at))
        self._wanted: list[tuple[bytes, os.stat_result]] = []
        self._made = 0
        self._top: os.stat_result | None = None
        self.path = job.at

    @property
    def handle(self) -> int:
        return self._stack.top

    def enter(self, folder: Folder) -> None:
        """Stand where the walk stands; nothing is made yet."""
        if not folder.depth:
            self._top = folder.stat
            return
        while len(self._wanted) >= folder.depth:
            self._leave()
        self._wanted.append((folder.path, folder.stat))

    def make(self) -> None:
        """Make the folders from the mount down to here, as far as they are missing."""
        while self._made < len(self._wanted):
            host_path, st = self._wanted[self._made]
            name = host_path.rpartition(b"/")[2]
            mode = (st.st_mode & 0o777) | 0o700
            os.mkdir(name, mode, dir_fd=self._stack.top)
            handle = open_folder(self._stack.top, name)
            made = os.fstat(handle)
            self._stack.push(handle, (made.st_dev, made.st_ino))
            self._made += 1
            self._job.tally.folders += 1
        self.path = join(self._job.at, self._wanted[-1][0]) if self._wanted else self._job.at

    def leave_all(self) -> None:
        while self._wanted:
            self._leave()
        if self._top is not None and self._job.at:
            self._finish(b"", self._top)

    def close(self) -> None:
        self._stack.close()

    def _leave(self) -> None:
        host_path, st = self._wanted.pop()
        if self._made > len(self._wanted):
            self._finish(host_path, st)
            self._stack.pop()
            self._made -= 1

    def _finish(self, host_path: bytes, st: os.stat_result) -> None:
        """Nothing more comes into this folder: its mtime can be set and its entry recorded."""
        os.utime(self._stack.top, ns=(st.st_atime_ns, st.st_mtime_ns))
        made = os.fstat(self._stack.top)
        place = join(self._job.at, host_path) if host_path else self._job.at
        record(self._manifest, self._job, place, "d", made, None, host_path, st)
