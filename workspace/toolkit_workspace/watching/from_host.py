"""Bring what changed on the host into the workspace, without losing anything the agent did.

A pass looks at some folders of a mount, by the same walk and rules as the copy, and
compares them with the record. A file goes into place in one step and only over a
copy nobody touched: it is exchanged, what came out is looked at, and put back if it
was not what the record says. Everything else is a conflict and stays as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from toolkit._base.files import exchange, rename_new
from toolkit._base.handles import CREATE_FILE, READ_DIR, READ_FILE, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.copying import Mover, TooLarge
from toolkit_workspace.moments.from_host import note_from_host
from toolkit_workspace.mount import HostMount
from toolkit_workspace.record import Kind, Row, Stamp, join, keep_base
from toolkit_workspace.record.record import NO_STAMP
from toolkit_workspace.record.trouble import is_gone, leads_away
from toolkit_workspace.selecting import AllowedRoots, Folder, LeftBehind, Source, Walk, close_sources, open_sources
from toolkit_workspace.watching.merging import MergedIn, merge_into_place, same_bytes
from toolkit_workspace.watching.watch import Affected, WatchEvent
from toolkit_workspace.workspace import Workspace


class HostToWorkspace:
    """Brings what changes on the host into the workspace."""

    def __init__(
        self, mounts: Sequence[HostMount], roots: Sequence[Path], workspace: Workspace, *, merges: bool = False
    ) -> None:
        """With `merges`, texts that both changed are merged where they can be: only while nobody works there."""
        self._workspace = workspace
        self._roots = AllowedRoots(roots)
        self._sources: list[Source] = []
        self._root = self._shelf = -1
        try:
            self._sources = open_sources(mounts, self._roots)
            self._root = workspace.open()
            shelf = workspace.state_dir / "shelf"
            shelf.mkdir(mode=0o700, exist_ok=True)
            self._shelf = os.open(shelf, READ_DIR)
            for left in shelf.iterdir():  # by a watch that was killed
                left.unlink()
            self._syncs = [
                _MountSync(index, source, self._roots, workspace, self._shelf, merges=merges)
                for index, source in enumerate(self._sources)
            ]
        except BaseException:
            self._close()
            raise

    def tops(self) -> list[tuple[Path, bool]]:
        return [(Path(os.fsdecode(source.record.host)), source.record.name is None) for source in self._sources]

    def run(self, affected: dict[int, Affected]) -> list[WatchEvent]:
        events = []
        for number, one in affected.items():
            events += list(self._syncs[number].run(self._root, one, self._workspace.identities))
        came = [os.fsencode(one.path) for one in events if one.kind in ("copied", "removed", "merged")]
        note_from_host(self._workspace, came)
        for event in events:
            if event.kind == "copied":  # else its base would be lost once either side changes
                keep_base(self._workspace.record, self._workspace.store, self._root, os.fsencode(event.path))
        return events

    def close(self) -> None:
        self._close()
        self._workspace.save()

    def _close(self) -> None:
        close_sources(self._sources)
        self._roots.close()
        for handle in (self._root, self._shelf):
            if handle >= 0:
                os.close(handle)
        self._root = self._shelf = -1


class _MountSync:
    """Keeps one mount's part of the workspace in step with the host."""

    def __init__(
        self, index: int, source: Source, roots: AllowedRoots, workspace: Workspace, shelf: int, *, merges: bool
    ) -> None:
        record = workspace.record
        self._store = workspace.store if merges else None
        self._index = index
        self._source = source
        self._at = source.record.at
        self._roots = roots
        self._record = record
        self._shelf = shelf
        """An open folder on the workspace's file system that the agent does not see."""
        self._mover = Mover()
        self._told: dict[bytes, tuple[int, int]] = {}
        self._used = sum(row.copy.size for row in record if row.mount == index and row.kind == "f")

    def run(self, workspace: int, affected: Affected, never: frozenset[tuple[int, int]]) -> Iterator[WatchEvent]:
        """One pass over the affected folders; what it did, as it goes."""
        if self._source.record.name is not None:
            yield from self._single(workspace)
            return
        walk = Walk.of(self._source, self._roots, LeftBehind(), strict=False, never=never, descend=affected.leads_to)
        for folder in walk.folders():
            if affected.covers(folder.path):
                yield from self._folder(workspace, folder)

    def _single(self, workspace: int) -> Iterator[WatchEvent]:
        name = self._source.record.name or b""
        with self._opened(workspace, self._at.rpartition(b"/")[0], make=False) as into:
            if into is None:
                return
            row = self._record.get(self._at)
            try:
                st = os.stat(name, dir_fd=self._source.handle, follow_symlinks=False)
            except FileNotFoundError:
                if row is not None:
                    yield from self._remove(into, row)
                return
            if stat.S_ISREG(st.st_mode) and not (row is not None and row.host_is_untouched(st)):
                yield from self._file(into, self._source.handle, os.fsdecode(name), self._at, b"", row)

    def _folder(self, workspace: int, folder: Folder) -> Iterator[WatchEvent]:
        place = join(self._at, folder.path) if folder.path else self._at
        known = self._record.rows_in(place)
        is_new = bool(place) and self._record.get(place) is None
        wanted = folder.is_wanted or bool(folder.files or folder.links)
        with self._opened(workspace, place, make=is_new and wanted) as into:
            if into is not None and is_new:
                self._record_folder(into, place, folder)
            for name in folder.files:
                path = join(place, os.fsencode(name))
                yield from self._seen(into, folder, name, path, known.pop(path, None))
            if into is None:
                return
            for name, target in folder.links:
                path = join(place, os.fsencode(name))
                yield from self._link(into, folder, name, target, path, known.pop(path, None))
            there = {join(place, os.fsencode(name)) for name in folder.subfolders}
            there |= {join(place, os.fsencode(name)) for name, _ in folder.followed}
            for path, row in known.items():
                if row.mount == self._index and path not in there:
                    yield from self._remove(into, row)

    @contextlib.contextmanager
    def _opened(self, workspace: int, place: bytes, *, make: bool) -> Iterator[int | None]:
        """The workspace folder at a place; None where the agent removed it or put something else there."""
        above, _, name = place.rpartition(b"/")
        try:
            if make:
                parent = open_beneath(workspace, above or b".", READ_DIR)
                try:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=parent)
                finally:
                    os.close(parent)
            handle = open_beneath(workspace, place or b".", READ_DIR)
        except OSError as error:
            if not (is_gone(error) or leads_away(error) or error.errno == errno.EACCES):
                raise
            yield None
            return
        try:
            yield handle
        finally:
            os.close(handle)

    def _record_folder(self, into: int, place: bytes, folder: Folder) -> None:
        st = folder.stat
        os.fchmod(into, (st.st_mode & 0o777) | 0o700)
        mode = os.fstat(into).st_mode
        # The agent may have made it, or put something in it by now: whoever looks for changes has to list it.
        self._record.put(Row(place, folder.path, None, "d", self._index, mode, NO_STAMP, Stamp.of(st)))

    def _seen(self, into: int | None, folder: Folder, name: str, path: bytes, row: Row | None) -> Iterator[WatchEvent]:
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
        except FileNotFoundError:
            return
        if row is not None and row.kind == "f" and row.host_is_untouched(st):
            return
        if into is None:
            if not self._is_told(path, st):
                self._told[path] = (st.st_ctime_ns, st.st_ino)
                yield WatchEvent("conflict", os.fsdecode(path), "its folder was removed in the workspace")
            return
        host_path = join(folder.path, os.fsencode(name))
        yield from self._file(into, folder.handle, name, path, host_path, row)

    def _file(
        self, into: int, parent: int, name: str, path: bytes, host_path: bytes, row: Row | None
    ) -> Iterator[WatchEvent]:
        try:
            source = os.open(name, READ_FILE, dir_fd=parent)
        except OSError as error:
            if not (is_gone(error) or leads_away(error) or error.errno in (errno.EACCES, errno.ENXIO)):
                raise
            return  # gone or not for us: the next pass sees what it became
        try:
            st = os.fstat(source)
            if not stat.S_ISREG(st.st_mode) or self._is_told(path, st):
                return
            most = self._source.mount.max_bytes
            room = (1 << 62) if most is None else most - self._used + (row.copy.size if row else 0)
            shelved = secrets.token_hex(8)
            target = os.open(shelved, CREATE_FILE, (st.st_mode & 0o777) | 0o600, dir_fd=self._shelf)
            try:
                self._mover.move(source, target, st, room)
                os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
            except TooLarge:
                os.unlink(shelved, dir_fd=self._shelf)
                yield WatchEvent("over budget", os.fsdecode(path), f"max_bytes={most}")
                self._told[path] = (st.st_ctime_ns, st.st_ino)
                return
            finally:
                os.close(target)
        finally:
            os.close(source)
        yield from self._into_place(into, shelved, path, host_path, st, row, None)

    def _link(
        self, into: int, folder: Folder, name: str, target: bytes, path: bytes, row: Row | None
    ) -> Iterator[WatchEvent]:
        if row is not None and row.kind == "l" and row.target == target:
            return
        try:
            st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
        except FileNotFoundError:
            return
        if self._is_told(path, st):
            return
        host_path = join(folder.path, os.fsencode(name))
        made = _same_link(into, name, target) if row is None or row.kind != "d" else None
        if made is not None:  # by the agent, or by an update that was killed
            stamps = Stamp.of(made), Stamp.of(st)
            self._record.put(Row(path, host_path, target, "l", self._index, made.st_mode, *stamps))
            self._used += made.st_size - (row.copy.size if row else 0)
            return
        shelved = secrets.token_hex(8)
        os.symlink(target, shelved, dir_fd=self._shelf)
        yield from self._into_place(into, shelved, path, host_path, st, row, target)

    def _is_told(self, path: bytes, st: os.stat_result) -> bool:
        """Whether this very version on the host was reported as a conflict already."""
        return self._told.get(path) == (st.st_ctime_ns, st.st_ino)

    def _into_place(
        self,
        into: int,
        shelved: str,
        path: bytes,
        host_path: bytes,
        st: os.stat_result,
        row: Row | None,
        target: bytes | None,
    ) -> Iterator[WatchEvent]:
        """Put a shelved file where it belongs, if nobody touched what is there."""
        name = os.fsdecode(path.rpartition(b"/")[2])
        with self._record.lock:  # whoever compares meanwhile sees the file and its row change together
            is_in_place = self._exchanged(into, name, shelved, row)
            if is_in_place:
                made = os.stat(name, dir_fd=into, follow_symlinks=False)
                kind: Kind = "f" if target is None else "l"
                stamps = Stamp.of(made), Stamp.of(st)
                self._record.put(Row(path, host_path, target, kind, self._index, made.st_mode, *stamps))
                self._used += made.st_size - (row.copy.size if row else 0)
        if is_in_place:
            self._told.pop(path, None)
            yield WatchEvent("copied", os.fsdecode(path))
        else:
            merged = None if row is None or target is not None else self._merged(into, name, shelved, st, row)
            same = self._same_file(into, name, shelved) if row is None and target is None else None
            os.unlink(shelved, dir_fd=self._shelf)
            if same is not None:  # made by an update that was killed, or by the agent
                stamps = Stamp.of(same), Stamp.of(st)
                self._record.put(Row(path, host_path, None, "f", self._index, same.st_mode, *stamps))
                self._used += same.st_size
            elif merged is None:
                self._told[path] = (st.st_ctime_ns, st.st_ino)
                yield WatchEvent("conflict", os.fsdecode(path), "changed on the host and in the workspace")
            elif merged.is_news:
                yield WatchEvent("merged", os.fsdecode(path))

    def _merged(self, into: int, name: str, shelved: str, st: os.stat_result, row: Row) -> MergedIn | None:
        if self._store is None or not _is_there(into, name):
            return None
        with self._record.lock:
            merged = merge_into_place(into, name, self._shelf, shelved, st, row, self._store)
            if merged is not None:
                self._record.put(merged.row)
                self._used += merged.row.copy.size - row.copy.size
        return merged

    def _same_file(self, into: int, name: str, shelved: str) -> os.stat_result | None:
        """The stat of a file that is there already, with the mode and the bytes of the shelved one."""
        try:
            st = os.stat(name, dir_fd=into, follow_symlinks=False)
            if st.st_mode != os.stat(shelved, dir_fd=self._shelf).st_mode:
                return None
            handle = os.open(name, READ_FILE, dir_fd=into)
        except OSError as error:
            if not (is_gone(error) or leads_away(error) or error.errno in (errno.EACCES, errno.ENXIO)):
                raise
            return None
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # swapped this instant
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as there, os.fdopen(os.open(shelved, READ_FILE, dir_fd=self._shelf), "rb") as new:
            return st if same_bytes(there, new) else None

    def _exchanged(self, into: int, name: str, shelved: str, row: Row | None) -> bool:
        """Whether the shelved file is in place now; the workspace is as it was if not."""
        if row is None or not _is_there(into, name):
            # Something the agent removed stays removed; something new must not cover what the agent made.
            return row is None and _renamed(rename_new, self._shelf, shelved, into, name)
        if row.kind == "d":
            return False
        now = os.stat(name, dir_fd=into, follow_symlinks=False)
        if not row.is_untouched(now) or not _renamed(exchange, self._shelf, shelved, into, name):
            return False
        out = os.stat(shelved, dir_fd=self._shelf, follow_symlinks=False)
        if not _is_same(now, out):
            _renamed(exchange, self._shelf, shelved, into, name)
            return False
        os.unlink(shelved, dir_fd=self._shelf)
        return True

    def _remove(self, into: int, row: Row) -> Iterator[WatchEvent]:
        """Take away what is gone on the host, if nobody touched the copy."""
        name = os.fsdecode(row.path.rpartition(b"/")[2])
        if row.kind == "d":
            yield from self._remove_folder(into, row)
            return
        yield from self._remove_one(into, name, row)

    def _remove_one(self, into: int, name: str, row: Row) -> Iterator[WatchEvent]:
        if not _is_there(into, name):
            self._record.discard(row.path, below=False)
            return
        now = os.stat(name, dir_fd=into, follow_symlinks=False)
        if not row.is_untouched(now):
            if self._told.get(row.path) != (0, 0):
                self._told[row.path] = (0, 0)
                yield WatchEvent("conflict", os.fsdecode(row.path), "removed on the host, changed in the workspace")
            return
        with self._record.lock:
            shelved = secrets.token_hex(8)
            if not _renamed(rename_new, into, name, self._shelf, shelved):
                return
            if not _is_same(now, os.stat(shelved, dir_fd=self._shelf, follow_symlinks=False)):
                _renamed(rename_new, self._shelf, shelved, into, name)
                return
            os.unlink(shelved, dir_fd=self._shelf)
            self._used -= row.copy.size
            self._record.discard(row.path, below=False)
        yield WatchEvent("removed", os.fsdecode(row.path))

    def _remove_folder(self, into: int, row: Row) -> Iterator[WatchEvent]:
        """Take away a folder and all in it from below, however deep; the agent's own work stays, and what it is in."""
        above = len(row.path.rpartition(b"/")[0])
        todo, found = [row], []
        while todo:
            found.append(todo.pop())
            todo += self._record.rows_in(found[-1].path).values() if found[-1].kind == "d" else ()
        for one in reversed(found):
            inside, _, name = one.path[above:].lstrip(b"/").rpartition(b"/")
            try:
                folder = open_beneath(into, inside or b".", READ_DIR)
            except OSError as error:
                if not (is_gone(error) or leads_away(error)):
                    raise
                self._record.discard(one.path)
                continue
            try:
                removed = self._remove_empty if one.kind == "d" else self._remove_one
                yield from removed(folder, os.fsdecode(name), one)
            finally:
                os.close(folder)

    def _remove_empty(self, into: int, name: str, row: Row) -> Iterator[WatchEvent]:
        with self._record.lock:
            try:
                os.rmdir(name, dir_fd=into)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return  # the agent's own work is in it
                if not (is_gone(error) or leads_away(error)):
                    raise
                self._record.discard(row.path)
                return
            self._record.discard(row.path)
        yield WatchEvent("removed", os.fsdecode(row.path))


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _same_link(folder: int, name: str, target: bytes) -> os.stat_result | None:
    """The stat of a link that is there already and says the same."""
    try:
        st = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return st if os.readlink(os.fsencode(name), dir_fd=folder) == target else None
    except OSError as error:
        if not (is_gone(error) or error.errno == errno.EINVAL):  # EINVAL: it is no link
            raise
        return None


def _is_same(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether a file that was only renamed is still what it was; a rename changes its ctime."""
    return (before.st_ino, before.st_size, before.st_mtime_ns, before.st_mode) == (
        after.st_ino,
        after.st_size,
        after.st_mtime_ns,
        after.st_mode,
    )


def _renamed(
    rename: Callable[[int, str, int, str], None], from_folder: int, name: str, to_folder: int, other: str
) -> bool:
    """Whether the names allowed it to rename without replacing, or to exchange, in one step."""
    try:
        rename(from_folder, name, to_folder, other)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY):
            return False
        raise WorkspaceError(
            f"the file system cannot exchange files: {error.strerror}",
            fix="Watch a workspace on a local file system (WorkspaceSection(…, parent=…)).",
        ) from error
    return True
