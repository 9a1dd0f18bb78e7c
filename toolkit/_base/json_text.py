"""Find where each value stands in a JSON text, and set one without touching the rest.

`scan` serves messages that name a line and edits that keep every other character.
Comments and trailing commas are tolerated where the caller says the file may have
them. Anything else that is not JSON is refused with its line and column.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=[ \t\r\n]*[}\]])')


class NotAnObject(Exception):
    """The value at `path` is there, but is no object to put a member into."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(f"{'.'.join(path) or 'the file'} is not an object")
        self.path = path


class Place(NamedTuple):
    """Where a value stands, in characters from the start of the text."""

    name: int
    """Where its name begins, inside an object; otherwise the value itself."""
    start: int
    end: int


@dataclass(slots=True)
class Scan:
    """The places of all values of a text, and the names given twice."""

    text: str
    places: dict[Path, Place] = field(default_factory=dict)
    repeated: list[tuple[Path, int]] = field(default_factory=list)
    """Where a name stands again in its object (readers keep the last), with its line."""

    def line_of(self, path: Path) -> int:
        """The line of a value, or of the nearest place around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.line_at(self.places[path].name) if path else 1

    def line_at(self, offset: int) -> int:
        """The line a character stands in."""
        return self.text.count("\n", 0, offset) + 1

    def last_in(self, path: Path) -> Place | None:
        """The last value directly inside the one at `path`."""
        inside = [place for at, place in self.places.items() if len(at) == len(path) + 1 and at[:-1] == path]
        return max(inside, key=lambda place: place.end, default=None)


@dataclass(slots=True)
class _Level:
    is_object: bool
    start: int
    at: str | int = 0
    name: int = 0
    names: set[str] = field(default_factory=set)


def scan(text: str) -> Scan:
    """Find the values of a text that `json` has already read."""
    found = Scan(text)
    levels: list[_Level] = []
    wants_name = False
    for match in _TOKEN.finditer(text):
        token, start = match[0], match.start()
        if token in "{[":
            levels.append(_Level(token == "{", start))
            wants_name = token == "{"
        elif token in "}]":
            _keep(found, levels, levels.pop().start, match.end())
        elif token == ",":
            level = levels[-1]
            wants_name = level.is_object
            if not level.is_object:
                level.at = int(level.at) + 1
        elif token == ":":
            wants_name = False
        elif wants_name:
            level = levels[-1]
            level.at, level.name = str(json.loads(token)), start
            if level.at in level.names:
                found.repeated.append((_path(levels), found.line_at(start)))
            level.names.add(level.at)
        else:
            _keep(found, levels, start, match.end())
    return found


def read(text: str, *, comments: bool = False) -> Any:
    """The value of a JSON text; an empty one counts as an empty object.

    Raises:
        json.JSONDecodeError: it is not JSON.
    """
    plain = _plain(text) if comments else text
    return json.loads(plain) if plain.strip() else {}


def with_member(text: str, path: tuple[str, ...], value: Any, *, comments: bool = False) -> str:
    """The text with the member at `path` set to `value`; objects on the way are made where they are missing.

    Raises:
        json.JSONDecodeError: the text is not JSON.
        NotAnObject: something on the way is there and is not an object.
    """
    if not path:
        raise ValueError("an empty path names no member")
    if not isinstance(read(text, comments=comments), dict):
        raise NotAnObject(())
    text = text if text.strip() else "{}\n"
    known = scan(_plain(text) if comments else text)
    there = max(n for n in range(len(path) + 1) if path[:n] in known.places)
    if there == len(path):
        place = known.places[path]
        return text[: place.start] + _dump(value, text, there) + text[place.end :]
    if known.text[known.places[path[:there]].start] != "{":
        raise NotAnObject(path[:there])
    for missing in reversed(path[there + 1 :]):
        value = {missing: value}
    return _insert(text, known, path[: there + 1], value)


def _insert(text: str, known: Scan, path: tuple[str, ...], value: Any) -> str:
    depth = len(path)
    newline, unit = _newline(text), _unit(text)
    indent = newline + unit * depth
    body = f"{json.dumps(path[-1], ensure_ascii=False)}: {_dump(value, text, depth)}"
    if (last := known.last_in(path[:-1])) is not None:
        return f"{text[: last.end]},{indent}{body}{text[last.end :]}"
    around = known.places[path[:-1]]
    close = around.end - 1
    inside = text[around.start + 1 : close].rstrip()  # a comment in an otherwise empty object stays
    return f"{text[: around.start + 1]}{inside}{indent}{body}{newline}{unit * (depth - 1)}{text[close:]}"


def _keep(found: Scan, levels: list[_Level], start: int, end: int) -> None:
    name = levels[-1].name if levels and levels[-1].is_object else start
    found.places[_path(levels)] = Place(name, start, end)


def _path(levels: list[_Level]) -> Path:
    return tuple(level.at for level in levels)


def _plain(text: str) -> str:
    """The text with comments and trailing commas blanked out, every other character at its place."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\r\n]", " ", found)

    return _TRAILING_COMMA.sub(blank, _STRING_OR_COMMENT.sub(blank, text))


def _dump(value: Any, text: str, depth: int) -> str:
    """A value as JSON, laid out as `text` is."""
    unit, newline = _unit(text), _newline(text)
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + unit * depth)


def _unit(text: str) -> str:
    """One step of indentation as the file has it."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
