"""Set one member of a JSON object in a text, leaving every other character as it is.

Comments and trailing commas are tolerated where the caller says the file may have
them. Anything else that is not JSON is refused with its line and column.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=[ \t\r\n]*[}\]])')


class NotAnObject(Exception):
    """The value at `path` is there, but is no object to put a member into."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(f"{'.'.join(path) or 'the file'} is not an object")
        self.path = path


class _Member(NamedTuple):
    key: str
    start: int
    """Where its value begins."""
    end: int
    """Just after its value."""


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
    if not isinstance(read(text, comments=comments), dict):
        raise NotAnObject(())
    text = text if text.strip() else "{}\n"
    plain = _plain(text) if comments else text
    start = _skip(plain, 0)
    for depth, key in enumerate(path):
        members = _members(plain, start)
        found = next((member for member in reversed(members) if member.key == key), None)
        rest = path[depth + 1 :]
        if found is None:
            for missing in reversed(rest):
                value = {missing: value}
            return _insert(text, plain, start, members, key, value, depth + 1)
        if not rest:
            return text[: found.start] + _dump(value, _unit(text), depth + 1, _newline(text)) + text[found.end :]
        if plain[found.start] != "{":
            raise NotAnObject(path[: depth + 1])
        start = found.start
    raise ValueError("an empty path names no member")


def _insert(text: str, plain: str, start: int, members: list[_Member], key: str, value: Any, depth: int) -> str:
    newline, unit = _newline(text), _unit(text)
    indent = newline + unit * depth
    body = f"{json.dumps(key, ensure_ascii=False)}: {_dump(value, unit, depth, newline)}"
    if members:
        at = members[-1].end
        return f"{text[:at]},{indent}{body}{text[at:]}"
    close = plain.index("}", start)
    inside = text[start + 1 : close].rstrip()  # a comment in an otherwise empty object stays
    return f"{text[: start + 1]}{inside}{indent}{body}{newline}{unit * (depth - 1)}{text[close:]}"


def _members(plain: str, start: int) -> list[_Member]:
    """The members of the object that opens at `start`; the text is known to be JSON."""
    members: list[_Member] = []
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, at = _DECODER.raw_decode(plain, at)
        value_start = _skip(plain, _skip(plain, at) + 1)
        _, value_end = _DECODER.raw_decode(plain, value_start)
        members.append(_Member(key, value_start, value_end))
        at = _skip(plain, value_end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return members


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _plain(text: str) -> str:
    """The text with comments and trailing commas blanked out, every other character at its place."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\r\n]", " ", found)

    return _TRAILING_COMMA.sub(blank, _STRING_OR_COMMENT.sub(blank, text))


def _dump(value: Any, unit: str, depth: int, newline: str) -> str:
    dumped = json.dumps(value, indent=unit, ensure_ascii=False)
    return dumped.replace("\n", newline + unit * depth)


def _unit(text: str) -> str:
    """One step of indentation as the file has it."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
