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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from toolkit._base.handles import CREATE_FILE, READ_FILE, make_folders, open_beneath
from toolkit._base.words import safe_name, size_text
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.copying.second import MOST_NAMES
from toolkit_workspace.copying.sharing import Batch, Sharing
from toolkit_workspace.copying.small_files import Result
from toolkit_workspace.copying.target import Target
from toolkit_workspace.copying.transfer import Mover, TooLarge
from toolkit_workspace.record import Kind, Record, Row, Stamp, join
from toolkit_workspace.selecting.left_behind import Notes
from toolkit_workspace.selecting.outline import Outline
from toolkit_workspace.selecting.roots import AllowedRoots
from toolkit_workspace.selecting.walk import Folder, Walk

_NO_LIMIT = 1 << 62
_TICK_SECONDS = 0.05
_BAD_SOURCE = frozenset({errno.EIO, errno.EACCES, errno.EISDIR, errno.ESTALE})

Named = tuple[str, int]
"""Name and size of a copied file."""


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
    """Fills one workspace; a context manager."""

    def __init__(self, workspace: int, record: Record, ticker: Ticker) -> None:
        self._workspace = workspace
        self._record = record
        self._ticker = ticker
        self._mover = Mover()
        self._sharing = Sharing()
        self._names: dict[tuple[int, int], _Names] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sharing.close()

    def copy_folder(self, job: Job, handle: int, real_paths: tuple[bytes, ...]) -> None:
        """Copy the folder mount that `handle` is open on; the walk closes it."""
        target = Target(self._workspace, job.index, job.at, self._record)
        try:
            for folder in job.walk.folders(handle, real_paths):
                target.enter(folder)
                if folder.is_wanted or folder.files or folder.links or folder.followed:
                    target.make()
                    self._fill(job, folder, target)
                self._ticker.tick(job.tally, folder.path)
            self._settle(job, target, self._sharing.finish())
            target.leave_all()
        finally:
            target.close()
        job.tally.folders += target.made_folders
        self._note_other_names(job)

    def copy_single(self, job: Job, parent: int, name: bytes) -> None:
        """Copy the file mount `name` in the open folder `parent`."""
        above, _, landing = job.at.rpartition(b"/")
        target = make_folders(self._workspace, above)
        try:
            source = open_beneath(parent, name, READ_FILE)
            try:
                copied = self._copy_open(job, source, target, landing, landing)
                if copied is not None:
                    self._add(job, job.at, b"", None, "f", *copied)
                    self._count(job, b"", [(os.fsdecode(landing), copied[0].st_size)], most_named=1)
            finally:
                os.close(source)
        finally:
            os.close(target)
        self._note_other_names(job)

    def _fill(self, job: Job, folder: Folder, target: Target) -> None:
        place, outline = target.place, job.tally.outline
        for name, link in folder.links:
            self._copy_link(job, folder, name, link, target)
        links = folder.links[: outline.most_names] if outline.keeps(folder.path) else []
        outline.add(folder.path, 0, 0, [(name, f"-> {safe_name(link)}") for name, link in links])
        for name, host in folder.followed:
            copied = self._copy_followed(job, folder, host, name, target)
            self._count(job, folder.path, copied, most_named=outline.most_names - len(folder.files))
        for start in range(0, len(folder.files), MOST_NAMES):
            names = folder.files[start : start + MOST_NAMES]
            batch = Batch(names, folder.handle, target.handle, place, is_first=not start)
            self._settle(job, target, self._sharing.copy(batch, job.room))

    def _settle(self, job: Job, target: Target, done: Iterable[tuple[Batch, Result]]) -> None:
        """Record batches that were copied, and copy what was left of them: all but small plain files."""
        for batch, (rest, files) in done:
            sizes = [host[0] for _, _, host in files]
            job.room -= sum(sizes)
            place, names = batch.place, batch.names
            path = target.path(place)
            left = [names[position] for position in rest]
            if rest:
                names = [name for name in names if name not in left]
            if names:
                self._record.add_files(job.index, path, place.host_path, names, files)
            copied = list(zip(names, sizes, strict=True))
            for name in left:
                copied += self._copy_left(job, batch, name, path)
            self._count(job, place.host_path, copied, job.tally.outline.most_names if batch.is_first else 0)
            if batch.is_shared:
                target.answered(place)

    def _copy_left(self, job: Job, batch: Batch, name: str, folder: bytes) -> list[Named]:
        """Copy one file that is not small and plain, or remark why not."""
        host_path = join(batch.place.host_path, os.fsencode(name))
        try:
            source = os.open(name, READ_FILE, dir_fd=batch.source)
        except OSError as error:
            job.walk.failed(host_path, error)
            return []
        return self._copy_and_close(job, source, batch.into, folder, host_path)

    def _copy_and_close(self, job: Job, source: int, into: int, folder: bytes, host_path: bytes) -> list[Named]:
        """Copy an open file into the open folder `into`, which is `folder` of the workspace, and record it."""
        name = host_path.rpartition(b"/")[2]
        try:
            copied = self._copy_open(job, source, into, name, host_path)
        finally:
            os.close(source)
        if copied is None:
            return []
        self._add(job, join(folder, name), host_path, None, "f", *copied)
        return [(os.fsdecode(name), copied[0].st_size)]

    def _copy_open(
        self, job: Job, source: int, into: int, name: bytes, host_path: bytes
    ) -> tuple[os.stat_result, os.stat_result] | None:
        """Copy any open file as `name` into the open folder `into`; the stats of the copy and of what was read."""
        st = os.fstat(source)
        if not stat.S_ISREG(st.st_mode):
            job.notes.add(host_path, "vanished", detail="became something else meanwhile")
            return None
        target = os.open(name, CREATE_FILE, (st.st_mode & 0o777) | 0o600, dir_fd=into)
        try:
            job.room -= self._mover.move(source, target, st, self._room(job))
            os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
            made = os.fstat(target)
        except TooLarge:
            self._count_unreported(job)
            raise OverBudget(host_path, st.st_size) from None
        except OSError as error:
            if error.errno not in _BAD_SOURCE:
                raise
            os.unlink(name, dir_fd=into)
            job.walk.failed(host_path, error)
            return None
        finally:
            os.close(target)
        if made.st_size != st.st_size:
            job.notes.add(host_path, "changed meanwhile", detail="became shorter")
        if st.st_nlink > 1:
            self._names.setdefault((st.st_dev, st.st_ino), _Names(host_path, st.st_nlink)).meet(host_path)
        return made, st

    def _add(
        self, job: Job, path: bytes, host_path: bytes, link: bytes | None, kind: Kind, made: os.stat_result,
        st: os.stat_result,
    ) -> None:  # fmt: skip
        """Record the copy as it was made, the source as it was read."""
        self._record.add(Row(path, host_path, link, kind, job.index, made.st_mode, Stamp.of(made), Stamp.of(st)))

    def _room(self, job: Job) -> int:
        """How much may be written now: exactly what is left, so no shared batch may be under way."""
        if job.budget is None:
            return job.room
        self._sharing.settle()
        return job.room - self._sharing.claimed()

    def _count_unreported(self, job: Job) -> None:
        """Take what was copied and not yet settled into account, for the message that ends it all."""
        for batch, (rest, files) in self._sharing.unreported():
            sizes = [host[0] for _, _, host in files]
            names = [name for position, name in enumerate(batch.names) if position not in rest]
            self._count(job, batch.place.host_path, list(zip(names, sizes, strict=True)), most_named=0)
            job.room -= sum(sizes)

    def _count(self, job: Job, host_folder: bytes, copied: Sequence[Named], most_named: int) -> None:
        """Add copied files of one folder to the tally, and show the first of them in the outline."""
        tally = job.tally
        size = sum([size for _, size in copied])
        tally.files += len(copied)
        tally.size += size
        if job.budget is not None:
            for name, one in copied:
                tally.keep_largest(one, join(host_folder, os.fsencode(name)))
        first = sorted(copied)[:most_named] if most_named > 0 and tally.outline.keeps(host_folder) else ()
        tally.outline.add(host_folder, len(copied), size, [(name, size_text(one)) for name, one in first])

    def _copy_followed(self, job: Job, folder: Folder, host: bytes, name: str, target: Target) -> list[Named]:
        assert job.follow is not None
        host_path = join(folder.path, os.fsencode(name))
        try:
            source = job.follow.open(host, READ_FILE & ~os.O_NOFOLLOW)
        except WorkspaceSecurityError:
            job.notes.add(host_path, "link leads out", detail="changed meanwhile")
            return []
        except OSError as error:
            job.walk.failed(host_path, error)
            return []
        return self._copy_and_close(job, source, target.handle, target.path(target.place), host_path)

    def _copy_link(self, job: Job, folder: Folder, name: str, link: bytes, target: Target) -> None:
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
        self._add(job, join(target.path(target.place), raw), host_path, link, "l", made, st)

    def _note_other_names(self, job: Job) -> None:
        """Report files with names outside the mount: a change taken back would show there too."""
        for names in self._names.values():
            if names.there_are > names.met:
                count = names.there_are - names.met
                job.notes.add(names.first, "has other names", detail=f"{count} outside the mount")
        self._names.clear()


@dataclass(slots=True)
class _Names:
    """A file with more than one name: the first one, how many there are, how many were met."""

    first: bytes
    there_are: int
    met: int = 0

    def meet(self, name: bytes) -> None:
        self.first = min(self.first, name)
        self.met += 1
