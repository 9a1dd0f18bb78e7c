"""How the reference server words what it found: sizes, moments, listings, a tree as JSON, a fenced diff."""

from __future__ import annotations

import ctypes
import json
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit._base.words import count_text, safe_name
from toolkit.errors import ToolError
from toolkit_servers.ready.files.editing import diff_text
from toolkit_servers.ready.files.root import Place, Root
from toolkit_servers.ready.files.walk import Entry, Walk

_UNITS = ("B", "KB", "MB", "GB", "TB")
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800


@dataclass(frozen=True, slots=True)
class SizedEntry:
    """An entry of a folder, with what its size is if it can be known."""

    name: str
    is_folder: bool
    size: int


def plain(name: str) -> str:
    """A name or path as it is; escaped and in quotes where it would not stand on one line for everybody to see."""
    return name if name.isprintable() else safe_name(name, longest=10_000)


def listed(name: str, is_folder: bool) -> str:
    """One entry of a folder."""
    return f"{_kind(is_folder)} {plain(name)}"


def _kind(is_folder: bool) -> str:
    return "[DIR]" if is_folder else "[FILE]"


def sized_listing(entries: Sequence[SizedEntry]) -> list[str]:
    """One line for each entry."""
    return [
        f"{_kind(entry.is_folder)} {plain(entry.name):<30} {'' if entry.is_folder else size_of(entry.size).rjust(10)}"
        for entry in entries
    ]


def sized_summary(entries: Sequence[SizedEntry]) -> list[str]:
    """How much there is in all."""
    folders = sum(entry.is_folder for entry in entries)
    total = sum(entry.size for entry in entries if not entry.is_folder)
    return ["", f"Total: {len(entries) - folders} files, {folders} directories", f"Combined size: {size_of(total)}"]


def size_of(size: int) -> str:
    """Bytes as `14 B` or `1.50 KB`."""
    exponent = min((size.bit_length() - 1) // 10, len(_UNITS) - 1) if size > 0 else 0
    return f"{size / 1024**exponent:.2f} {_UNITS[exponent]}" if exponent else f"{max(size, 0)} {_UNITS[0]}"


def info_lines(st: os.stat_result, born: float | None) -> str:
    """What is known about one path, one fact a line."""
    facts = {
        "size": st.st_size,
        "created": "unknown" if born is None else moment(born),
        "modified": moment(st.st_mtime),
        "accessed": moment(st.st_atime),
        "isDirectory": str(stat.S_ISDIR(st.st_mode)).lower(),
        "isFile": str(stat.S_ISREG(st.st_mode)).lower(),
        "permissions": f"{st.st_mode & 0o777:03o}",
    }
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


def moment(seconds: float) -> str:
    """A point in time as JavaScript prints it, in UTC."""
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return "Invalid Date"
    return f"{at:%a %b %d %Y %H:%M:%S} GMT+0000 (Coordinated Universal Time)"


def birth_time(handle: int) -> float | None:
    """When a file was made; None where system or file system do not know."""
    statx = getattr(ctypes.CDLL(None), "statx", None)
    facts = (ctypes.c_uint64 * 32)()  # struct statx: 256 bytes, stx_btime at 80
    if statx is None or statx(handle, b"", _AT_EMPTY_PATH, _STATX_BTIME, ctypes.byref(facts)) != 0:
        return None
    if not facts[0] & _STATX_BTIME:
        return None
    return ctypes.c_int64(facts[10]).value + (facts[11] & 0xFFFFFFFF) / 1e9


def tree_json(walk: Walk, room: int) -> str:
    """Everything a walk meets as nested JSON; whole, or not at all.

    Raises:
        ToolError: it is more than a result may hold, or a folder could not be read.
    """
    entries, below = list[Entry](), Counter[str]()
    for entry in walk:
        room -= 60 + len(entry.name) + 16 * entry.depth
        below[entry.path.partition("/")[0]] += 1
        if room >= 0:
            entries.append(entry)
    if walk.unreadable:
        raise ToolError(f"{plain(walk.unreadable[0])} cannot be read; name it in excludePatterns")
    if room < 0 or walk.stopped:
        largest = ", ".join(f"{plain(name)} ({count_text(count, 'entry')})" for name, count in below.most_common(5))
        raise ToolError(
            f"the tree of {walk.start} is more than a result may hold. Most of it is in: {largest}. "
            "Ask for a smaller folder, or leave some out with excludePatterns"
        )
    return "\n".join(_json_lines(entries)) if entries else "[]"


def _json_lines(entries: Sequence[Entry]) -> list[str]:
    lines = ["["]
    for at, entry in enumerate(entries):
        following = entries[at + 1].depth if at + 1 < len(entries) else 0
        pad = " " * (4 * entry.depth - 2)
        kind = "directory" if entry.is_folder else "file"
        lines += [f"{pad}{{", f'{pad}  "name": {_json(entry.name)},']
        lines.append(f'{pad}  "type": "{kind}"' + ("," if entry.is_folder else ""))
        if following > entry.depth:
            lines.append(f'{pad}  "children": [')
            continue
        if entry.is_folder:
            lines.append(f'{pad}  "children": []')
        lines.append(pad + ("}," if following == entry.depth else "}"))
        for depth in range(entry.depth - 1, max(following, 1) - 1, -1):
            pad = " " * (4 * depth - 2)
            lines += [f"{pad}  ]", pad + ("}," if following == depth else "}")]
    return [*lines, "]"]


def _json(name: str) -> str:
    return json.dumps(name.encode("utf-8", "replace").decode(), ensure_ascii=False)


def fenced_diff(root: Root, place: Place, old: bytes, new: bytes, room: int) -> str:
    """What an edit changes, as a diff between fences that do not occur in it."""
    name = plain(full_path(root, place))
    hunks = diff_text(old.replace(b"\r\n", b"\n"), new.replace(b"\r\n", b"\n"), place)
    body = hunks[hunks.find("@@") :] + "\n" if "@@" in hunks else ""
    if len(body) > room:
        body = body[:room] + f"\n[{len(body) - room:,} more characters of the difference are not shown]\n"
    head = f"Index: {name}\n{'=' * 67}\n--- {name}\toriginal\n+++ {name}\tmodified\n"
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}diff\n{head}{body}{fence}\n\n"


def full_path(root: Root, place: Place) -> str:
    """A place as an absolute path of the host."""
    return f"{root.shown.rstrip('/')}/{place.path}" if place.path else root.shown
