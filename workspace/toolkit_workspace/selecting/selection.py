"""Decide during a walk which paths belong to a mount, as git decides what it ignores.

A folder is settled before anything in it: what is excluded is never read, and
nothing below it can be taken back. Of several rules in one list the last that
matches decides; of several lists the nearest: exclude_glob, then the .gitignore
files from the path's own folder upwards, then .git/info/exclude.

include_glob works the other way round: the last pattern that matches a path or a
folder above it says whether the path comes along.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence

from toolkit._base.handles import READ_FILE, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.selecting.pattern import GitPattern, match_many, read_globs, read_lines

MOST_RULE_BYTES = 1_000_000
_MOST_BLOCK_BYTES = 64_000


class RuleList:
    """The patterns of one file or option, asked all at once."""

    def __init__(self, patterns: Sequence[GitPattern]) -> None:
        self.patterns = tuple(patterns)
        self._blocks = [_Block(self.patterns, start, end) for start, end in _block_bounds(self.patterns)]
        self._blocks.reverse()

    def last_match(self, path: bytes, is_folder: bool) -> int:
        """The number, counted from 1, of the last pattern that means this path; 0 for none."""
        for block in self._blocks:
            number = block.last_match(path, is_folder)
            if number:
                return number
        return 0


class _Block:
    """As many patterns as fit into one automaton."""

    __slots__ = ("_end", "_matching", "_patterns", "_start")

    def __init__(self, patterns: Sequence[GitPattern], start: int, end: int) -> None:
        self._patterns, self._start, self._end = patterns, start, end
        # Entry 0 matches every path. When it is missing from an answer the automaton ran out of memory
        # and its answer says nothing: the patterns are then asked one by one.
        self._matching = match_many([b".*", *(pattern.regex for pattern in patterns[start:end])])

    def last_match(self, path: bytes, is_folder: bool) -> int:
        found = self._matching(path)
        if len(found) == 1:
            return 0
        patterns, start = self._patterns, self._start
        if not found:
            numbers = range(self._end, start, -1)
            return next((n for n in numbers if patterns[n - 1].matches(path, is_folder)), 0)
        if is_folder:
            return start + max(found)
        return max((start + n for n in found if n and not patterns[start + n - 1].only_folders), default=0)


def _block_bounds(patterns: Sequence[GitPattern]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for end, pattern in enumerate(patterns):
        size += len(pattern.regex) + 8
        if size > _MOST_BLOCK_BYTES and end > start:
            yield start, end
            start, size = end, 0
    if start < len(patterns):
        yield start, len(patterns)


class Scope:
    """The rule lists in force in one folder, nearest first."""

    __slots__ = ("_base", "_outer", "_rules")

    def __init__(self, rules: RuleList, base: bytes = b"", outer: Scope | None = None) -> None:
        self._rules = rules
        self._base = len(base) + 1 if base else 0
        self._outer = outer

    def excluded_by(self, path: bytes, is_folder: bool) -> GitPattern | None:
        """The rule that leaves this path out; None if it may stay."""
        scope: Scope | None = self
        while scope is not None:
            number = scope._rules.last_match(path[scope._base :] if scope._base else path, is_folder)
            if number:
                pattern = scope._rules.patterns[number - 1]
                return pattern if pattern.include else None
            scope = scope._outer
        return None


class Selection:
    """What one mount takes along: its include and exclude patterns, and whether .gitignore files count."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = (), *, gitignore: bool = False) -> None:
        self._include = RuleList(read_globs(include, "include_glob")) if include else None
        self._exclude = RuleList(read_globs(exclude, "exclude_glob")) if exclude else None
        self.gitignore = gitignore

    @property
    def takes_all(self) -> bool:
        return self._include is None

    def included(self, path: bytes, is_folder: bool, above: int) -> int:
        """The number of the include pattern that decides a path, given the one that decided the folder above it."""
        return max(above, self._include.last_match(path, is_folder)) if self._include else 0

    def says_yes(self, number: int) -> bool:
        """Whether the include pattern with this number takes a path along."""
        return self._include is None or bool(number and self._include.patterns[number - 1].include)

    def root_scope(self, folder: int) -> FolderRules:
        """The rules in force at the top of a mount, read from its open folder."""
        files = self._info_exclude(folder) if self.gitignore else None
        return FolderRules(self._exclude, files, reads_files=self.gitignore)

    def _info_exclude(self, folder: int) -> Scope | None:
        try:
            patterns = read_rule_file(folder, b".git/info/exclude", ".git/info/exclude")
        except OSError:
            return None
        return Scope(RuleList(patterns)) if patterns else None


class FolderRules:
    """The exclude rules of one folder: exclude_glob first, then the chain of .gitignore files."""

    __slots__ = ("_exclude", "_files", "chain", "reads_files")

    def __init__(self, exclude: RuleList | None, files: Scope | None, *, reads_files: bool) -> None:
        self._exclude = exclude
        self._files = files
        self.chain = Scope(exclude, b"", files) if exclude else files
        self.reads_files = reads_files
        """Whether a .gitignore file further down counts."""

    def excluded_by(self, path: bytes, is_folder: bool) -> GitPattern | None:
        """The rule that leaves this path out; None if it may stay.

        git never asks its rules about `.git`: only exclude_glob can leave that behind.
        """
        if path.endswith(b".git") and path.rpartition(b"/")[2] == b".git":
            inside = self.inside(".git").chain
            return inside.excluded_by(path, is_folder) if inside is not None else None
        return self.chain.excluded_by(path, is_folder) if self.chain is not None else None

    def with_rules(self, patterns: list[GitPattern], base: bytes) -> FolderRules:
        """The scope of a folder that has a .gitignore of its own."""
        return FolderRules(self._exclude, Scope(RuleList(patterns), base, self._files), reads_files=True)

    def inside(self, name: str) -> FolderRules:
        """The rules for what is in a folder; git's rules say nothing about what is in `.git`."""
        return FolderRules(self._exclude, None, reads_files=False) if name == ".git" else self


def read_rule_file(folder: int, name: bytes, source: str) -> list[GitPattern]:
    """The patterns of a rule file below an open folder; never through a link, never from a FIFO.

    Raises:
        OSError: there is no such regular file, or it cannot be read.
        WorkspaceError: it is too large to be rules; half of them would not be safe.
    """
    handle = open_beneath(folder, name, READ_FILE)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", source)
        data = b""
        while chunk := os.read(handle, MOST_RULE_BYTES + 1 - len(data)):
            data += chunk
    finally:
        os.close(handle)
    if len(data) > MOST_RULE_BYTES:
        raise WorkspaceError(
            f"{source!r} is larger than {MOST_RULE_BYTES:,} bytes: not read as ignore rules",
            fix="Leave gitignore=True away and write the patterns as exclude_glob.",
        )
    return read_lines(data, source)
