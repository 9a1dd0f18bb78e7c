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
from toolkit_workspace._bytes import Mover, TooLarge
from toolkit_workspace._handles import CREATE_FILE, READ_FILE, DirStack, make_folders, open_folder
from toolkit_workspace._manifest import Manifest
from toolkit_workspace._notes import Notes
from toolkit_workspace._roots import AllowedRoots
from toolkit_workspace._walk import Folder, Walk

_NO_LIMIT = 1 << 62
_TICK_SECONDS = 0.05


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
    written: int = 0
    """Bytes really written: holes are not."""
    largest: list[tuple[int, bytes]] = field(default_factory=list)
    """The five largest files, a heap; kept only under a budget."""

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
        self.files = 0
        self.bytes = 0

    def tick(self, folder: bytes) -> None:
        if self._callback is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _TICK_SECONDS
        self._callback(Progress(self.files, self.bytes, os.fsdecode(folder)))


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


class Copier:
    """Fills one workspace."""

    def __init__(self, workspace: int, manifest: Manifest, ticker: Ticker) -> None:
        self._workspace = workspace
        self._manifest = manifest
        self._ticker = ticker
        self._mover = Mover()
        self._names: dict[tuple[int, int], list[int]] = {}
        self._first_name: dict[tuple[int, int], bytes] = {}

    def copy_folder(self, job: Job, handle: int, real_paths: tuple[bytes, ...]) -> None:
        """Copy the folder mount that `handle` is open on; the walk closes it."""
        target = _Target(self._workspace, job, self._manifest)
        try:
            for folder in job.walk.folders(handle, real_paths):
                target.enter(folder)
                if folder.is_wanted or folder.files or folder.links or folder.followed:
                    target.make()
                    self._fill(job, folder, target)
                self._ticker.tick(folder.path)
            target.leave_all()
        finally:
            target.close()
        self._note_other_names(job)

    def copy_single(self, job: Job, parent: int, name: bytes) -> None:
        """Copy the file mount `name` in the open folder `parent`."""
        above, _, landing = job.at.rpartition(b"/")
        target = make_folders(self._workspace, above)
        try:
            self._copy_file(job, parent, os.fsdecode(name), target, os.fsdecode(landing), job.at, name)
        finally:
            os.close(target)
        self._note_other_names(job)

    def _fill(self, job: Job, folder: Folder, target: _Target) -> None:
        into = target.handle
        prefix = target.path + b"/" if target.path else b""
        host_prefix = folder.path + b"/" if folder.path else b""
        for name in folder.files:
            raw = os.fsencode(name)
            self._copy_file(job, folder.handle, name, into, name, prefix + raw, host_prefix + raw)
        for name, link in folder.links:
            raw = os.fsencode(name)
            self._copy_link(job, folder.handle, name, link, into, prefix + raw, host_prefix + raw)
        for name, host in folder.followed:
            raw = os.fsencode(name)
            self._copy_followed(job, host, name, into, prefix + raw, host_prefix + raw)

    def _copy_file(
        self, job: Job, parent: int, name: str, into: int, landing: str, path: bytes, host_path: bytes
    ) -> None:
        try:
            source = os.open(name, READ_FILE, dir_fd=parent)
        except OSError as error:
            job.walk.failed(host_path, error)
            return
        try:
            self._copy_open(job, source, into, landing, path, host_path)
        finally:
            os.close(source)

    def _copy_open(self, job: Job, source: int, into: int, name: str, path: bytes, host_path: bytes) -> None:
        st = os.fstat(source)
        if not stat.S_ISREG(st.st_mode):
            job.notes.add(host_path, "vanished", detail="became something else meanwhile")
            return
        tally = job.tally
        most = _NO_LIMIT if job.budget is None else job.budget - tally.written
        target = os.open(name, CREATE_FILE, (st.st_mode & 0o777) | 0o600, dir_fd=into)
        try:
            try:
                written = self._mover.move(source, target, st, most)
            except TooLarge:
                raise OverBudget(host_path, st.st_size) from None
            except OSError as error:
                if error.errno not in (errno.EIO, errno.EACCES, errno.EISDIR, errno.ESTALE):
                    raise
                os.unlink(name, dir_fd=into)
                job.walk.failed(host_path, error)
                return
            os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
            made = os.fstat(target)
        finally:
            os.close(target)
        if made.st_size != st.st_size:
            job.notes.add(host_path, "changed meanwhile", detail="became shorter")
        tally.files += 1
        tally.size += made.st_size
        tally.written += written
        self._ticker.files += 1
        self._ticker.bytes += made.st_size
        if job.budget is not None:
            tally.keep_largest(made.st_size, host_path)
        if st.st_nlink > 1:
            self._names.setdefault((st.st_dev, st.st_ino), [st.st_nlink, 0])[1] += 1
            self._first_name.setdefault((st.st_dev, st.st_ino), host_path)
        self._manifest.add(
            job.index,
            path,
            "f",
            made.st_mode,
            made.st_size,
            made.st_mtime_ns,
            made.st_ctime_ns,
            made.st_ino,
            None,
            host_path,
            st.st_size,
            st.st_mtime_ns,
            st.st_ctime_ns,
            st.st_ino,
        )

    def _copy_followed(self, job: Job, host: bytes, name: str, into: int, path: bytes, host_path: bytes) -> None:
        assert job.follow is not None
        try:
            source = job.follow.open(host, READ_FILE & ~os.O_NOFOLLOW)
        except WorkspaceSecurityError:
            job.notes.add(host_path, "link leads out", detail="changed meanwhile")
            return
        except OSError as error:
            job.walk.failed(host_path, error)
            return
        try:
            self._copy_open(job, source, into, name, path, host_path)
        finally:
            os.close(source)

    def _copy_link(
        self, job: Job, parent: int, name: str, link: bytes, into: int, path: bytes, host_path: bytes
    ) -> None:
        try:
            st = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            job.walk.failed(host_path, error)
            return
        os.symlink(link, name, dir_fd=into)
        os.utime(name, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=into, follow_symlinks=False)
        made = os.stat(name, dir_fd=into, follow_symlinks=False)
        job.tally.links += 1
        self._manifest.add(
            job.index,
            path,
            "l",
            made.st_mode,
            made.st_size,
            made.st_mtime_ns,
            made.st_ctime_ns,
            made.st_ino,
            link,
            host_path,
            st.st_size,
            st.st_mtime_ns,
            st.st_ctime_ns,
            st.st_ino,
        )

    def _note_other_names(self, job: Job) -> None:
        """Report files with names outside the mount: a change taken back would show there too."""
        for identity, (links, seen) in self._names.items():
            if links > seen:
                count = links - seen
                job.notes.add(self._first_name[identity], "has other names", detail=f"{count} outside the mount")
        self._names.clear()
        self._first_name.clear()


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
            self._record(host_path, made, st)
        self.path = self._place(self._wanted[-1][0]) if self._wanted else self._job.at

    def leave_all(self) -> None:
        while self._wanted:
            self._leave()
        if self._top is not None and self._job.at:
            os.utime(self._stack.top, ns=(self._top.st_atime_ns, self._top.st_mtime_ns))
            self._record(b"", os.fstat(self._stack.top), self._top)

    def close(self) -> None:
        self._stack.close()

    def _leave(self) -> None:
        _, st = self._wanted.pop()
        if self._made > len(self._wanted):
            os.utime(self._stack.top, ns=(st.st_atime_ns, st.st_mtime_ns))
            self._stack.pop()
            self._made -= 1

    def _place(self, host_path: bytes) -> bytes:
        at = self._job.at
        return at + b"/" + host_path if at and host_path else at or host_path

    def _record(self, host_path: bytes, made: os.stat_result, st: os.stat_result) -> None:
        """The folder's entry; what filling it changes (ctime) is taken when the manifest is sealed."""
        self._manifest.add(
            self._job.index,
            self._place(host_path),
            "d",
            made.st_mode,
            0,
            st.st_mtime_ns,
            made.st_ctime_ns,
            made.st_ino,
            None,
            host_path,
            0,
            st.st_mtime_ns,
            st.st_ctime_ns,
            st.st_ino,
        )
