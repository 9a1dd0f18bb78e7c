"""Where in a JSON text each value stands, for messages that name a line.

The text must already have been parsed by `json`: this only counts lines. It
also finds names that stand twice in one object, where readers keep the last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


@dataclass
class _Level:
    is_object: bool
    at: str | int | None = None
    names: set[str] = field(default_factory=set)


@dataclass
class JsonLines:
    """The line of every value (of its name, inside an object), and the names given twice."""

    lines: dict[Path, int] = field(default_factory=dict)
    repeated: list[tuple[Path, int]] = field(default_factory=list)

    def of(self, path: Path) -> int | None:
        """The line of a value, or of the nearest place around it."""
        for length in range(len(path), -1, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return None


def json_lines(text: str) -> JsonLines:
    """Find the lines of a valid JSON text."""
    found = JsonLines(lines={(): 1})
    levels: list[_Level] = []
    is_name_next = False
    for token, line in _tokens(text):
        level = levels[-1] if levels else None
        if token in "{[":
            levels.append(_Level(token == "{", None if token == "{" else 0))
            is_name_next = token == "{"
            if token == "[":
                found.lines[_path(levels)] = line
        elif token in "}]":
            levels.pop()
        elif token == "," and level is not None:
            is_name_next = level.is_object
            if not level.is_object:
                level.at = int(level.at or 0) + 1
        elif is_name_next and level is not None and token.startswith('"'):
            level.at = name = str(json.loads(token))
            if name in level.names:
                found.repeated.append((_path(levels), line))
            level.names.add(name)
            is_name_next = False
        if level is not None and token not in "}],:":
            found.lines.setdefault(_path(levels if token not in "{[" else levels[:-1]), line)
    return found


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        yield match[0], line


def _path(levels: list[_Level]) -> Path:
    return tuple(level.at for level in levels if level.at is not None)
