"""Remember what was put into a workspace, small enough to keep and exact enough to compare.

The copier adds one row for each file, folder and link; `seal` closes the record.
From then on a file whose inode and ctime are as recorded has not been touched,
whatever its size and mtime say: ctime cannot be set from user space, and `seal`
waits out the clock tick in which two changes would look like one. The record can
be written beside the workspace and read by another process. It holds no file
contents, and reading it runs nothing: it is numbers, names and a little JSON.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from toolkit._base.files import replacing
from toolkit._base.handles import READ_DIR, open_beneath
from toolkit.errors import WorkspaceError

Kind = Literal["f", "d", "l"]
NO_MOUNT = -1
"""The mount index of a folder that only leads to a mount, and of what lies outside every mount."""
FRESH_NS = 20_000_000
"""Two changes closer than this may carry the same stamp."""

_MAGIC = b"toolkit workspace record 1\n"
_COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE: the clock most file systems stamp with
_LONGEST_WAIT_NS = 100_000_000


stamp_numbers = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
"""The numbers of a `Stamp` from a stat; as a plain tuple, which is quicker and compares the same."""


class Stamp(NamedTuple):
    """What tells one version of a file from another without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, st: os.stat_result) -> Stamp:
        return cls(*stamp_numbers(st))


NO_STAMP = Stamp(0, 0, 0, 0)

_Numbers = tuple[int, int, int, int]
Copied = tuple[int, _Numbers, _Numbers]
"""A file that was just copied: the mode of the copy, its stamp, and the stamp of what was read."""


class Row(NamedTuple):
    """One file, folder or link: its copy as it was made, and what it is a copy of as it was read."""

    path: bytes
    """Relative to the workspace."""
    host_path: bytes
    """Relative to the mount's host folder; empty for the mount itself."""
    target: bytes | None
    """What a link says."""
    kind: Kind
    mount: int
    mode: int
    copy: Stamp
    host: Stamp
    base: int = -1
    """Where the recorded bytes start in the base store; -1 when they were not kept."""
    host_is_base: bool = True
    """Whether the host file held the same bytes when it was recorded."""

    def is_untouched(self, st: os.stat_result) -> bool:
        """Whether a workspace file with this stat is still the recorded one."""
        return st.st_ctime_ns == self.copy.ctime_ns and st.st_ino == self.copy.inode

    def host_is_untouched(self, st: os.stat_result) -> bool:
        """Whether a host file with this stat is still the one that was copied."""
        return Stamp.of(st) == self.host


# A tree of 100,000 files is recorded in full. As Python objects its rows would take 60 MB and a second to make; packed
# they take 8 MB and almost no time. Paths and link targets are not in them: the names of a folder are one string, and
# only what did not come from where its name says has its host path written down.
_PACKED = struct.Struct("<BBhIqqqQqqqQq")
_WORDS = {"size": 1, "ctime_ns": 3, "inode": 4, "host_ctime_ns": 7, "host_inode": 8, "base": 9}
"""Which of the ten 8-byte words of a packed row is what, for reading one column of many rows."""
_KINDS: tuple[Kind, ...] = ("f", "d", "l")
_CODES = {kind: code for code, kind in enumerate(_KINDS)}


def _pack(
    kind: Kind, mount: int, mode: int, copy: _Numbers, host: _Numbers, base: int = -1, host_is_base: bool = True
) -> bytes:
    return _PACKED.pack(_CODES[kind], host_is_base, mount, mode, *copy, *host, base)


def _unpack(packed: bytearray, position: int) -> Row:
    code, same, mount, mode, *stamps, base = _PACKED.unpack_from(packed, position * _PACKED.size)
    copy, host = Stamp(*stamps[:4]), Stamp(*stamps[4:])
    return Row(b"", b"", None, _KINDS[code], mount, mode, copy, host, base, bool(same))


@dataclass(frozen=True)
class MountRecord:
    """Where a mount lies on the host and in the workspace, as found at preparation."""

    host: bytes
    """The absolute path of the host folder, all links resolved; of the parent folder for a single file."""
    at: bytes
    """Where it landed, relative to the workspace."""
    dev: int
    inode: int
    """The identity of `host`: a folder put in its place later is not the mount."""
    name: bytes | None = None
    """The file's name in `host` when the mount is a single file."""

    @cached_property
    def landing(self) -> str:
        """Where it landed as users write it."""
        return os.fsdecode(self.at) or "."

    def usual_host_path(self, path: bytes) -> bytes:
        """Where a workspace path belongs in this mount, going by its name."""
        return path[len(self.at) + 1 :] if self.at else path


class Rows:
    """The rows of one folder, packed: names in one string, numbers in another."""

    __slots__ = ("_names", "_packed", "moves")

    def __init__(self, names: bytes | memoryview = b"", packed: bytes | memoryview = b"") -> None:
        self.moves = 0
        """How often positions have shifted; a position is good while this stays the same."""
        self._names = bytearray(names)
        """Each followed by a NUL."""
        self._packed = bytearray(packed)

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size

    @property
    def names(self) -> list[str]:
        """The names in the order they were added, undecodable bytes as surrogates."""
        return os.fsdecode(bytes(self._names[:-1])).split("\0") if self._names else []

    @property
    def kinds(self) -> list[Kind]:
        """The kind of each row."""
        return [_KINDS[code] for code in self._packed[:: _PACKED.size]]

    @property
    def has_folders(self) -> bool:
        """Whether one of the rows is a folder's."""
        return _CODES["d"] in self._packed[:: _PACKED.size]

    @property
    def names_bytes(self) -> bytes:
        """The names as they are kept: each followed by a NUL."""
        return bytes(self._names)

    def column_bytes(self, field: Literal["host_ctime_ns", "host_inode"]) -> bytes:
        """One number of each row, as 8 bytes each in the machine's order."""
        return memoryview(self._packed).cast("q")[_WORDS[field] :: _PACKED.size // 8].tobytes()

    def column(self, field: Literal["size", "ctime_ns", "inode", "host_ctime_ns", "host_inode", "base"]) -> list[int]:
        """One number of each row."""
        words = memoryview(self._packed).cast("Q" if field.endswith("inode") else "q")
        return words[_WORDS[field] :: _PACKED.size // 8].tolist()

    def files_without_base(self) -> list[tuple[int, str, int, tuple[int, int]]]:
        """Position, name, size, and (ctime, inode) of the copies of files whose bytes are not kept."""
        columns = self.column("size"), self.column("base"), self.column("ctime_ns"), self.column("inode")
        listed = zip(self.names, self.kinds, *columns, strict=True)
        return [
            (position, name, size, (ctime_ns, inode))
            for position, (name, kind, size, base, ctime_ns, inode) in enumerate(listed)
            if kind == "f" and base < 0
        ]

    def add(self, names: bytes, packed: bytes | bytearray) -> None:
        """Append rows; each name ends with a NUL."""
        self._names += names
        self._packed += packed

    def find(self, name: bytes) -> int | None:
        """The position of a name, or None."""
        if self._names.startswith(name + b"\0"):
            return 0
        at = self._names.find(b"\0" + name + b"\0")
        return None if at < 0 else self._names.count(0, 0, at) + 1

    def row(self, position: int) -> Row:
        """A row without its paths and target; see `Record.row`."""
        return _unpack(self._packed, position)

    def change(self, position: int, **fields: Any) -> None:
        """Set some fields of a row."""
        start = position * _PACKED.size
        self._packed[start : start + _PACKED.size] = _pack(*self.row(position)._replace(**fields)[3:])

    def delete(self, position: int) -> None:
        self.moves += 1
        names = self._names[:-1].split(b"\0")
        del names[position]
        self._names = bytearray(b"".join(name + b"\0" for name in names))
        del self._packed[position * _PACKED.size : (position + 1) * _PACKED.size]

    def dump(self) -> bytes:
        return b"".join([struct.pack("<II", len(self), len(self._names)), self._names, self._packed])

    @classmethod
    def load(cls, file: BinaryIO) -> Rows:
        """The rows that come next in an open file."""
        count, length = struct.unpack("<II", _exactly(file, 8))
        return cls(_exactly(file, length), _exactly(file, _PACKED.size * count))


class Record:
    """What was put into a workspace: every row, by folder."""

    def __init__(self, mounts: Sequence[MountRecord] = ()) -> None:
        self.mounts = tuple(mounts)
        self.created_ns = time.time_ns()
        """When copying began; a host file stamped about then may have changed unseen since."""
        self.root_stamp = (0, 0)
        """ctime and inode of the workspace folder itself."""
        self.folders: dict[bytes, Rows] = {}
        self.above: set[bytes] | None = None
        """What was recorded since the workspace was laid over a kept copy; None where it is not laid over one."""
        self._targets: dict[bytes, bytes] = {}
        self._elsewhere: dict[bytes, bytes] = {}
        """Host paths of what did not come from where its name says."""
        self.edits = 0
        """Counts what has happened to the record since it was read or made."""
        self.lock = threading.RLock()
        """Held while rows are replaced: bytes are kept by another thread meanwhile."""

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.folders.values())

    def __iter__(self) -> Iterator[Row]:
        for folder in list(self.folders):
            yield from self.rows_in(folder).values()

    def add(self, row: Row) -> None:
        """Record a new row; its path must not have been added before (see `put`)."""
        parent, _, name = row.path.rpartition(b"/")
        if row.target is not None:
            self._targets[row.path] = row.target
        if row.host_path != self._usual_host_path(row.mount, row.path):
            self._elsewhere[row.path] = row.host_path
        self.folders.setdefault(parent, Rows()).add(name + b"\0", _pack(*row[3:]))
        if self.above is not None:
            self.above.add(row.path)

    def add_files(
        self, mount: int, folder: bytes, host_folder: bytes, names: Sequence[str], files: Sequence[Copied]
    ) -> None:
        """`add` for many files of one folder, quicker."""
        packed = bytearray()
        for mode, copy, host in files:
            packed += _pack("f", mount, mode, copy, host)
        all_names = os.fsencode("\0".join([*names, ""]))
        self.folders.setdefault(folder, Rows()).add(all_names, packed)
        if host_folder != self._usual_host_path(mount, folder):
            for name in all_names[:-1].split(b"\0"):
                self._elsewhere[join(folder, name)] = join(host_folder, name)

    def get(self, path: bytes) -> Row | None:
        """The row recorded for a workspace path, or None."""
        parent, _, name = path.rpartition(b"/")
        rows = self.folders.get(parent)
        position = rows.find(name) if rows is not None else None
        return None if rows is None or position is None else self.row(path, rows, position)

    def row(self, path: bytes, rows: Rows, position: int) -> Row:
        """The row at a position of a folder, in full."""
        row, host_path = rows.row(position), self._elsewhere.get(path)
        if host_path is None:
            host_path = self._usual_host_path(row.mount, path)
        return row._replace(path=path, host_path=host_path, target=self._targets.get(path))

    def rows_in(self, folder: bytes) -> dict[bytes, Row]:
        """The rows directly in a folder, by path."""
        rows = self.folders.get(folder, Rows())
        paths = [join(folder, os.fsencode(name)) for name in rows.names]
        return {path: self.row(path, rows, position) for position, path in enumerate(paths)}

    def folders_with_host_files(self, newer_than: int) -> list[bytes]:
        """The folders that hold copies of files changed on the host after this time, in nanoseconds."""
        return [
            path for path, rows in self.folders.items() if max(rows.column("host_ctime_ns"), default=0) > newer_than
        ]

    def put(self, row: Row) -> None:
        """Record a row, in place of an older one with the same path."""
        with self.lock:
            self.discard(row.path, below=False)
            self.add(row)

    def discard(self, path: bytes, *, below: bool = True) -> None:
        """Forget a path, and with `below` all that was recorded under it."""
        parent, _, name = path.rpartition(b"/")
        with self.lock:
            self.edits += 1
            rows = self.folders.get(parent)
            position = rows.find(name) if rows is not None else None
            if rows is not None and position is not None:
                rows.delete(position)
            inner = [p for p in self.folders if p == path or p.startswith(path + b"/")] if below else []
            gone = [join(p, os.fsencode(name_below)) for p in inner for name_below in self.folders[p].names]
            for each in [path, *gone]:
                self._targets.pop(each, None)
                self._elsewhere.pop(each, None)
                if self.above is not None:
                    self.above.discard(each)
            for each in inner:
                del self.folders[each]

    def forget_bases(self) -> None:
        """No bytes are kept for any row any more."""
        with self.lock:
            for rows in self.folders.values():
                for position, base in enumerate(rows.column("base")):
                    if base >= 0:
                        rows.change(position, base=-1)

    def seal(self, root: int) -> None:
        """Close the record once the open workspace folder `root` is full, then wait until the next change to
        anything in it gets another stamp: at most one tick of the file system's clock (about 4 ms).
        """
        for mount in self.mounts:
            self._add_folders_to(mount.at if mount.name is None else mount.at.rpartition(b"/")[0], root)
        top = os.fstat(root)
        self.root_stamp = (top.st_ctime_ns, top.st_ino)
        _wait_past(max((max(rows.column("ctime_ns"), default=0) for rows in self.folders.values()), default=0))

    def trust_host_stamps(self) -> None:
        """Say that all host stamps recorded so far are old enough to show any later change, after waiting for it."""
        self.created_ns = time.time_ns() + FRESH_NS
        _wait_past(self.created_ns)

    def _add_folders_to(self, path: bytes, root: int) -> None:
        """Give every folder on the way to `path` a row: those that only lead to a mount have none yet."""
        parts = path.split(b"/") if path else []
        for depth in range(1, len(parts) + 1):
            step = b"/".join(parts[:depth])
            if self.get(step) is None:
                folder = open_beneath(root, step, READ_DIR)
                st = os.fstat(folder)
                os.close(folder)
                self.add(Row(step, b"", None, "d", NO_MOUNT, st.st_mode, Stamp.of(st), NO_STAMP))

    def _usual_host_path(self, mount: int, path: bytes) -> bytes:
        return self.mounts[mount].usual_host_path(path) if 0 <= mount < len(self.mounts) else b""

    def become(self, other: Record) -> None:
        """Take over another record as a whole; whoever holds this one sees it."""
        with self.lock:
            self.mounts, self.created_ns, self.root_stamp = other.mounts, other.created_ns, other.root_stamp
            self.folders, self._targets, self._elsewhere = other.folders, other._targets, other._elsewhere
            self.above = other.above
            self.edits += 1

    def save(self, file: Path, *, durable: bool = False) -> None:
        """Write the record to a file, all of it or nothing.

        Only with `durable` it is forced to the disk: that would cost a quarter of a copy, and a fresh
        workspace does not outlive the machine.
        """
        with self.lock:
            header = {
                "mounts": [
                    [_text(m.host), _text(m.at), m.dev, m.inode, None if m.name is None else _text(m.name)]
                    for m in self.mounts
                ],
                "created_ns": self.created_ns,
                "root_stamp": self.root_stamp,
                "targets": {_text(path): _text(target) for path, target in self._targets.items()},
                "elsewhere": {_text(path): _text(host) for path, host in self._elsewhere.items()},
                "folders": [_text(path) for path in self.folders],
            }
            if self.above is not None:
                header["above"] = [_text(path) for path in sorted(self.above)]
            head = json.dumps(header).encode()
            with replacing(file, durable=durable) as out:  # folder by folder: all of it once more would be felt
                out.write(b"".join([_MAGIC, struct.pack("<Q", len(head)), head]))
                for rows in self.folders.values():
                    out.write(rows.dump())

    @classmethod
    def load(cls, file: Path) -> Record:
        """Read a record written by `save`.

        Raises:
            WorkspaceError: the file is missing, cut short or not such a record.
        """
        try:
            with file.open("rb") as opened:  # folder by folder, as it was written
                return cls._parse(opened)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise WorkspaceError(
                "the record of what was prepared cannot be read",
                where=[f"{file}: {error}"],
                fix="Prepare the workspace again; without this record its changes cannot be told.",
            ) from error

    @classmethod
    def _parse(cls, file: BinaryIO) -> Record:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("not a workspace record")
        (length,) = struct.unpack("<Q", _exactly(file, 8))
        if length > os.fstat(file.fileno()).st_size:
            raise ValueError("cut short")
        header = json.loads(_exactly(file, length))
        record = cls(
            [
                MountRecord(_raw(host), _raw(at), dev, inode, None if name is None else _raw(name))
                for host, at, dev, inode, name in header["mounts"]
            ]
        )
        record.created_ns = int(header["created_ns"])
        ctime_ns, inode = header["root_stamp"]
        record.root_stamp = (int(ctime_ns), int(inode))
        record._targets = {_raw(path): _raw(target) for path, target in header["targets"].items()}
        record._elsewhere = {_raw(path): _raw(host) for path, host in header["elsewhere"].items()}
        if "above" in header:
            record.above = {_raw(path) for path in header["above"]}
        for path in header["folders"]:
            record.folders[_raw(path)] = Rows.load(file)
        return record


def _exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise ValueError("cut short")
    return data


def join(parent: bytes, name: bytes) -> bytes:
    """A path below the workspace folder, whose own path is empty."""
    return parent + b"/" + name if parent else name


def _wait_past(stamp_ns: int) -> None:
    """Wait until the file systems' clock shows a later time, a few ticks at most."""
    give_up = time.monotonic_ns() + _LONGEST_WAIT_NS
    while time.clock_gettime_ns(_COARSE_CLOCK) <= stamp_ns and time.monotonic_ns() < give_up:
        time.sleep(0.001)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
