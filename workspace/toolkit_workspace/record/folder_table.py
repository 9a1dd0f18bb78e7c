"""The entries of one folder in little memory: names in one string, numbers in two arrays."""

from __future__ import annotations

import os
import struct
from array import array
from typing import Literal

Kind = Literal["f", "d", "l"]

ROW = struct.Struct("<BBhIqqqqqQq")
"""Kind, whether the host file holds the same bytes, mount, mode, size, mtime; the host's size, mtime, ctime and
inode; where the bytes are kept."""
KINDS: dict[int, Kind] = {0: "f", 1: "d", 2: "l"}
CODES = {kind: code for code, kind in KINDS.items()}
_FILE, _FOLDER = CODES["f"], CODES["d"]
_HOST_CTIME = 5
_INTEGER = struct.Struct("<q")


class Folder:
    """The entries of one folder: names in one string, numbers in two arrays."""

    __slots__ = ("_names", "moves", "probe", "rows")

    def __init__(self) -> None:
        self.moves = 0
        """How often positions have shifted; a position is good while this stays the same."""
        self._names = bytearray()
        self.probe = array("Q")
        """ctime and inode of each entry, one after the other: all a rescan has to look at."""
        self.rows = bytearray()

    def __len__(self) -> int:
        return len(self.probe) // 2

    @property
    def names(self) -> list[str]:
        """The names in the order they were added, undecodable bytes as surrogates."""
        return os.fsdecode(bytes(self._names[:-1])).split("\0") if self._names else []

    def append(self, name: bytes, ctime_ns: int, inode: int, row: bytes) -> None:
        self._names += name
        self._names.append(0)
        self.probe.append(ctime_ns)
        self.probe.append(inode)
        self.rows += row

    def extend(self, names: bytes, stamps: bytes, rows: bytes) -> None:
        """Append many; each name ends with a NUL, `stamps` is what `probe` holds."""
        self._names += names
        self.probe.frombytes(stamps)
        self.rows += rows

    def find(self, name: bytes) -> int | None:
        """The position of a name, or None."""
        if self._names.startswith(name + b"\0"):
            return 0
        at = self._names.find(b"\0" + name + b"\0")
        return None if at < 0 else self._names.count(0, 0, at) + 1

    @property
    def are_folders(self) -> list[bool]:
        """For each entry whether it is a folder itself."""
        return [code == _FOLDER for code in self.rows[:: ROW.size]]

    @property
    def are_files(self) -> list[bool]:
        """For each entry whether it is a file."""
        return [code == _FILE for code in self.rows[:: ROW.size]]

    def newest_on_host(self) -> int:
        """The latest ctime of a host file in this folder; a row is eight words, the sixth is the ctime."""
        return max(memoryview(self.rows).cast("q")[_HOST_CTIME :: ROW.size // 8].tolist(), default=0)

    def size_and_base(self, position: int) -> tuple[int, int]:
        """How long a file was, and where its bytes are kept."""
        row = position * ROW.size
        return _INTEGER.unpack_from(self.rows, row + 8)[0], _INTEGER.unpack_from(self.rows, row + ROW.size - 8)[0]

    def set_mode(self, position: int, mode: int) -> None:
        struct.pack_into("<I", self.rows, position * ROW.size + 4, mode)

    def set_host_differs(self, position: int) -> None:
        """Note that the host file is not to be taken for the recorded bytes."""
        self.rows[position * ROW.size + 1] = 0

    def set_base(self, position: int, offset: int) -> None:
        """Note where the recorded bytes of a file are kept."""
        _INTEGER.pack_into(self.rows, (position + 1) * ROW.size - 8, offset)

    def delete(self, position: int) -> None:
        self.moves += 1
        names = self._names[:-1].split(b"\0")
        del names[position]
        self._names = bytearray(b"".join(name + b"\0" for name in names))
        del self.probe[2 * position : 2 * position + 2]
        del self.rows[position * ROW.size : (position + 1) * ROW.size]

    def dump(self) -> bytes:
        return b"".join([struct.pack("<II", len(self), len(self._names)), self._names, self.probe.tobytes(), self.rows])

    @classmethod
    def load(cls, data: memoryview) -> tuple[Folder, memoryview]:
        count, length = struct.unpack_from("<II", data)
        ends = (8, 8 + length, 8 + length + 16 * count, 8 + length + (16 + ROW.size) * count)
        if ends[3] > len(data):
            raise ValueError("cut short")
        folder = cls()
        folder._names = bytearray(data[ends[0] : ends[1]])
        folder.probe.frombytes(data[ends[1] : ends[2]])
        folder.rows = bytearray(data[ends[2] : ends[3]])
        return folder, data[ends[3] :]
