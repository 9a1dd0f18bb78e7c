"""What a parcel says of itself: its entries, its blocks, and facts of whoever packed it.

Written by `Manifest.to_bytes` and read by `Manifest.from_bytes`, which believes nothing: a manifest with a path that
leads elsewhere, a kind that is neither file, folder nor link, a size that does not add up, or more than a bound of
anything is refused as a whole, before a byte of it is written anywhere.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from toolkit._base.words import safe_name, size_text
from toolkit.errors import RunError

BLOCK = 4 << 20
"""How many bytes of files one block holds at most."""
MOST_MANIFEST = 256 << 20
"""The longest manifest, unpacked: about a million files."""
MOST_ENTRIES = 2_000_000
_LONGEST_PATH = 65_536
_LONGEST_NAME = 255
_FORMAT = 1
_MOST = 1 << 62

Kind = Literal["f", "d", "l"]
HOW = ("raw", "deflate", "zstd")
"""How the bytes of a block are packed."""


class ParcelError(RunError):
    """A parcel that is damaged, is another one than was meant, or asks for what it may not."""


class Entry(NamedTuple):
    """One file, folder or link of a parcel."""

    path: bytes
    """Relative to the top of the parcel."""
    kind: Kind
    mode: int
    """Permission bits; -1 where the reader knows better."""
    mtime_ns: int = 0
    size: int = 0
    start: int = 0
    """Where its bytes begin in all blocks, one after the other; two files of the same bytes have the same."""
    target: bytes | None = None
    """What a link says."""


class Block(NamedTuple):
    """Some bytes of files as they travel."""

    packed: int
    size: int
    how: str
    """`raw`, `deflate` or `zstd`."""
    hash: str
    """Of the packed bytes."""


@dataclass(frozen=True)
class Parcel:
    """A parcel as others are told of it: small, and enough to know it again."""

    hash: str
    """Of its manifest, packed."""
    manifest: int
    """How long that is."""
    blocks: int
    packed: int
    """How many bytes travel, manifest and blocks."""
    size: int
    """How many bytes its files take where it is unpacked."""
    files: int


@dataclass(frozen=True)
class Manifest:
    """All that a parcel says of itself."""

    entries: tuple[Entry, ...]
    blocks: tuple[Block, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    """What its packer wrote down, as JSON has it."""

    @property
    def size(self) -> int:
        """How many bytes its files take where it is unpacked."""
        return sum(entry.size for entry in self.entries)

    def to_bytes(self) -> bytes:
        """The manifest as it travels."""
        rows = [
            [_text(one.path), one.kind, one.mode, one.mtime_ns, one.size, one.start]
            if one.target is None
            else [_text(one.path), one.kind, one.mode, one.mtime_ns, 0, 0, _text(one.target)]
            for one in self.entries
        ]
        said = {"format": _FORMAT, "facts": self.facts, "blocks": self.blocks, "entries": rows}
        return zlib.compress(json.dumps(said, separators=(",", ":")).encode(), 1)

    def parcel(self) -> Parcel:
        """What others are told of it."""
        data = self.to_bytes()
        packed = len(data) + sum(block.packed for block in self.blocks)
        files = sum(entry.kind == "f" for entry in self.entries)
        return Parcel(hashlib.sha256(data).hexdigest(), len(data), len(self.blocks), packed, self.size, files)

    @classmethod
    def from_bytes(cls, data: bytes, parcel: Parcel, *, most_bytes: int) -> Manifest:
        """The manifest of a parcel that one was told of.

        Raises:
            ParcelError: it is another one, it is damaged, or it holds more than `most_bytes`.
        """
        if len(data) != parcel.manifest or hashlib.sha256(data).hexdigest() != parcel.hash:
            raise ParcelError("the manifest of a parcel is not the one that was meant", where=[parcel.hash])
        try:
            said = json.loads(inflated(data, MOST_MANIFEST))
            if not isinstance(said, dict) or said.get("format") != _FORMAT or not isinstance(said["facts"], dict):
                raise ValueError("it is of another format")
            blocks = tuple(_block(row) for row in said["blocks"])
            held = sum(block.size for block in blocks)
            if len(said["entries"]) > MOST_ENTRIES:
                raise ValueError("it has too many entries")
            entries = tuple(_entry(row, held) for row in said["entries"])
            _check_tree(entries)
            if (size := max(held, sum(entry.size for entry in entries))) > most_bytes:
                raise ParcelError(
                    f"a parcel holds {size_text(size)}; {size_text(most_bytes)} are allowed", where=[parcel.hash]
                )
        except (KeyError, TypeError, ValueError, RecursionError, UnicodeError) as error:
            raise ParcelError(
                f"the manifest of a parcel cannot be read: {safe_name(str(error))}", where=[parcel.hash]
            ) from None
        return cls(entries, blocks, said["facts"])


def blocks_in(data: bytes, parcel: Parcel) -> tuple[Block, ...]:
    """The blocks that a manifest of our own names.

    Raises:
        ParcelError: it is not that of the parcel.
    """
    if hashlib.sha256(data).hexdigest() != parcel.hash:
        raise ParcelError("the manifest of a parcel was changed after it was packed", where=[parcel.hash])
    return tuple(_block(row) for row in json.loads(inflated(data, MOST_MANIFEST))["blocks"])


def inflated(data: bytes, most: int) -> bytes:
    """What was deflated, where that is no more than a bound.

    Raises:
        ValueError: it is more, it is damaged, or something follows it.
    """
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"it is damaged ({error})") from None
    if len(found) > most:
        raise ValueError("it holds more than it may")
    if not inflating.eof or inflating.unused_data:
        raise ValueError("it is cut short, or goes on")
    return found


def _block(row: Any) -> Block:
    packed, size, how, digest = row
    numbers = isinstance(packed, int) and isinstance(size, int) and not isinstance(size, bool)
    if not numbers or not 0 < size <= BLOCK or not 0 < packed <= 2 * BLOCK or how not in HOW:
        raise ValueError("a block has no such size")
    if not isinstance(digest, str) or len(digest) != 64 or (how == "raw" and packed != size):
        raise ValueError("a block is not described")
    return Block(packed, size, how, digest)


def _entry(row: Any, size: int) -> Entry:
    path, kind, mode, mtime_ns, length, start, *more = row
    if not type(mode) is type(mtime_ns) is type(length) is type(start) is int:
        raise ValueError(f"a number of {path!r} is none")
    if not (-1 <= mode < 0o1000 and -_MOST < mtime_ns < _MOST and 0 <= length < _MOST and 0 <= start < _MOST):
        raise ValueError(f"a number of {path!r} is out of bounds")
    if kind not in ("f", "d", "l") or (kind == "l") != (len(more) == 1):
        raise ValueError(f"{path!r} is neither a file, a folder nor a link")
    if (kind == "f" and start + length > size) or (kind != "f" and length):
        raise ValueError(f"{path!r} has more bytes than there are")
    target = None
    if more:
        target = _raw(more[0])
        if not 0 < len(target) <= _LONGEST_PATH or b"\0" in target:
            raise ValueError(f"the link {path!r} leads nowhere")
    return Entry(_checked_path(_raw(path)), kind, mode, mtime_ns, length, start, target)


def _checked_path(path: bytes) -> bytes:
    if len(path) > _LONGEST_PATH or b"\0" in path:
        raise ValueError("a path is too long, or holds a NUL byte")
    whole = b"/%b/" % path
    if b"//" in whole or b"/./" in whole or b"/../" in whole:
        raise ValueError(f"{path!r} is no path below the top")
    if len(path) > _LONGEST_NAME and any(len(part) > _LONGEST_NAME for part in path.split(b"/")):
        raise ValueError(f"{path!r} has a name that is too long")
    return path


def _check_tree(entries: Iterable[Entry]) -> None:
    """Every entry once, and each in a folder that was named before it."""
    folders: set[bytes] = {b""}
    seen: set[bytes] = set()
    for entry in entries:
        if entry.path in seen:
            raise ValueError(f"{entry.path!r} is there twice")
        if entry.path.rpartition(b"/")[0] not in folders:
            raise ValueError(f"{entry.path!r} lies in no folder")
        seen.add(entry.path)
        if entry.kind == "d":
            folders.add(entry.path)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _raw(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("a path is no text")
    return text.encode("utf-8", "surrogateescape")
