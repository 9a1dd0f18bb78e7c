"""Read what preparing would copy, and give it to whoever packs it: the same walk, rules, budget and remarks.

Beside the files a record is made, as of a copy that nobody has: with it, what an agent changes elsewhere can be taken
back here. Each mount is a folder of its own in what is given: `m0`, `m1` and so on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolkit._base.handles import READ_FILE, open_beneath
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.record import MountRecord, Record, Row, Stamp, join
from toolkit_workspace.selecting import AllowedRoots, Folder, Source, Tally, Walk

_LARGE = 8 << 20
"""A file larger than this is not held in memory."""
_PIECE = 1 << 20


class Sink(Protocol):
    """What takes the files: a folder comes before what is in it."""

    def folder_entry(self, path: bytes, mode: int, mtime_ns: int = 0) -> None:
        """A folder."""

    def link(self, path: bytes, target: bytes, mtime_ns: int = 0) -> None:
        """A link."""

    def file(self, path: bytes, data: bytes, mode: int, mtime_ns: int = 0) -> None:
        """A file, whole."""

    def stream(
        self, path: bytes, pieces: Iterable[bytes], mode: int, mtime_ns: int = 0, *, deflate: bool = True
    ) -> int:
        """A large file, piece by piece; how long it was."""


@dataclass(frozen=True)
class Selected:
    """What was given away, as the host remembers it."""

    record: Record
    tallies: tuple[Tally, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    """What a section writes down beside a workspace."""
    remarks: tuple[str, ...] = ()
    """What its owner should know: files that usually hold credentials, say."""


def mount_name(number: int) -> bytes:
    """The folder of a mount."""
    return b"m%d" % number


def select_into(sink: Sink, sources: Sequence[Source], roots: AllowedRoots, *, strict: bool) -> Selected:
    """Give every file, folder and link of open mounts to a sink.

    Raises:
        WorkspaceError: something cannot be read.
        OSError: the sink cannot take it.
    """
    selecting = _Selecting(sink, Record([source.record for source in sources]), roots)
    for number, source in enumerate(sources):
        tally = Tally()
        walk = Walk.of(source, roots, tally.left, strict=strict)
        selecting.mount(_Given(number, source.record, walk, tally), source)
        tally.repositories, tally.secrets = walk.repositories, walk.secrets
    return Selected(selecting.record, tuple(selecting.tallies))


@dataclass(slots=True)
class _Given:
    """One mount being read."""

    number: int
    record: MountRecord
    walk: Walk
    tally: Tally
    places: list[tuple[bytes, os.stat_result]] = field(default_factory=list)
    """From the mount down to where the walk stands."""
    given: int = 0
    """How many of them the sink has."""

    def path(self, host_path: bytes) -> bytes:
        """Where it would lie in the workspace."""
        return join(self.record.at, host_path) if host_path else self.record.at

    def packed(self, host_path: bytes) -> bytes:
        """Where the sink has it."""
        return join(mount_name(self.number), host_path) if host_path else mount_name(self.number)


class _Selecting:
    """Gives mount after mount to the sink."""

    def __init__(self, sink: Sink, record: Record, roots: AllowedRoots) -> None:
        self.record = record
        self.tallies: list[Tally] = []
        self._sink, self._roots = sink, roots
        self._names: dict[tuple[int, int], tuple[bytes, int]] = {}
        """Files with several names: the first that was met, and how many were not."""

    def mount(self, mount: _Given, source: Source) -> None:
        """Give one mount."""
        self.tallies.append(mount.tally)
        name = mount.record.name
        if name is not None:
            self._sink.folder_entry(mount_name(mount.number), 0o755)
            if mount.walk.takes(name):
                handle = open_beneath(source.handle, name, READ_FILE)
                mount.tally.count(
                    b"", self._give(mount, handle, b"", mount.record.at, join(mount_name(mount.number), name))
                )
            return
        for folder in mount.walk.folders():
            del mount.places[folder.depth :]
            mount.given = min(mount.given, folder.depth)
            mount.places.append((folder.path, folder.stat))
            if folder.is_wanted or folder.files or folder.links or folder.followed or not folder.depth:
                self._give_folders(mount)
                self._give_folder(mount, folder)
        for first, others in self._names.values():
            if others:
                mount.tally.left.add(first, "has other names", detail=f"{others} outside the mount")
        self._names.clear()

    def _give_folders(self, mount: _Given) -> None:
        """The folders from the mount down to here, as far as the sink has them not."""
        for host_path, st in mount.places[mount.given :]:
            mode = (st.st_mode & 0o777) | 0o700
            self._sink.folder_entry(mount.packed(host_path), mode, st.st_mtime_ns)
            path = mount.path(host_path)
            mount.tally.folders += bool(host_path)
            if path:
                self._add(mount, path, host_path, None, "d", stat.S_IFDIR | mode, 0, st)
        mount.given = len(mount.places)

    def _give_folder(self, mount: _Given, folder: Folder) -> None:
        links = []
        for name, target in folder.links:
            raw = os.fsencode(name)
            host_path = join(folder.path, raw)
            try:
                st = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
            except OSError as error:
                mount.walk.failed(host_path, error)
                continue
            self._sink.link(mount.packed(host_path), target, st.st_mtime_ns)
            self._add(mount, mount.path(host_path), host_path, target, "l", stat.S_IFLNK | 0o777, 0, st)
            links.append((name, target))
        files = self._give_files(mount, folder)
        for name, host in folder.followed:
            files += self._give_followed(mount, join(folder.path, os.fsencode(name)), host)
        mount.tally.count(folder.path, files, links, keep_largest=True)

    def _give_files(self, mount: _Given, folder: Folder) -> list[tuple[str, int]]:
        """Give the files of a folder: small ones of one name in a few steps each, the others one by one."""
        top, parent, give = mount.packed(folder.path) + b"/", folder.handle, self._sink.file
        names: list[str] = []
        copied: list[tuple[int, tuple[int, int, int, int], tuple[int, int, int, int]]] = []
        others: list[tuple[str, int]] = []
        for name in folder.files:
            raw = os.fsencode(name)
            try:
                handle = os.open(name, READ_FILE, dir_fd=parent)
            except OSError as error:
                mount.walk.failed(join(folder.path, raw), error)
                continue
            st = os.fstat(handle)
            size, mode = st.st_size, st.st_mode
            data = os.read(handle, size + 1) if stat.S_ISREG(mode) and size <= _LARGE and st.st_nlink == 1 else None
            if data is None or len(data) != size:
                os.lseek(handle, 0, os.SEEK_SET) if data is not None else None
                host_path = join(folder.path, raw)
                others += self._give(mount, handle, host_path, mount.path(host_path), mount.packed(host_path))
                continue
            os.close(handle)
            mode = (mode & 0o777) | 0o600
            mtime = st.st_mtime_ns
            give(top + raw, data, mode, mtime)
            names.append(name)
            copied.append((stat.S_IFREG | mode, (size, mtime, 0, 0), (size, mtime, st.st_ctime_ns, st.st_ino)))
        if names:
            self.record.add_files(mount.number, mount.path(folder.path), folder.path, names, copied)
        return [*((name, one[1][0]) for name, one in zip(names, copied, strict=True)), *others]

    def _give_followed(self, mount: _Given, host_path: bytes, host: bytes) -> list[tuple[str, int]]:
        try:
            handle = self._roots.open(host, READ_FILE & ~os.O_NOFOLLOW)
        except WorkspaceSecurityError:
            mount.tally.left.add(host_path, "link leads out", detail="changed meanwhile")
            return []
        except OSError as error:
            mount.walk.failed(host_path, error)
            return []
        return self._give(mount, handle, host_path, mount.path(host_path), mount.packed(host_path))

    def _give(self, mount: _Given, handle: int, host_path: bytes, path: bytes, packed: bytes) -> list[tuple[str, int]]:
        """Give one open file, and close it; its name and size, or nothing where it is none any more."""
        shown = host_path or packed.rpartition(b"/")[2]
        try:
            st = os.fstat(handle)
            if not stat.S_ISREG(st.st_mode):
                mount.tally.left.add(shown, "vanished", detail="became something else meanwhile")
                return []
            mode = (st.st_mode & 0o777) | 0o600
            if st.st_size > _LARGE:
                size = self._sink.stream(packed, _pieces(handle), mode, st.st_mtime_ns)
            else:
                data = b"".join(_pieces(handle, st.st_size + 1))
                size = len(data)
                self._sink.file(packed, data, mode, st.st_mtime_ns)
        finally:
            os.close(handle)
        if size != st.st_size:
            mount.tally.left.add(shown, "changed meanwhile", detail="became shorter or longer")
        if st.st_nlink > 1:
            first, others = self._names.get((st.st_dev, st.st_ino), (shown, st.st_nlink))
            self._names[st.st_dev, st.st_ino] = first, others - 1
        self._add(mount, path, host_path, None, "f", stat.S_IFREG | mode, size, st)
        return [(os.fsdecode(shown.rpartition(b"/")[2]), size)]

    def _add(
        self, mount: _Given, path: bytes, host_path: bytes, target: bytes | None, kind: Any, mode: int, size: int,
        st: os.stat_result,
    ) -> None:  # fmt: skip
        """Record it, with the stamp of a copy that is never found: whatever comes back is looked at."""
        copy = Stamp(size, st.st_mtime_ns, 0, 0)
        self.record.add(Row(path, host_path, target, kind, mount.number, mode, copy, Stamp.of(st)))


def _pieces(handle: int, at_once: int = _PIECE) -> Iterator[bytes]:
    while piece := os.read(handle, max(at_once, 1)):
        yield piece
        if len(piece) < at_once:
            at_once = _PIECE
