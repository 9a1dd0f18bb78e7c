"""Find lines by regular expression, in time that grows with the text only.

The expressions are RE2's: no look-around and no back references, and therefore none
that a hostile text could make run for ever. A match lies within one line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import re2  # type: ignore[import-untyped]

from toolkit._base.words import count_text
from toolkit.errors import ToolError
from toolkit_servers.ready.answers import with_remarks
from toolkit_servers.ready.files.root import Place, Root, as_path
from toolkit_servers.ready.files.walk import Globs, Walk
from toolkit_workspace.changes import is_binary

Show = Literal["lines", "files", "count"]

_LARGEST = 16 << 20
_LONGEST_LINE = 300


@dataclass(slots=True)
class Matches:
    """What a search found, and what it passed over."""

    show: Show
    room: int
    limit: int
    files: dict[str, int] = field(default_factory=dict)
    """Matching lines for each file."""
    lines: list[str] = field(default_factory=list)
    too_large: int = 0
    unreadable: int = 0
    remarks: list[str] = field(default_factory=list)
    is_full: bool = False

    def render(self) -> str:
        """The lines as `file:line:text`, or the files, and what is missing."""
        if self.show == "files":
            lines = list(self.files)
        elif self.show == "count":
            lines = [f"{path}: {count}" for path, count in self.files.items()]
        else:
            lines = self.lines
        remarks = list(self.remarks)
        if self.is_full:
            remarks.append("more was found than is shown: narrow the pattern or the path")
        if self.too_large:
            remarks.append(f"{count_text(self.too_large, 'file')} over {_LARGEST >> 20} MB not searched")
        if self.unreadable:
            remarks.append(f"{count_text(self.unreadable, 'file')} could not be read")
        return with_remarks(lines or ["No matches."], remarks)

    def add(self, path: str, lines: list[bytes], hits: list[int], around: int) -> None:
        """Take the matching lines of one file, by number from 0, as far as there is room."""
        self.files[path] = len(hits)
        if self.show != "lines":
            self.room -= len(path) + 10
            self.is_full = len(self.files) >= self.limit or self.room < 0
            return
        previous = -1
        for hit in hits:
            for number in range(max(previous + 1, hit - around), min(len(lines), hit + around + 1)):
                if around and previous >= 0 and number > previous + 1:
                    self.lines.append("--")
                text = f"{path}:{number + 1}{':' if number in hits else '-'}{_readable(lines[number])}"
                self.room -= len(text) + 1
                self.limit -= number in hits
                if self.room < 0 or self.limit < 0:
                    self.is_full = True
                    return
                self.lines.append(text)
                previous = number


def compile_expression(pattern: str, *, ignore_case: bool, literal: bool) -> Any:
    """The expression over bytes, working line by line.

    Raises:
        ToolError: it is not one RE2 knows.
    """
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.case_sensitive = not ignore_case
    source = re2.escape(pattern) if literal else f"(?m){pattern}"
    try:
        return re2.compile(source.encode(), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error.args[0]
        reason = reason.replace("(?m)", "", 1)  # not what the model wrote
        unknown = "operator" in reason or "escape" in reason
        hint = "; look-around and back references do not exist here" if unknown else ""
        raise ToolError(f"{as_path(pattern)} is not a regular expression: {reason}{hint}") from error


def search(walk: Walk, include: Globs | None, expression: Any, matches: Matches, around: int) -> Matches:
    """Search every text file a walk meets."""
    for path, handle in _files(walk, include, matches):
        search_file(path, handle, expression, matches, around)
        if matches.is_full:
            break
    matches.remarks += walk.remarks()
    return matches


def _files(walk: Walk, include: Globs | None, matches: Matches) -> Iterator[tuple[str, int]]:
    for entry in walk:
        if not entry.is_file or (include is not None and not include.match(entry.path, False)):
            continue
        place = walk.start.child(entry.path)
        try:
            yield str(place), walk.root.open_entry(entry.folder, entry.name, place)
        except ToolError:
            matches.unreadable += 1


def search_file(path: str, handle: int, expression: Any, matches: Matches, around: int) -> None:
    """Search one open file, which is closed afterwards."""
    with os.fdopen(handle, "rb") as file:
        if os.fstat(file.fileno()).st_size > _LARGEST:
            matches.too_large += 1
            return
        data = file.read(_LARGEST + 1)
    if is_binary(data):
        return
    data = data.replace(b"\r\n", b"\n")
    hits = list(_hits(expression, data, matches.limit + 1))
    if hits:
        matches.add(path, data.split(b"\n"), hits, around)


def _hits(expression: Any, data: bytes, most: int) -> Iterator[int]:
    """Numbers, from 0, of the lines with a match."""
    at, number, counted = 0, 0, 0
    for _ in range(most):
        match = expression.search(data, at) if at < len(data) else None
        if match is None:
            return
        number += data.count(b"\n", counted, match.start())
        counted = match.start()
        yield number
        end = data.find(b"\n", match.start())
        at = end + 1 if end >= 0 else len(data)


def _readable(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}… ({len(text):,} characters)"


def root_file(root: Root, place: Place) -> int | None:
    """The open file at a place; None where it is a folder to walk."""
    try:
        with root.folder(place):
            return None
    except ToolError:
        return root.open_file(place)
