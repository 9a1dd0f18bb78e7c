"""Seal what a setup made, and tell later whether it is still that.

A seal has a row for every entry: its kind, mode and size, the digest of its bytes or where a link leads,
and its stamp (inode, mtime and ctime). On each use all stamps are compared, without reading a byte:
whoever writes to a file, replaces, adds or removes one changes a stamp, and even setting the times back
changes the ctime. Where one differs, every byte is read and compared. What a program with
root's rights can hide by writing to the disk itself, the stamps do not show and the digests do.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.files import write_whole
from toolkit._base.handles import READ_FILE

PARTS = ("tree", "cache")
"""What of a layer's folder is sealed."""
_SEAL = "seal"
_CHUNK = 1 << 20
_Stamps = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a seal says of a layer."""

    content: str
    """One digest of all names, modes, links and bytes."""
    stamps: str
    """One digest of all stamps."""
    files: int
    size: int
    """The bytes of all files together."""


def seal(folder: Path) -> Sealed:
    """Look at everything in a layer, read all of it, and write the seal down.

    Raises:
        OSError: something cannot be read, or the seal not be written.
    """
    stamps = _stamps(folder)
    rows = [[path, *stamp, _digest(folder / path, stamp[0])] for path, stamp in sorted(stamps.items())]
    write_whole(folder / _SEAL, "".join(json.dumps(row) + "\n" for row in rows))
    files = [stamp for stamp in stamps.values() if stat.S_ISREG(stamp[0])]
    return Sealed(_content(rows), _digest_of(stamps), len(files), sum(stamp[1] for stamp in files))


def has_stamps(folder: Path, stamps: str) -> bool:
    """Whether no stamp of a layer has changed since it was sealed; what cannot be looked at has."""
    try:
        return _digest_of(_stamps(folder)) == stamps
    except OSError:
        return False


def differing(folder: Path, content: str) -> list[str]:
    """Read all of a layer and name what is not as it was sealed; nothing where all of it is.

    Raises:
        OSError: something cannot be read.
    """
    lines = (folder / _SEAL).read_text(encoding="utf-8").splitlines()
    known = {row[0]: row for row in map(json.loads, lines)}
    if _content([*known.values()]) != content:
        return [_SEAL]
    now = _stamps(folder)
    wrong = {*known} ^ {*now}
    for path in known.keys() & now.keys():
        row, (mode, size, *_) = known[path], now[path]
        if row[1] != mode or (row[2] != size and stat.S_ISREG(mode)) or row[-1] != _digest(folder / path, mode):
            wrong.add(path)
    return sorted(wrong)


def _content(rows: list[list[object]]) -> str:
    """The digest of what the rows say but for the stamps; the size of a folder is its file system's affair."""
    digest = hashlib.sha256()
    for path, mode, size, *_, data in sorted(rows, key=lambda row: str(row[0])):
        kept = size if stat.S_ISREG(int(str(mode))) else 0
        digest.update(json.dumps([path, mode, kept, data]).encode() + b"\n")
    return digest.hexdigest()


def _digest_of(stamps: _Stamps) -> str:
    return hashlib.sha256(repr(sorted(stamps.items())).encode(errors="surrogateescape")).hexdigest()


def _stamps(folder: Path) -> _Stamps:
    """Mode, size, inode, mtime and ctime of every entry, by its path."""
    found: _Stamps = {}
    for part in PARTS:
        if (folder / part).is_dir():
            found.update(_walk(str(folder / part), part))
    return found


def _walk(place: str, name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    waiting = [(place, name)]
    while waiting:
        above, below = waiting.pop()
        with os.scandir(above) as entries:
            for entry in entries:
                st = entry.stat(follow_symlinks=False)
                path = f"{below}/{entry.name}"
                yield path, (st.st_mode, st.st_size, st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
                if stat.S_ISDIR(st.st_mode):
                    waiting.append((entry.path, path))


def _digest(path: Path, mode: int) -> str:
    """The digest of a file's bytes, where a link leads, or nothing for a folder."""
    if stat.S_ISLNK(mode):
        return os.fsencode(path.readlink()).hex()
    if not stat.S_ISREG(mode):
        return ""
    digest = hashlib.sha256()
    with os.fdopen(os.open(path, READ_FILE), "rb", buffering=0) as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()
