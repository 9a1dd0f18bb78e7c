"""Bring a workspace that lies over a kept copy up to what the host is now: only what is different is written.

It goes into the workspace's own folder, as if an agent had written it, and into the record, as what was prepared.
The kept copy stays as it is: other workspaces lie over it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from toolkit._base.files import umask
from toolkit._base.handles import CREATE_FILE, READ_DIR, READ_FILE, open_beneath
from toolkit._base.layered import make_above, make_whiteout
from toolkit_workspace.copying import Mover, Names, TooLarge, note_other_names
from toolkit_workspace.pristine.comparing import Comparer
from toolkit_workspace.pristine.rescan import Suspect, Walkable, folder_mode, is_simple, suspects
from toolkit_workspace.record import Record, Row, Stamp, join, keep_base
from toolkit_workspace.record.content import ContentGone, Hosts
from toolkit_workspace.record.record import FRESH_NS
from toolkit_workspace.selecting import AllowedRoots, Folder, Source, Tally, Walk
from toolkit_workspace.selecting.secrets import looks_secret
from toolkit_workspace.workspace import Workspace

MOST_FILES = 2_000
"""More than so many that are different make a copy of its own worth while."""
MOST_BYTES = 256 << 20
_NO_LIMIT = 1 << 62


class TooDifferent(Exception):
    """So much is different that a new copy is better."""


def renew(
    workspace: Workspace,
    sources: Sequence[Source],
    roots: AllowedRoots,
    tallies: list[Tally],
    comparers: Sequence[Comparer],
    *,
    strict: bool,
) -> None:
    """Write what is different on the host into a workspace that was laid over a kept copy; `tallies` become true.

    `comparers` look at the mounts.

    Raises:
        TooDifferent: a new copy is better.
        OSError: the workspace cannot be written, or the host not be read.
    """
    with workspace.opened() as root:
        for number, source in enumerate(sources):
            one = _Renewal(workspace, root, number, source, tallies[number])
            try:
                if not is_simple(source, one.tally):
                    raise Walkable
                found, folders = suspects(workspace.record, number, source, one.tally, comparers[number])
                one.check_secrets(found)
            except Walkable:
                one.tally = tallies[number] = Tally()
                one.walk(roots, strict=strict, never=workspace.identities)
            else:
                one.replace(found)
                for folder in folders:
                    one.folder(folder.path, folder.host_path, folder.stat)
            one.check_budget()
            for path in one.written:
                keep_base(workspace.record, workspace.store, root, path)
        workspace.record.seal(root)


@dataclass(slots=True)
class _Renewal:
    """One mount being brought up to date."""

    workspace: Workspace
    root: int
    number: int
    source: Source
    tally: Tally
    mover: Mover = field(default_factory=Mover)
    written: list[bytes] = field(default_factory=list)
    names: dict[tuple[int, int], Names] = field(default_factory=dict)
    moved: int = 0
    """Bytes that were written."""
    umask: int = field(default_factory=umask)

    @property
    def record(self) -> Record:
        return self.workspace.record

    def check_secrets(self, found: Sequence[Suspect]) -> None:
        """Credentials that came into a file, or went, are for a walk to tell."""
        known = {path for path, _, _ in self.tally.secrets}
        for one in found if self.source.record.name is None else ():
            folder, _, name = one.host_path.rpartition(b"/")
            with self._host_folder(folder) as handle:
                if (looks_secret(handle, os.fsdecode(name), folder) is not None) != (one.host_path in known):
                    raise Walkable

    @contextlib.contextmanager
    def _host_folder(self, path: bytes) -> Iterator[int]:
        try:
            handle = open_beneath(self.source.handle, path or b".", READ_DIR)
        except OSError as error:
            raise Walkable from error
        try:
            yield handle
        finally:
            os.close(handle)

    def replace(self, found: Sequence[Suspect]) -> None:
        """Write the files again that may be different."""
        if len(found) > MOST_FILES:
            raise TooDifferent
        for one in found:
            row = self.record.get(one.path)
            assert row is not None
            if one.is_fresh and self._has_same_bytes(row):
                continue
            host_path = one.host_path if self.source.record.name is None else self.source.record.name
            folder, _, name = host_path.rpartition(b"/")
            handle = open_beneath(self.source.handle, folder or b".", READ_DIR)
            try:
                size = self._file(handle, name, one.path, one.host_path, row)
            finally:
                os.close(handle)
            if size is None:
                raise TooDifferent  # it went this instant
            self.tally.resize(host_path, row.copy.size, size)

    def _has_same_bytes(self, row: Row) -> bool:
        with Hosts(self.record, self.workspace.store) as hosts, contextlib.suppress(ContentGone):
            kept, now = hosts.base(row), hosts.look(row.mount, row.host_path)
            return kept is not None and now is not None and now.content is not None and kept.equals(now.content)
        return False

    def walk(self, roots: AllowedRoots, *, strict: bool, never: frozenset[tuple[int, int]]) -> None:
        """Look at all of the mount by the walk of a copy, and write what is different."""
        walk = Walk.of(self.source, roots, self.tally.left, strict=strict, never=never)
        if self.source.mount.follow_symlinks:
            raise TooDifferent
        name = self.source.record.name
        if name is not None:
            self._single(walk, name)
        else:
            seen: set[bytes] = set()
            above: list[Folder] = []  # they come along once something in them does
            for folder in walk.folders():
                above = [one for one in above if not one.path or folder.path.startswith(one.path + b"/")]
                above.append(folder)
                if folder.is_wanted or folder.files or folder.links:
                    for one in above:
                        self._folder(walk, one, seen)
                    above = []
            self._drop_unseen(seen)
            note_other_names(self.names.values(), self.tally)
        self.tally.repositories, self.tally.secrets = walk.repositories, walk.secrets

    def _single(self, walk: Walk, name: bytes) -> None:
        at = self.source.record.at
        row = self.record.get(at)
        if not walk.takes(name):
            self._drop(at)
            return
        st = os.stat(name, dir_fd=self.source.handle, follow_symlinks=False)
        size: int | None = st.st_size
        if not self._is_same(row, st):
            size = self._file(self.source.handle, name, at, b"", row)
        if size is not None:
            self.tally.count(b"", [(os.fsdecode(name), size)])

    def _folder(self, walk: Walk, folder: Folder, seen: set[bytes]) -> None:
        place = join(self.source.record.at, folder.path) if folder.path else self.source.record.at
        known = self.record.rows_in(place)
        self._own_row(place, folder, seen)
        files = []
        for name in folder.files:
            path = join(place, os.fsencode(name))
            size = self._seen_file(walk, folder, name, path, known.get(path))
            if size is not None:
                seen.add(path)
                files.append((name, size))
        links = []
        for name, target in folder.links:
            path = join(place, os.fsencode(name))
            if self._link(walk, folder, name, target, path, known.get(path)):
                seen.add(path)
                links.append((name, target))
        if folder.depth:
            self.tally.folders += 1
        self.tally.count(folder.path, files, links)

    def _own_row(self, place: bytes, folder: Folder, seen: set[bytes]) -> None:
        if not place:
            return
        for depth in range(1, place.count(b"/") + 2):
            seen.add(b"/".join(place.split(b"/")[:depth]))
        self.folder(place, folder.path, folder.stat)

    def folder(self, place: bytes, host_path: bytes, st: os.stat_result) -> None:
        """Make a folder what it is on the host now, but for what is in it."""
        row, mode = self.record.get(place), folder_mode(st, self.umask) if host_path else 0o700
        if row is not None and row.kind == "d" and row.mode & 0o777 == mode and row.host == Stamp.of(st):
            return
        if row is not None and row.kind != "d":
            self._take_out(place)
        os.close(self._opened_above(place))
        handle = make_above(self.root, () if row is None or row.kind != "d" else self.workspace.lower, place)
        try:
            os.fchmod(handle, mode)
            os.utime(handle, ns=(st.st_atime_ns, st.st_mtime_ns))
            made = os.fstat(handle)
        finally:
            os.close(handle)
        stamps = Stamp.of(made), Stamp.of(st)
        with self.record.lock:
            self.record.discard(place, below=False)
            self.record.add(Row(place, host_path, None, "d", self.number, made.st_mode, *stamps))

    def _seen_file(self, walk: Walk, folder: Folder, name: str, path: bytes, row: Row | None) -> int | None:
        host_path = join(folder.path, os.fsencode(name))
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
            if st.st_nlink > 1:
                self.names.setdefault((st.st_dev, st.st_ino), Names(host_path, st.st_nlink)).meet(host_path)
            if self._is_same(row, st):
                return st.st_size
            return self._file(folder.handle, os.fsencode(name), path, host_path, row)
        except OSError as error:
            walk.failed(host_path, error)
            return None

    def _is_same(self, row: Row | None, st: os.stat_result) -> bool:
        if row is None or row.kind != "f" or not row.host_is_untouched(st):
            return False
        if row.host.ctime_ns <= self.record.created_ns - FRESH_NS:
            return True
        return self._has_same_bytes(row)

    def _file(self, folder: int, name: bytes, path: bytes, host_path: bytes, row: Row | None) -> int | None:
        """Write one file of an open host folder; its size, None where it is none any more."""
        source = os.open(name, READ_FILE, dir_fd=folder)
        try:
            st = os.fstat(source)
            if not stat.S_ISREG(st.st_mode):
                self.tally.left.add(host_path or name, "vanished", detail="became something else meanwhile")
                return None
            self._count(st.st_size)
            into = self._opened_above(path)
            try:
                made = self._write(source, st, into, path.rpartition(b"/")[2])
            finally:
                os.close(into)
        finally:
            os.close(source)
        if made.st_size != st.st_size:
            self.tally.left.add(host_path or name, "changed meanwhile", detail="became shorter")
        self._put(Row(path, host_path, None, "f", self.number, made.st_mode, Stamp.of(made), Stamp.of(st)), row)
        self.written.append(path)
        return made.st_size

    def _write(self, source: int, st: os.stat_result, into: int, name: bytes) -> os.stat_result:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=into)
        target = os.open(name, CREATE_FILE, (st.st_mode & 0o777) | 0o600, dir_fd=into)
        try:
            try:
                self.mover.move(source, target, st, self.source.mount.max_bytes or _NO_LIMIT)
            except TooLarge:
                raise TooDifferent from None
            os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
            return os.fstat(target)
        finally:
            os.close(target)

    def _link(self, walk: Walk, folder: Folder, name: str, target: bytes, path: bytes, row: Row | None) -> bool:
        if row is not None and row.kind == "l" and row.target == target:
            return True
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
        except OSError as error:
            walk.failed(join(folder.path, os.fsencode(name)), error)
            return False
        self._count(0)
        into = self._opened_above(path)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=into)
            os.symlink(target, name, dir_fd=into)
            os.utime(name, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=into, follow_symlinks=False)
            made = os.stat(name, dir_fd=into, follow_symlinks=False)
        finally:
            os.close(into)
        host_path = join(folder.path, os.fsencode(name))
        self._put(Row(path, host_path, target, "l", self.number, made.st_mode, Stamp.of(made), Stamp.of(st)), row)
        return True

    def _opened_above(self, path: bytes) -> int:
        """The workspace folder that a path lies in, made as it is in the kept copy."""
        return make_above(self.root, self.workspace.lower, path.rpartition(b"/")[0])

    def _put(self, row: Row, before: Row | None) -> None:
        with self.record.lock:
            self.record.discard(row.path, below=before is not None and before.kind == "d")
            self.record.add(row)

    def _drop_unseen(self, seen: set[bytes]) -> None:
        """Hide what the walk has not met: it is gone from the host, or left out now."""
        at = self.source.record.at
        below = at + b"/" if at else b""
        gone = [row.path for row in self.record if row.mount == self.number and row.path not in seen]
        gone = [path for path in gone if path.startswith(below)]
        dropped: set[bytes] = set()
        for path in sorted(gone):
            parents = path.split(b"/")
            if not any(b"/".join(parents[:depth]) in dropped for depth in range(1, len(parents))):
                self._drop(path)
                dropped.add(path)

    def _drop(self, path: bytes) -> None:
        if self.record.get(path) is None:
            return
        self._take_out(path)
        self.record.discard(path)
        into = self._opened_above(path)
        try:
            make_whiteout(into, path.rpartition(b"/")[2])
        finally:
            os.close(into)

    def _take_out(self, path: bytes) -> None:
        """Nothing of our own is at a path any more."""
        self._count(0)
        into = self._opened_above(path)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.rpartition(b"/")[2], dir_fd=into)
        finally:
            os.close(into)

    def _count(self, size: int) -> None:
        self.moved += size
        if len(self.written) >= MOST_FILES or self.moved > MOST_BYTES:
            raise TooDifferent

    def check_budget(self) -> None:
        """Whoever copies counts holes out, and so decides."""
        if self.source.mount.max_bytes is not None and self.tally.size > self.source.mount.max_bytes:
            raise TooDifferent
