"""Write changes as a patch that `git apply` takes.

Modes, renames, links, odd names, a missing last newline and binary contents are
written as git writes them, with full blob names, so that the patch also applies in
reverse and with `--3way`. Git itself is never run. Paths it takes no patch for are
left out and named: see `why_not_in_patch`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit._base.words import show_hidden
from toolkit_workspace.changes.lines import Block, matching_blocks, split_lines
from toolkit_workspace.record.content import Node, is_binary

if TYPE_CHECKING:
    from toolkit_workspace.changes.changes import Change

_CONTEXT = 3
_NO_BLOB = "0" * 40
_IGNORED = "the project ignores it, or it is a cache"
TOO_LONG = "its path is too long for git"
_LONGEST = 4_000
"""The kernel takes 4,095 bytes; git asks for the rules beside a file, too."""
_LARGEST_TEXT = 4 << 20
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_NEEDS_QUOTES = re.compile(rb'[^\x20-\x7e]|["\\]')


@dataclass(frozen=True, slots=True)
class Version:
    """One side of a change: the path, the mode git would store, and the contents (a link's target)."""

    path: bytes
    mode: int
    data: bytes

    @property
    def git_mode(self) -> str:
        if stat.S_ISLNK(self.mode):
            return "120000"
        return "100755" if self.mode & 0o100 else "100644"


def patch_of(changes: Sequence[Change]) -> bytes:
    """One patch for all of them; marks, and what is not in it, stand in comment lines at the top."""
    pieces, marked = list[bytes](), list[bytes]()
    left_out = [
        b"# not in this patch: %s (%s)\n" % (_quoted(os.fsencode(path)), why.encode())
        for path, why in left_out_of_patch(changes)
    ]
    for change in changes:
        if change.type != "folder" and not why_not_in_patch(change):
            name = _quoted(os.fsencode(change.path))
            pieces.append(_piece(change))
            reasons = show_hidden("; ".join(change.suspicious)).encode("utf-8", "backslashreplace")
            marked += [b"# look twice: %s (%s)\n" % (name, reasons)] if reasons else []
    return b"".join([*left_out, *marked, *pieces]) if any(pieces) else b""


def left_out_of_patch(changes: Sequence[Change]) -> list[tuple[str, str]]:
    """The paths that the patch does not hold, each with the reason; of an ignored folder the folder alone."""
    ignored = {change.path for change in changes if change.ignored}
    left = []
    for change in changes:
        if change.ignored and change.path.rpartition("/")[0] in ignored:
            continue
        if reason := _IGNORED if change.ignored else why_not_in_patch(change):
            left.append((change.path, reason))
    return left


def why_not_in_patch(change: Change) -> str:
    """Why a patch cannot hold a change; empty when it can. Git keeps no folders: they are no loss."""
    if change.type == "folder":
        return ""
    if change.type == "special":
        return "neither file nor link"
    if change.ignored:
        return _IGNORED
    if change.planted is not None:
        return "git takes the folder it lies in for a repository"
    if any(_git_refuses(os.fsencode(path)) for path in (change.path, change.old_path) if path):
        return "git takes no paths in .git"
    if any(is_too_long(path) for path in (change.path, change.old_path) if path):
        return TOO_LONG
    if change.type == "file" and change.before is not None and change.before.content is None:
        return "the host changed and the bytes it was prepared from were not kept"
    return ""


def is_too_long(path: str) -> bool:
    """Whether git cannot reach a path, nor the rules in its folder: it hands the kernel all of it at once."""
    return len(os.fsencode(path)) > _LONGEST


def _git_refuses(path: bytes) -> bool:
    """Whether git takes no patch for this path: a part of it stands for a `.git` folder on some system."""
    parts = (re.split(rb"[:\\]", part)[0].rstrip(b" .").lower() for part in path.split(b"/"))
    return any(part in (b".git", b"git~1") for part in parts)


def _piece(change: Change) -> bytes:
    old = _version(change.before, change.old_path if change.old_path is not None else change.path)
    new = _version(change.after, change.path)
    if old and new and old.path == new.path and old.git_mode == new.git_mode and old.data == new.data:
        return b""  # permissions changed that git does not keep
    return file_patch(old, new)


def _version(node: Node | None, path: str) -> Version | None:
    if node is None:
        return None
    data = node.target or b"" if node.kind == "l" else node.content.read() if node.content else b""
    return Version(os.fsencode(path), node.mode if node.kind == "f" else stat.S_IFLNK, data)


def file_patch(old: Version | None, new: Version | None) -> bytes:
    """The patch for one file or link: added without `old`, deleted without `new`, renamed when the paths differ."""
    first, last = old or new, new or old
    assert first is not None
    assert last is not None
    head = [b"diff --git " + _quoted(b"a/" + first.path) + b" " + _quoted(b"b/" + last.path) + b"\n"]
    head += [line.encode() + b"\n" for line in _mode_lines(old, new)]
    if old and new and old.path != new.path:
        head += [
            b"similarity index %d%%\n" % similarity(old.data, new.data),
            b"rename from " + _quoted(old.path) + b"\n",
            b"rename to " + _quoted(new.path) + b"\n",
        ]
    if old and new and old.data == new.data:
        return b"".join(head)
    same_mode = f" {new.git_mode}" if old and new and old.git_mode == new.git_mode else ""
    head.append(f"index {_blob(old)}..{_blob(new)}{same_mode}\n".encode())
    return b"".join([*head, *_body(old, new)])


def similarity(old: bytes, new: bytes) -> int:
    """How much of the larger text the two have in common, in per cent."""
    if old == new:
        return 100
    if not old or not new or is_binary(old) or is_binary(new):
        return 0
    a, b = split_lines(old), split_lines(new)
    common = sum(len(line) for i, _, n in matching_blocks(a, b) for line in a[i : i + n])
    return min(99, 100 * common // max(len(old), len(new)))


def _quoted(path: bytes) -> bytes:
    """A name as git prints it: in quotes with escapes when it holds anything but plain ASCII."""
    if not _NEEDS_QUOTES.search(path):
        return path
    escaped = "".join(
        f"\\{_ESCAPES[byte]}" if byte in _ESCAPES else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
        for byte in path
    )
    return f'"{escaped}"'.encode()


def _mode_lines(old: Version | None, new: Version | None) -> list[str]:
    if old is None and new is not None:
        return [f"new file mode {new.git_mode}"]
    if new is None and old is not None:
        return [f"deleted file mode {old.git_mode}"]
    assert old is not None
    assert new is not None
    return [f"old mode {old.git_mode}", f"new mode {new.git_mode}"] if old.git_mode != new.git_mode else []


def _blob(version: Version | None) -> str:
    if version is None:
        return _NO_BLOB
    return hashlib.sha1(b"blob %d\0" % len(version.data) + version.data, usedforsecurity=False).hexdigest()


def _body(old: Version | None, new: Version | None) -> Iterator[bytes]:
    before, after = old.data if old else b"", new.data if new else b""
    if is_binary(before) or is_binary(after) or max(len(before), len(after)) > _LARGEST_TEXT:
        yield b"GIT binary patch\n"
        yield _literal(after)
        yield _literal(before)
        return
    if not before and not after:
        return
    yield b"--- " + (_file_line(b"a/" + old.path) if old else b"/dev/null") + b"\n"
    yield b"+++ " + (_file_line(b"b/" + new.path) if new else b"/dev/null") + b"\n"
    yield from _hunks(before, after)


def _file_line(path: bytes) -> bytes:
    """A name with a space is closed by a tab, or its end would be a guess."""
    name = _quoted(path)
    return name + b"\t" if name is path and b" " in path else name


def _literal(data: bytes) -> bytes:
    import base64

    packed = zlib.compress(data)
    lines = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), 52):
        chunk = packed[start : start + 52]
        length = len(chunk) + (64 if len(chunk) <= 26 else 70)  # A to Z are 1 to 26, a to z 27 to 52
        lines.append(bytes([length]) + base64.b85encode(chunk, pad=True) + b"\n")
    return b"".join([*lines, b"\n"])


def _hunks(before: bytes, after: bytes) -> Iterator[bytes]:
    a, b = split_lines(before), split_lines(after)
    for edits in _near_edits(matching_blocks(a, b)):
        (i, _, j, _), (_, a_end, _, b_end) = edits[0], edits[-1]
        above, below = min(_CONTEXT, i), min(_CONTEXT, len(a) - a_end)
        yield b"@@ -%s +%s @@\n" % (_range(i - above, a_end + below), _range(j - above, b_end + below))
        i -= above
        for a_from, a_to, b_from, b_to in edits:
            yield from (_line(b" ", line) for line in a[i:a_from])
            yield from (_line(b"-", line) for line in a[a_from:a_to])
            yield from (_line(b"+", line) for line in b[b_from:b_to])
            i = a_to
        yield from (_line(b" ", line) for line in a[i : i + below])


def _near_edits(blocks: Sequence[Block]) -> list[list[tuple[int, int, int, int]]]:
    """The replaced stretches of both sides, those whose context would touch put together."""
    groups: list[list[tuple[int, int, int, int]]] = []
    i = j = 0
    for at_a, at_b, length in blocks:
        if at_a > i or at_b > j:
            edit = (i, at_a, j, at_b)
            if groups and i - groups[-1][-1][1] <= 2 * _CONTEXT:
                groups[-1].append(edit)
            else:
                groups.append([edit])
        i, j = at_a + length, at_b + length
    return groups


def _range(start: int, end: int) -> bytes:
    length = end - start
    first = start + 1 if length else start
    return b"%d" % first if length == 1 else b"%d,%d" % (first, length)


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"
