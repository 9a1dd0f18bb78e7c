"""Decide during a walk which paths belong to a mount, as git decides what it ignores.

A folder is decided before anything in it: what is excluded is never read, and
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
from typing import TYPE_CHECKING

from toolkit._base.handles import READ_FILE, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.selecting.tally import LeftBehind, Why

if TYPE_CHECKING:
    from toolkit_workspace.selecting.pattern import GitPattern

MOST_RULE_BYTES = 1_000_000
_MOST_BLOCK_BYTES = 64_000


class RuleList:
    """The patterns of one file or option, asked all at once."""

    def __init__(self, patterns: Sequence[GitPattern]) -> None:
        self.patterns = tuple(patterns)
        self._blocks = [_Block(self.patterns, start, end) for start, end in list(_block_bounds(self.patterns))]
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
        from toolkit_workspace.selecting.pattern import match_many

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


class Rules:
    """Which names in one folder of a mount come along: its patterns, and the .gitignore files if they count."""

    __slots__ = ("_chain", "_exclude", "_files", "_include", "_number", "decide", "is_wanted", "reads_files")

    def __init__(
        self,
        include: RuleList | None,
        exclude: RuleList | None,
        files: Scope | None,
        reads_files: bool,
        number: int = 0,
    ) -> None:
        self._include, self._exclude, self._files = include, exclude, files
        self._chain = Scope(exclude, b"", files) if exclude else files
        self._number = number
        """The include pattern, counted from 1, that decided this folder; 0 for none."""
        self.reads_files = reads_files
        """Whether a .gitignore file in it counts."""
        self.is_wanted = self._says_yes(number)
        """Whether the folder comes along even if nothing in it does."""
        self.decide = include is not None or self._chain is not None
        """Whether there is anything to decide."""

    def choose(self, folder: bytes, names: list[str], left: LeftBehind, *, are_folders: bool = False) -> list[str]:
        """The names in this folder that come along; the others are noted."""
        chosen = []
        prefix = folder + b"/" if folder else b""
        for name in names:
            path = prefix + os.fsencode(name)
            if self.leaves_out(path, are_folders, left):
                continue
            if are_folders or self._include is None or self._says_yes(self._include_number(path, False)):
                chosen.append(name)
            else:
                left.add(path, "not included", "include_glob")
        return chosen

    def leaves_out(self, path: bytes, is_folder: bool, left: LeftBehind) -> bool:
        """Whether a rule leaves this path out, which is then noted.

        git never asks its rules about `.git`: only exclude_glob can leave that behind.
        """
        chain = self._chain
        if path.endswith(b".git") and path.rpartition(b"/")[2] == b".git":
            chain = Scope(self._exclude) if self._exclude else None
        rule = chain.excluded_by(path, is_folder) if chain is not None else None
        if rule is None:
            return False
        why: Why = "excluded" if rule.source == "exclude_glob" else "ignored"
        left.add(path + b"/" if is_folder else path, why, str(rule))
        return True

    def with_file(self, folder: int, path: bytes) -> Rules:
        """The same with the .gitignore file of the open folder at `path`.

        Raises:
            OSError: it cannot be read.
        """
        patterns = read_rule_file(folder, b".gitignore", os.fsdecode(path + b"/.gitignore" if path else b".gitignore"))
        if not patterns:
            return self
        scope = Scope(RuleList(patterns), path, self._files)
        return Rules(self._include, self._exclude, scope, True, self._number)

    def inside(self, path: bytes) -> Rules:
        """The rules for what is in the subfolder at `path`; git's rules say nothing about what is in `.git`."""
        number = self._include_number(path, True)
        if path.rpartition(b"/")[2] == b".git":
            return Rules(self._include, self._exclude, None, False, number)
        if number == self._number:
            return self
        return Rules(self._include, self._exclude, self._files, self.reads_files, number)

    def _include_number(self, path: bytes, is_folder: bool) -> int:
        """The number of the include pattern that decides a path in this folder."""
        return max(self._number, self._include.last_match(path, is_folder)) if self._include else 0

    def _says_yes(self, number: int) -> bool:
        return self._include is None or bool(number and self._include.patterns[number - 1].include)


def rules_at(
    folder: int, include: Sequence[str] = (), exclude: Sequence[str] = (), *, gitignore: bool = False
) -> Rules:
    """The rules in force at the top of a mount, its open folder; with `gitignore` its rule files count."""
    files = None
    if gitignore:
        patterns = rules_in(folder, b".git/info/exclude")
        files = Scope(RuleList(patterns)) if patterns else None
    return Rules(_rules_of(include, "include_glob"), _rules_of(exclude, "exclude_glob"), files, gitignore)


def _rules_of(globs: Sequence[str], option: str) -> RuleList | None:
    """The rules of an option; None where it was not given."""
    if not globs:
        return None
    from toolkit_workspace.selecting.pattern import read_globs

    return RuleList(read_globs(globs, option))


def rules_in(folder: int, name: bytes) -> list[GitPattern]:
    """The patterns of a rule file below an open folder; none where there is no such file.

    Raises:
        WorkspaceError: it is there and cannot be read.
    """
    try:
        return read_rule_file(folder, name, os.fsdecode(name))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EINVAL, errno.ENXIO):
            return []
        raise WorkspaceError(
            f"{os.fsdecode(name)!r} cannot be read: {error.strerror}",
            fix="Without its rules nobody can say what is left out: make it readable, or leave gitignore=True away.",
        ) from error


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
    from toolkit_workspace.selecting.pattern import read_patterns

    return read_patterns(data, source)
