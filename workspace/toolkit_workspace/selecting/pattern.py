"""Read one line of a .gitignore file exactly as git does.

A line becomes a `GitPattern`, a pathspec pattern whose regular expression matches
the bytes of a path relative to the folder the line speaks about. pathspec's own
translation differs from git in about one tricky path of fifteen and refuses a
whole file for one bad line; here a line git would never match simply never matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import re2  # type: ignore[import-untyped]
from pathspec import Pattern

from toolkit.errors import WorkspaceError

MOST_LINE_BYTES = 4_096
_SPECIAL = re.compile(rb"[*?\[\\]")
_NEVER = b"[^\\x00-\\xff]"


def _options() -> Any:
    """Paths are bytes, a newline is a byte like any other, and bad input is no reason to log."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    return options


def match_many(regexes: Iterable[bytes]) -> Callable[[bytes], list[int]]:
    """A function that tells which of the expressions match a whole path, in one pass over it."""
    automaton = re2.Set.FullMatchSet(_options())
    for regex in regexes:
        automaton.Add(regex)
    automaton.Compile()
    matching: Callable[[bytes], list[int]] = automaton.Match
    return matching


class GitPattern(Pattern):
    """One gitignore line: what it matches, and what that decides."""

    def __init__(self, line: bytes, source: str, number: int) -> None:
        if len(line) > MOST_LINE_BYTES:
            raise WorkspaceError(
                f"a rule of {len(line):,} bytes is too long to be read",
                where=[f"{source}:{number}" if number else source],
                fix=f"Shorten it below {MOST_LINE_BYTES:,} bytes, or leave the rule away.",
            )
        body = line[1:] if line.startswith(b"!") else line
        super().__init__(include=body is line)
        self.line = line
        self.source = source
        """Where the line stands: a file's path, or the name of the option."""
        self.number = number
        self.only_folders = body.endswith(b"/")
        if self.only_folders:
            body = body[:-1]
        self.anchored = b"/" in body
        self.regex = _pathname_regex(body) if self.anchored else _basename_regex(body)

    @property
    def can_match(self) -> bool:
        return not self.regex.endswith(_NEVER)

    @cached_property
    def _compiled(self) -> Any:
        return re2.compile(self.regex, _options())

    def matches(self, path: bytes, is_folder: bool) -> bool:
        """Whether the path itself, not a folder above it, is meant."""
        return (is_folder or not self.only_folders) and self._compiled.fullmatch(path) is not None

    def match_file(self, file: str) -> bool | None:
        """The same for pathspec, which marks a folder by a trailing slash."""
        path = file.encode("utf-8", "surrogateescape")
        return self.matches(path.rstrip(b"/"), path.endswith(b"/")) or None

    def __str__(self) -> str:
        text = self.line.decode("utf-8", "backslashreplace")
        return f"{self.source}:{self.number} {text}" if self.number else f"{self.source} {text}"


def read_patterns(data: bytes, source: str) -> list[GitPattern]:
    """The patterns of a .gitignore file, comments and blank lines left out."""
    patterns = []
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or line.startswith(b"#"):
            continue
        text = _trimmed(line.removesuffix(b"\r").partition(b"\0")[0])
        if text:
            patterns.append(GitPattern(text, source, number))
    return patterns


def read_globs(globs: Iterable[str], source: str) -> list[GitPattern]:
    """The patterns of an option such as exclude_glob, each as one gitignore line."""
    lines = (glob.encode("utf-8", "surrogateescape") for glob in globs)
    return [GitPattern(_trimmed(line), source, 0) for line in lines if not line.startswith(b"#")]


def _trimmed(line: bytes) -> bytes:
    """Without the spaces at the end, unless a backslash holds them."""
    bare = line.rstrip(b" ")
    slashes = len(bare) - len(bare.rstrip(b"\\"))
    return line[: len(bare) + 1] if slashes % 2 and len(bare) < len(line) else bare


def _basename_regex(glob: bytes) -> bytes:
    """A pattern without a slash: it speaks about the last name of a path."""
    if not glob:
        return _NEVER
    return b"(?:.*/)?" + _wildcards(glob, stars_span_folders=False)


def _pathname_regex(glob: bytes) -> bytes:
    """A pattern with a slash: it speaks about the path from its folder on."""
    glob = glob.removeprefix(b"/")
    special = _SPECIAL.search(glob)
    literal = glob if special is None else glob[: special.start()]
    # git compares the literal beginning by itself and then matches the rest as if it stood alone:
    # in "foo**/bar" the rest is "**/bar", and "foobar" is meant too.
    rest = _wildcards(glob[len(literal) :], stars_span_folders=True)
    return _NEVER if not glob else re.escape(literal) + rest


@dataclass(slots=True)
class _Cursor:
    glob: bytes
    at: int = 0

    def take(self) -> int:
        """The next byte, 0 at the end (a pattern holds no NUL)."""
        self.at += 1
        return self.glob[self.at - 1] if self.at <= len(self.glob) else 0


def _wildcards(glob: bytes, *, stars_span_folders: bool) -> bytes:
    out = []
    cursor = _Cursor(glob)
    while cursor.at < len(glob):
        start = cursor.at
        byte = cursor.take()
        if byte == 0x2A:  # *
            while glob[cursor.at : cursor.at + 1] == b"*":
                cursor.at += 1
            out.append(_stars(cursor, start) if stars_span_folders else b"[^/]*")
        elif byte == 0x3F:  # ?
            out.append(b"[^/]")
        elif byte == 0x5B:  # [
            allowed = _bracket(cursor)
            if not allowed:
                return _NEVER
            out.append(_class_of(allowed))
        elif byte == 0x5C:  # a backslash takes the next byte as it is
            byte = cursor.take()
            if not byte:
                return _NEVER
            out.append(re.escape(bytes([byte])))
        else:
            out.append(re.escape(bytes([byte])))
    return b"".join(out)


def _stars(cursor: _Cursor, start: int) -> bytes:
    """Two or more stars that fill a whole folder name span folders; all others stay within one."""
    following = cursor.glob[cursor.at : cursor.at + 2]
    alone = start == 0 or cursor.glob[start - 1] == 0x2F
    if cursor.at - start < 2 or not alone:
        return b"[^/]*"
    if not following or following == b"\\/":
        return b".*"
    if following[0] == 0x2F:
        cursor.at += 1
        return b"(?:.*/)?"
    return b"[^/]*"


def _ascii(test: str) -> frozenset[int]:
    return frozenset(byte for byte in range(128) if re.fullmatch(test, chr(byte), re.ASCII | re.DOTALL))


_CLASSES = {
    b"alnum": _ascii("[0-9A-Za-z]"),
    b"alpha": _ascii("[A-Za-z]"),
    b"blank": _ascii("[ \t]"),
    b"cntrl": _ascii("[\x00-\x1f\x7f]"),
    b"digit": _ascii("[0-9]"),
    b"graph": _ascii("[\x21-\x7e]"),
    b"lower": _ascii("[a-z]"),
    b"print": _ascii("[\x20-\x7e]"),
    b"punct": _ascii("[\x21-\x2f:-@\\[-`{-~]"),
    b"space": _ascii("[ \t\n\r]"),
    b"upper": _ascii("[A-Z]"),
    b"xdigit": _ascii("[0-9A-Fa-f]"),
}


def _bracket(cursor: _Cursor) -> set[int]:
    """The bytes a [set] allows, the cursor behind it; none if the set is not closed or allows none."""
    allowed: set[int] = set()
    byte = cursor.take()
    negated = byte in b"!^"
    if negated:
        byte = cursor.take()
    before = 0
    while True:
        if not byte:
            return set()
        upcoming = cursor.glob[cursor.at : cursor.at + 1]
        if byte == 0x5C:
            byte = cursor.take()
            if not byte:
                return set()
            allowed.add(byte)
            before = byte
        elif byte == 0x2D and before and upcoming and upcoming != b"]":
            last = cursor.take()
            if last == 0x5C and not (last := cursor.take()):
                return set()
            allowed.update(range(before, last + 1))
            before = 0
        elif byte == 0x5B and upcoming == b":":
            before = _named_class(cursor, allowed)
            if before < 0:
                return set()
        else:
            allowed.add(byte)
            before = byte
        byte = cursor.take()
        if byte == 0x5D:  # ]
            break
    return ({*range(1, 256)} - allowed if negated else allowed) - {0x2F}


def _named_class(cursor: _Cursor, allowed: set[int]) -> int:
    """Add [:name:] to a set; the byte a range could start from (0: none), or -1 where git gives up."""
    start = cursor.at + 1
    end = cursor.glob.find(b"]", start)
    if end < 0:
        return -1
    if end == start or cursor.glob[end - 1] != 0x3A:
        allowed.add(0x5B)  # no ":]": the bracket stands for itself
        return 0x5B
    found = _CLASSES.get(cursor.glob[start : end - 1])
    if found is None:
        return -1
    allowed.update(found)
    cursor.at = end + 1
    return 0


def _class_of(allowed: set[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(allowed)) + b"]"
