"""Walk the tree below a root in bounded steps, and choose paths by glob.

Folders are entered through handles and links are not followed, so that a walk can
neither leave the root nor run in circles. It stops when nobody waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from toolkit._base.handles import DirStack
from toolkit._base.words import count_text
from toolkit.errors import ToolError, WorkspaceError
from toolkit.tools import ToolContext
from toolkit_servers.ready.files.root import Place, Root, as_path
from toolkit_workspace.selecting import GitPattern

_MOST_VISITED = 500_000
_MOST_ALTERNATIVES = 64
NOT_ENTERED = (".git",)
"""Folders that only hold a program's own records: named, but not entered unless asked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a folder, met on a walk."""

    path: str
    """Relative to where the walk began."""
    name: str
    is_folder: bool
    is_file: bool
    folder: int
    """The open folder it lies in; good until the walk goes on."""
    depth: int


class Patterns(Protocol):
    """What decides about a path: as in a .gitignore file, or as another program does."""

    def match(self, path: str, is_folder: bool) -> bool: ...


@dataclass(slots=True)
class Walk:
    """A walk over everything below a place, folder by folder, by name."""

    root: Root
    start: Place
    context: ToolContext
    exclude: Patterns
    depth: int | None = None
    """Folders deeper than this are named but not entered."""
    not_entered_names: Sequence[str] = NOT_ENTERED
    unreadable: list[str] = field(default_factory=list, init=False)
    """Folders that could not be opened."""
    not_entered: int = field(default=0, init=False)
    stopped: bool = field(default=False, init=False)
    """There is more than one walk may visit."""

    def __iter__(self) -> Iterator[Entry]:
        with self.root.folder(self.start) as handle:
            stack = DirStack(os.dup(handle))
        try:
            yield from self._visit(stack)
        except OSError as error:  # what was walked through is no longer there
            raise ToolError(f"{self.start} was changed while it was searched; try again") from error
        finally:
            stack.close()

    def _visit(self, stack: DirStack) -> Iterator[Entry]:
        levels = [("", iter(_entries(stack.top)))]
        visited = 0
        while levels:
            above, entries = levels[-1]
            entry = next(entries, None)
            if entry is None:
                levels.pop()
                if levels:
                    stack.pop()
                continue
            visited += 1
            if visited > _MOST_VISITED or self.context.cancelled:
                self.stopped = True
                return
            name, is_folder, is_file = entry
            path = f"{above}/{name}" if above else name
            if self.exclude.match(path, is_folder):
                continue
            yield Entry(path, name, is_folder, is_file, stack.top, len(levels))
            if is_folder:
                inside = self._enter(stack, path, name, len(levels))
                if inside is not None:
                    levels.append((path, iter(inside)))

    def _enter(self, stack: DirStack, path: str, name: str, depth: int) -> list[tuple[str, bool, bool]] | None:
        if name in self.not_entered_names or (self.depth is not None and depth >= self.depth):
            self.not_entered += 1
            return None
        try:
            handle = self.root.open_folder_entry(stack.top, name, Place(path))
        except ToolError:
            self.unreadable.append(path)
            return None
        st = os.fstat(handle)
        stack.push(handle, (st.st_dev, st.st_ino))
        return _entries(handle)

    def remarks(self) -> list[str]:
        """What a result over this walk leaves out."""
        said = [f"{count_text(len(self.unreadable), 'folder')} could not be read"] if self.unreadable else []
        return [*said, f"stopped after {_MOST_VISITED:,} entries; search a smaller part"] if self.stopped else said


def _entries(handle: int) -> list[tuple[str, bool, bool]]:
    with os.scandir(handle) as entries:
        kinds = [(e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False)) for e in entries]
    return sorted(kinds)


class Globs:
    """Patterns as in a .gitignore file, with {a,b} alternatives: a path matches if one of them does."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_compiled(line) for pattern in patterns for line in alternatives(pattern)]

    def match(self, path: str, is_folder: bool) -> bool:
        """Whether the path itself is meant, not a folder above it."""
        raw = os.fsencode(path)
        return any(pattern.matches(raw, is_folder) for pattern in self._patterns)


def _compiled(line: str) -> GitPattern:
    line = line.removeprefix("./")
    if line.startswith("!") or not line.strip("/ "):
        raise ToolError(f"{as_path(line)} is not a pattern; write one such as *.py, src/**/*.py or build/")
    try:
        pattern = GitPattern(os.fsencode(line), "pattern", 0)
    except WorkspaceError as error:
        raise ToolError(error.what) from error
    if not pattern.can_match:
        raise ToolError(f"the pattern {as_path(line)} can match nothing: a [ or \\ in it is not closed")
    return pattern


def alternatives(pattern: str) -> list[str]:
    """`*.{ts,tsx}` written out; the innermost braces first, so that nested ones work too."""
    todo, done = [pattern], list[str]()
    while todo:
        if len(todo) + len(done) > _MOST_ALTERNATIVES:
            raise ToolError(f"{as_path(pattern)} has too many {{alternatives}}; ask for fewer at a time")
        current = todo.pop(0)
        close = current.find("}")
        start = current.rfind("{", 0, close) if close >= 0 else -1
        if start < 0:
            done.append(current)
            continue
        todo += [current[:start] + each + current[close + 1 :] for each in current[start + 1 : close].split(",")]
    return done
