"""Remember what was put into a workspace, small enough to keep and exact enough to compare.

The copier adds one entry for each file, folder and link; `seal` closes the record.
From then on a file whose inode and ctime are as recorded has not been touched,
whatever its size and mtime say: ctime cannot be set from user space, and `seal`
waits out the clock tick in which two changes would look like one. The record can
be written beside the workspace and read by another process. It holds no file
contents, and reading it runs nothing: it is numbers, names and a little JSON.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.record.entry import NO_MOUNT as NO_MOUNT
from toolkit_workspace.record.entry import Entry as Entry
from toolkit_workspace.record.entry import MountRecord as MountRecord
from toolkit_workspace.record.folder_table import CODES, KINDS, ROW, Folder
from toolkit_workspace.record.folder_table import Kind as Kind

_MAGIC = b"toolkit workspace manifest 1\n"
_COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE: the clock most file systems stamp with
_LONGEST_WAIT_NS = 100_000_000
FRESH_NS = 20_000_000
"""Two changes closer than this may carry the same stamp."""


class Manifest:
    """What was put into a workspace: every entry, by folder."""

    def __init__(self, mounts: Sequence[MountRecord] = ()) -> None:
        self.mounts = tuple(mounts)
        self.created_ns = time.time_ns()
        """When copying began; a host file stamped about then may have changed unseen since."""
        self.root_stamp = (0, 0)
        """ctime and inode of the workspace folder itself."""
        self.folders: dict[bytes, Folder] = {}
        self._targets: dict[bytes, bytes] = {}
        self._elsewhere: dict[bytes, bytes] = {}
        self._last: tuple[bytes, Folder] | None = None
        self.edits = 0
        """Counts what has happened to the record since it was read or made."""
        self.lock = threading.RLock()
        """Held while entries are replaced: bytes are kept by another thread meanwhile."""

    def __len__(self) -> int:
        return sum(len(folder) for folder in self.folders.values())

    def __iter__(self) -> Iterator[Entry]:
        for path, folder in self.folders.items():
            for position, name in enumerate(folder.names):
                yield self.entry(join(path, os.fsencode(name)), folder, position)

    def add(
        self,
        mount_index: int,
        path: bytes,
        kind: Kind,
        mode: int,
        size: int,
        mtime_ns: int,
        ctime_ns: int,
        inode: int,
        link_target: bytes | None,
        host_path: bytes,
        host_size: int,
        host_mtime_ns: int,
        host_ctime_ns: int,
        host_inode: int,
    ) -> None:
        """Record a new entry; `path` must not have been added before (see `put`).

        `path` is relative to the workspace, `host_path` to the mount's host folder. The workspace side is
        the stat after everything was set (mode, mtime), the host side the stat of what was read.
        """
        parent, _, name = path.rpartition(b"/")
        last = self._last
        if last is not None and last[0] == parent:
            folder = last[1]
        else:
            folder = self.folders.setdefault(parent, Folder())
            self._last = (parent, folder)
        if link_target is not None:
            self._targets[path] = link_target
        if host_path != self._usual_host_path(mount_index, path):
            self._elsewhere[path] = host_path
        row = ROW.pack(
            CODES[kind], 1, mount_index, mode, size, mtime_ns, host_size, host_mtime_ns, host_ctime_ns, host_inode, -1
        )
        folder.append(name, ctime_ns, inode, row)

    def add_rows(
        self, mount_index: int, folder_path: bytes, host_folder: bytes, names: Sequence[str], stamps: bytes, rows: bytes
    ) -> None:
        """`add` for many files of one folder, already packed: ctime and inode of each, and its row."""
        packed = os.fsencode("\0".join([*names, ""]))
        self.folders.setdefault(folder_path, Folder()).extend(packed, stamps, rows)
        if host_folder != self._usual_host_path(mount_index, folder_path):
            for name in packed[:-1].split(b"\0") if packed else ():
                self._elsewhere[join(folder_path, name)] = join(host_folder, name)

    def get(self, path: bytes) -> Entry | None:
        """The entry recorded for a workspace path, or None."""
        parent, _, name = path.rpartition(b"/")
        folder = self.folders.get(parent)
        position = folder.find(name) if folder is not None else None
        return None if folder is None or position is None else self.entry(path, folder, position)

    def entries_in(self, path: bytes) -> dict[bytes, Entry]:
        """The entries directly in a folder, by path."""
        folder = self.folders.get(path)
        names = folder.names if folder is not None else []
        full = [join(path, os.fsencode(name)) for name in names]
        return {each: self.entry(each, folder, n) for n, each in enumerate(full)} if folder is not None else {}

    def put(self, entry: Entry) -> None:
        """Record an entry, in place of an older one with the same path."""
        parent, _, name = entry.path.rpartition(b"/")
        with self.lock:
            self.discard(entry.path, below=False)
            if entry.target is not None:
                self._targets[entry.path] = entry.target
            if entry.host_path != self._usual_host_path(entry.mount, entry.path):
                self._elsewhere[entry.path] = entry.host_path
            self.folders.setdefault(parent, Folder()).append(name, entry.ctime_ns, entry.inode, _packed(entry))

    def discard(self, path: bytes, *, below: bool = True) -> None:
        """Forget a path, and with `below` all that was recorded under it."""
        parent, _, name = path.rpartition(b"/")
        with self.lock:
            self.edits += 1
            self._last = None
            folder = self.folders.get(parent)
            position = folder.find(name) if folder is not None else None
            if folder is not None and position is not None:
                folder.delete(position)
            inner = [p for p in self.folders if p == path or p.startswith(path + b"/")] if below else []
            gone = [join(p, os.fsencode(name_below)) for p in inner for name_below in self.folders[p].names]
            for each in [path, *gone]:
                self._targets.pop(each, None)
                self._elsewhere.pop(each, None)
            for each in inner:
                del self.folders[each]

    def seal(self, root_fd: int) -> None:
        """Close the record: take the stamps of folders that have none yet (ctime 0), then wait until the next
        change gets another one.

        Filling a folder stamps it, so a folder is added when it is full, or without a stamp. The wait is at
        most one tick of the file system's clock (about 4 ms).
        """
        self._stamp_folders(root_fd)
        newest = max((max(f.probe[::2], default=0) for f in self.folders.values()), default=0)
        _wait_past(newest)

    def trust_host_stamps(self) -> None:
        """Say that all host stamps recorded so far are old enough to show any later change, after waiting for it."""
        self.created_ns = time.time_ns() + FRESH_NS
        _wait_past(self.created_ns)

    def _stamp_folders(self, root_fd: int) -> None:
        """Take the stamps of the folders that were added without: those that only lead to a mount."""
        top = os.fstat(root_fd)
        self.root_stamp = (top.st_ctime_ns, top.st_ino)
        for mount in self.mounts:
            self._add_missing_folders(mount.at if mount.name is None else mount.at.rpartition(b"/")[0])
        for path, folder in self.folders.items():
            inner = [n for n, is_folder in enumerate(folder.are_folders) if is_folder and not folder.probe[2 * n]]
            if not inner:
                continue
            names, fd = folder.names, open_beneath(root_fd, path, READ_DIR)
            try:
                for position in inner:
                    st = os.stat(names[position], dir_fd=fd, follow_symlinks=False)
                    folder.probe[2 * position], folder.probe[2 * position + 1] = st.st_ctime_ns, st.st_ino
                    folder.set_mode(position, st.st_mode)
            finally:
                os.close(fd)

    def _add_missing_folders(self, path: bytes) -> None:
        """Give every folder on the way to `path` an entry: those that only lead to a mount have none yet."""
        parts = path.split(b"/") if path else []
        for depth in range(1, len(parts) + 1):
            step = b"/".join(parts[:depth])
            if self.get(step) is None:
                self.add(NO_MOUNT, step, "d", stat.S_IFDIR | 0o700, 0, 0, 0, 0, None, b"", 0, 0, 0, 0)

    def _usual_host_path(self, mount_index: int, path: bytes) -> bytes:
        if not 0 <= mount_index < len(self.mounts):
            return b""
        at = self.mounts[mount_index].at
        return path[len(at) + 1 :] if at else path

    def entry(self, path: bytes, folder: Folder, position: int) -> Entry:
        """The entry at a position of a folder, as a value."""
        code, same, mount, mode, size, mtime, h_size, h_mtime, h_ctime, h_inode, base = ROW.unpack_from(
            folder.rows, position * ROW.size
        )
        host_path = self._elsewhere.get(path)
        return Entry(
            mount,
            path,
            KINDS[code],
            mode,
            size,
            mtime,
            folder.probe[2 * position],
            folder.probe[2 * position + 1],
            self._targets.get(path),
            self._usual_host_path(mount, path) if host_path is None else host_path,
            h_size,
            h_mtime,
            h_ctime,
            h_inode,
            base,
            bool(same),
        )

    def become(self, other: Manifest) -> None:
        """Take over another record as a whole; whoever holds this one sees it."""
        with self.lock:
            self.mounts, self.created_ns, self.root_stamp = other.mounts, other.created_ns, other.root_stamp
            self.folders, self._targets, self._elsewhere = other.folders, other._targets, other._elsewhere
            self._last = None
            self.edits += 1

    def save(self, file: Path, *, durable: bool = False) -> None:
        """Write the record to a file, all of it or nothing.

        Only with `durable` it is forced to the disk: that would cost a quarter of a copy, and a fresh
        workspace does not outlive the machine.
        """
        with self.lock:
            self._save(file, durable)

    def _save(self, file: Path, durable: bool) -> None:
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
        head = json.dumps(header).encode()
        temporary = file.with_name(file.name + ".new")
        with temporary.open("wb") as out:
            out.write(_MAGIC + struct.pack("<Q", len(head)) + head)
            for folder in self.folders.values():
                out.write(folder.dump())
            if durable:
                out.flush()
                os.fsync(out.fileno())
        temporary.replace(file)

    @classmethod
    def load(cls, file: Path) -> Manifest:
        """Read a record written by `save`.

        Raises:
            WorkspaceError: the file is missing, cut short or not such a record.
        """
        try:
            return cls._parse(file.read_bytes())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise WorkspaceError(
                "the record of what was prepared cannot be read",
                where=[f"{file}: {error}"],
                fix="Prepare the workspace again; without this record its changes cannot be told.",
            ) from error

    @classmethod
    def _parse(cls, data: bytes) -> Manifest:
        if not data.startswith(_MAGIC):
            raise ValueError("not a workspace manifest")
        start = len(_MAGIC) + 8
        (length,) = struct.unpack_from("<Q", data, len(_MAGIC))
        header = json.loads(data[start : start + length])
        manifest = cls(
            [
                MountRecord(_raw(host), _raw(at), dev, inode, None if name is None else _raw(name))
                for host, at, dev, inode, name in header["mounts"]
            ]
        )
        manifest.created_ns = int(header["created_ns"])
        ctime_ns, inode = header["root_stamp"]
        manifest.root_stamp = (int(ctime_ns), int(inode))
        manifest._targets = {_raw(path): _raw(target) for path, target in header["targets"].items()}
        manifest._elsewhere = {_raw(path): _raw(host) for path, host in header["elsewhere"].items()}
        rest = memoryview(data)[start + length :]
        for path in header["folders"]:
            manifest.folders[_raw(path)], rest = Folder.load(rest)
        return manifest


def _wait_past(stamp_ns: int) -> None:
    """Wait until the file systems' clock shows a later time, a few ticks at most."""
    give_up = time.monotonic_ns() + _LONGEST_WAIT_NS
    while time.clock_gettime_ns(_COARSE_CLOCK) <= stamp_ns and time.monotonic_ns() < give_up:
        time.sleep(0.001)


def join(parent: bytes, name: bytes) -> bytes:
    """A path below the workspace folder, whose own path is empty."""
    return parent + b"/" + name if parent else name


def _packed(entry: Entry) -> bytes:
    return ROW.pack(
        CODES[entry.kind],
        entry.host_is_base,
        entry.mount,
        entry.mode,
        entry.size,
        entry.mtime_ns,
        entry.host_size,
        entry.host_mtime_ns,
        entry.host_ctime_ns,
        entry.host_inode,
        entry.base,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
