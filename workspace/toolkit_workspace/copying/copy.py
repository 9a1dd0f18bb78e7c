"""Copy the folders of a walk into the workspace, and record each file, folder and link.

Files are opened once, looked at through the open handle, and never written past
the mount's budget. Owners, setuid, setgid and sticky bits stay behind; the
permission bits come along (owner access is always given: it is the agent's copy).

A workspace folder is made when something comes into it, and finished when nothing
more does: only then can its mtime be set and its row be recorded. A second process
may still be busy with files of it when the walk has gone on; then it is finished by
whoever hears of the last one.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolkit._base.handles import CREATE_FILE, READ_DIR, READ_FILE, DirStack, make_folders, open_beneath, open_folder
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.copying import second as _second
from toolkit_workspace.copying.second import MOST_NAMES, Sharing, small_files
from toolkit_workspace.copying.small_files import Result
from toolkit_workspace.copying.transfer import Mover, TooLarge
from toolkit_workspace.record import Kind, Record, Row, Stamp, join, keep_bases
from toolkit_workspace.selecting.sources import AllowedRoots, Source
from toolkit_workspace.selecting.tally import Named, Tally, over_budget
from toolkit_workspace.selecting.walk import Folder, Walk
from toolkit_workspace.workspace import Workspace

_NO_LIMIT = 1 << 62
_TICK_SECONDS = 0.05
_BAD_SOURCE = frozenset({errno.EACCES, errno.ESTALE})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a copy is."""

    files: int
    bytes: int
    path: str
    """The folder it is in, relative to the mount."""


def fill(
    workspace: Workspace,
    sources: Sequence[Source],
    roots: AllowedRoots,
    *,
    strict: bool,
    progress: Callable[[Progress], None] | None,
) -> list[Tally]:
    """Copy every mount into the empty workspace and record it; what each brought along.

    Raises:
        WorkspaceBudgetError: a mount turned out larger than its max_bytes.
        OSError: the workspace cannot be written.
    """
    root = os.open(workspace.folder, READ_DIR)
    record, never = workspace.record, workspace.identities
    copier = _Copier(root, record, progress)
    try:
        for index, source in enumerate(sources):
            tally = Tally()
            walk = Walk.of(source, roots, tally.left, strict=strict, never=never)
            copier.copy(_Mount(index, source, walk, tally))
            tally.repositories, tally.secrets = walk.repositories, walk.secrets
        record.seal(root)
        # A host file changed just now could change again unseen: its bytes are kept at once.
        keep_bases(record, workspace.store, root, only_fresh=True)
    finally:
        copier.close()
        os.close(root)
    workspace.save()
    return copier.tallies


class _OverBudget(Exception):
    """The mount's budget would be passed; carries the file that would have, and its size."""


class _Mount:
    """One mount being copied: the walk over it, and the workspace folders from its place down to where that stands."""

    def __init__(self, index: int, source: Source, walk: Walk, tally: Tally) -> None:
        self.index, self.source, self.walk, self.tally = index, source, walk, tally
        self.at = source.record.at
        self.max_bytes = source.mount.max_bytes
        self.room = _NO_LIMIT if self.max_bytes is None else self.max_bytes
        """Bytes that may still be written."""
        self.stack: DirStack
        self.into = -1
        """The last workspace folder that was made, the top of the stack."""
        self.places: list[_Place] = []
        """From the mount down to where the walk stands."""
        self.made = 1
        """How many of them there are in the workspace: the mount itself from the beginning."""
        self.unfinished: set[_Place] = set()
        """Places the walk has left while files were still to come into them."""

    def path(self, place: _Place) -> bytes:
        """A place relative to the workspace."""
        return self.at + b"/" + place.host_path if self.at and place.host_path else self.at or place.host_path


@dataclass(slots=True, eq=False)
class _Place:
    """A folder of the mount and its copy."""

    host_path: bytes
    stat: os.stat_result
    source: int = -1
    """The host folder, while files are still to come from it."""
    into: int = -1
    """The workspace folder, while files are still to come into it."""
    awaited: int = 0
    """How many requests for files in it are unanswered."""

    def expect(self, source: int, into: int) -> tuple[int, int]:
        """Stay open for one more answer; the handles that are good until then.

        Raises:
            OSError: there are no handles left.
        """
        if self.into < 0:
            self.source = os.dup(source)
            try:
                self.into = os.dup(into)
            except OSError:
                os.close(self.source)
                self.source = -1
                raise
        self.awaited += 1
        return self.source, self.into

    def unexpect(self) -> None:
        """The answer will not come after all."""
        self.awaited -= 1
        if not self.awaited:
            self.close()

    def close(self) -> None:
        """Nothing more is awaited."""
        if self.into >= 0:
            os.close(self.source)
            os.close(self.into)
            self.source = self.into = -1


@dataclass(slots=True, eq=False)
class Batch:
    """Some files of one folder."""

    names: list[str]
    source: int
    into: int
    place: _Place
    is_shared: bool = False
    """Whether the second process has it, and its place is kept open."""


class _Copier:
    """Fills one workspace, mount by mount."""

    def __init__(self, root: int, record: Record, progress: Callable[[Progress], None] | None) -> None:
        self._root, self._record, self._progress = root, record, progress
        self._next_tick = time.monotonic() + _TICK_SECONDS
        self._seen = 0
        self._sharing: Sharing | None = None
        self._names: dict[tuple[int, int], Names] = {}
        self.tallies: list[Tally] = []

    @cached_property
    def _mover(self) -> Mover:
        return Mover()

    def close(self) -> None:
        if self._sharing is not None:
            self._sharing.close()

    def copy(self, mount: _Mount) -> None:
        """Copy one mount."""
        self.tallies.append(mount.tally)
        name = mount.source.record.name
        try:
            if name is None:
                self._copy_tree(mount)
            elif mount.walk.takes(name):
                self._copy_single(mount, name)
        except _OverBudget as over:
            assert mount.max_bytes is not None
            path, size = over.args
            largest = sorted([(os.fsdecode(path), size), *mount.tally.largest], key=lambda item: -item[1])[:5]
            needed = mount.max_bytes - mount.room + size
            raise over_budget(mount.source.mount.landing, mount.max_bytes, needed, largest) from None
        self._note_other_names(mount)

    def _copy_single(self, mount: _Mount, name: bytes) -> None:
        above, _, landing = mount.at.rpartition(b"/")
        into = make_folders(self._root, above)
        try:
            source = open_beneath(mount.source.handle, name, READ_FILE)
            copied = self._copy_and_close(mount, source, into, mount.at, b"", landing)
        finally:
            os.close(into)
        mount.tally.count(b"", copied)

    def _copy_tree(self, mount: _Mount) -> None:
        mount.into = make_folders(self._root, mount.at)
        mount.stack = DirStack(mount.into)
        try:
            for folder in mount.walk.folders():
                while len(mount.places) > folder.depth:
                    self._leave(mount)
                mount.places.append(_Place(folder.path, folder.stat))
                if folder.is_wanted or folder.files or folder.links or folder.followed:
                    self._make(mount)
                    self._copy_folder(mount, folder)
                if self._progress is not None:
                    self._tick(folder.path, self._progress)
            if self._sharing is not None:
                self._sharing.wait()
                self._hear(mount)
            while mount.places:
                self._leave(mount)
        finally:
            mount.stack.close()
            for place in (*mount.places, *mount.unfinished):
                place.close()

    def _make(self, mount: _Mount) -> None:
        """Make the folders from the mount down to here, as far as they are missing."""
        while mount.made < len(mount.places):
            place = mount.places[mount.made]
            name = place.host_path.rpartition(b"/")[2]
            os.mkdir(name, (place.stat.st_mode & 0o777) | 0o700, dir_fd=mount.into)
            mount.into = open_folder(mount.into, name)
            st = os.fstat(mount.into)
            mount.stack.push(mount.into, (st.st_dev, st.st_ino))
            mount.made += 1
            mount.tally.folders += 1

    def _leave(self, mount: _Mount) -> None:
        """The walk goes on elsewhere."""
        place = mount.places.pop()
        if mount.made <= len(mount.places):
            return
        if place.awaited:
            mount.unfinished.add(place)
        else:
            self._finish(mount, place, mount.into)
        if mount.places:
            mount.into = mount.stack.pop()
            mount.made -= 1

    def _finish(self, mount: _Mount, place: _Place, handle: int) -> None:
        """Nothing more comes into this folder: its mtime can be set and its row recorded."""
        path = mount.path(place)
        if path:  # the workspace folder itself has no row
            os.utime(handle, ns=(place.stat.st_atime_ns, place.stat.st_mtime_ns))
            self._add(mount, path, place.host_path, None, "d", os.fstat(handle), place.stat)

    def _copy_folder(self, mount: _Mount, folder: Folder) -> None:
        place, into = mount.places[-1], mount.into
        path = mount.path(place)
        if folder.links or not folder.files or self._sharing is not None:
            # Its files may be heard of out of order: the picture of the tree is begun in the order of the walk.
            links = [link for link in folder.links if self._copy_link(mount, folder, *link, into, path)]
            mount.tally.count(folder.path, (), links)
        for name, host in folder.followed:
            self._copy_followed(mount, folder.path, name, host, into, path)
        for start in range(0, len(folder.files), MOST_NAMES):
            self._copy_batch(mount, Batch(folder.files[start : start + MOST_NAMES], folder.handle, into, place))

    def _copy_batch(self, mount: _Mount, batch: Batch) -> None:
        self._seen += len(batch.names)
        if self._sharing is None and self._seen > _second.ENOUGH_FILES:
            self._sharing = Sharing()
        if self._sharing is None:
            done = small_files.copy(batch.names, batch.source, batch.into, mount.room)
            self._take_in(mount, batch, done)
            return
        if not self._sharing.hand_over(batch, mount.room):
            room = mount.room - self._sharing.claimed()
            self._take_in(mount, batch, small_files.copy(batch.names, batch.source, batch.into, room))
        self._hear(mount)

    def _hear(self, mount: _Mount) -> None:
        """Take in what the second process has done."""
        assert self._sharing is not None
        for batch, result in self._sharing.done():
            self._take_in(mount, batch, result)

    def _take_in(self, mount: _Mount, batch: Batch, result: Result) -> None:
        """Record a batch that was copied, and copy what was left of it: all but small plain files."""
        rest, files = result
        place = batch.place
        path = mount.path(place)
        left = [batch.names[position] for position in rest]
        names = [name for name in batch.names if name not in left] if left else batch.names
        copied = _sizes(names, files)
        mount.room -= sum([size for _, size in copied])
        if names:
            self._record.add_files(mount.index, path, place.host_path, names, files)
        for name in left:
            copied += self._copy_left(mount, batch, name, path)
        mount.tally.count(place.host_path, copied, keep_largest=mount.max_bytes is not None)
        if batch.is_shared:
            place.awaited -= 1
            if not place.awaited:
                if place in mount.unfinished:
                    self._finish(mount, place, place.into)
                    mount.unfinished.discard(place)
                place.close()

    def _copy_left(self, mount: _Mount, batch: Batch, name: str, folder: bytes) -> list[Named]:
        """Copy one file that is not small and plain, or remark why not."""
        raw = os.fsencode(name)
        host_path = join(batch.place.host_path, raw)
        try:
            source = os.open(name, READ_FILE, dir_fd=batch.source)
        except OSError as error:
            mount.walk.failed(host_path, error)
            return []
        return self._copy_and_close(mount, source, batch.into, join(folder, raw), host_path, raw)

    def _copy_followed(
        self, mount: _Mount, host_folder: bytes, name: str, host: bytes, into: int, folder: bytes
    ) -> None:
        assert mount.walk.follow is not None
        raw = os.fsencode(name)
        host_path = join(host_folder, raw)
        try:
            source = mount.walk.follow.open(host, READ_FILE & ~os.O_NOFOLLOW)
        except WorkspaceSecurityError:
            mount.tally.left.add(host_path, "link leads out", detail="changed meanwhile")
            return
        except OSError as error:
            mount.walk.failed(host_path, error)
            return
        copied = self._copy_and_close(mount, source, into, join(folder, raw), host_path, raw)
        mount.tally.count(host_folder, copied, keep_largest=mount.max_bytes is not None)

    def _copy_and_close(
        self, mount: _Mount, source: int, into: int, path: bytes, host_path: bytes, name: bytes
    ) -> list[Named]:
        """Copy any open file as `name` into the open folder `into`, record it as `path`, and close it."""
        try:
            copied = self._copy_open(mount, source, into, name, host_path or name)
        finally:
            os.close(source)
        if copied is None:
            return []
        self._add(mount, path, host_path, None, "f", *copied)
        return [(os.fsdecode(name), copied[0].st_size)]

    def _copy_open(
        self, mount: _Mount, source: int, into: int, name: bytes, shown: bytes
    ) -> tuple[os.stat_result, os.stat_result] | None:
        """The stats of the copy and of what was read; None if it is left out, which is then noted as `shown`."""
        st = os.fstat(source)
        if not stat.S_ISREG(st.st_mode):
            mount.tally.left.add(shown, "vanished", detail="became something else meanwhile")
            return None
        target = os.open(name, CREATE_FILE, (st.st_mode & 0o777) | 0o600, dir_fd=into)
        try:
            mount.room -= self._mover.move(source, target, st, self._room(mount))
            os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
            made = os.fstat(target)
        except TooLarge:
            self._count_unheard(mount)
            raise _OverBudget(shown, st.st_size) from None
        except OSError as error:
            if error.errno not in _BAD_SOURCE:
                error.filename = error.filename or os.fsdecode(shown)
                raise
            os.unlink(name, dir_fd=into)
            mount.walk.failed(shown, error)
            return None
        finally:
            os.close(target)
        if made.st_size != st.st_size:
            mount.tally.left.add(shown, "changed meanwhile", detail="became shorter")
        if st.st_nlink > 1:
            self._names.setdefault((st.st_dev, st.st_ino), Names(shown, st.st_nlink)).meet(shown)
        return made, st

    def _copy_link(self, mount: _Mount, folder: Folder, name: str, link: bytes, into: int, path: bytes) -> bool:
        raw = os.fsencode(name)
        host_path = join(folder.path, raw)
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
        except OSError as error:
            mount.walk.failed(host_path, error)
            return False
        os.symlink(link, name, dir_fd=into)
        os.utime(name, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=into, follow_symlinks=False)
        made = os.stat(name, dir_fd=into, follow_symlinks=False)
        self._add(mount, join(path, raw), host_path, link, "l", made, st)
        return True

    def _add(
        self, mount: _Mount, path: bytes, host_path: bytes, link: bytes | None, kind: Kind, made: os.stat_result,
        st: os.stat_result,
    ) -> None:  # fmt: skip
        """Record a copy as it was made, and its source as it was read."""
        self._record.add(Row(path, host_path, link, kind, mount.index, made.st_mode, Stamp.of(made), Stamp.of(st)))

    def _room(self, mount: _Mount) -> int:
        """How much may be written now: exactly what is left, so no shared batch may be under way."""
        if mount.max_bytes is None or self._sharing is None:
            return mount.room
        self._sharing.wait()
        return mount.room - self._sharing.claimed()

    def _count_unheard(self, mount: _Mount) -> None:
        """Take what was copied and not yet heard of into account, for the message that ends it all."""
        for batch, (rest, files) in self._sharing.done() if self._sharing is not None else ():
            names = [name for position, name in enumerate(batch.names) if position not in rest]
            copied = _sizes(names, files)
            mount.tally.count(batch.place.host_path, copied, keep_largest=True)
            mount.room -= sum([size for _, size in copied])

    def _note_other_names(self, mount: _Mount) -> None:
        note_other_names(self._names.values(), mount.tally)
        self._names.clear()

    def _tick(self, folder: bytes, progress: Callable[[Progress], None]) -> None:
        """Tell how far it is, a few times a second at most."""
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + _TICK_SECONDS
            files, size = sum(tally.files for tally in self.tallies), sum(tally.size for tally in self.tallies)
            progress(Progress(files, size, os.fsdecode(folder)))


@dataclass(slots=True)
class Names:
    """A file with more than one name: the first one, how many there are, how many were met."""

    first: bytes
    there_are: int
    met: int = 0

    def meet(self, name: bytes) -> None:
        self.first = min(self.first, name)
        self.met += 1


def note_other_names(found: Iterable[Names], tally: Tally) -> None:
    """Report files with names outside the mount: a change taken back would show there too."""
    for names in found:
        if names.there_are > names.met:
            tally.left.add(names.first, "has other names", detail=f"{names.there_are - names.met} outside the mount")


def _sizes(names: Sequence[str], files: Sequence[tuple[int, tuple[int, int, int, int], object]]) -> list[Named]:
    """Each name with the size of its copy."""
    return [(name, copy[0]) for name, (_, copy, _) in zip(names, files, strict=True)]
