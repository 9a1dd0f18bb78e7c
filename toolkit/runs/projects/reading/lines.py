"""The line of every key in a TOML text, which the parser does not tell.

The text has to be TOML already (`tomllib` has read it): what is here only finds its way
through strings, comments, brackets and headers, and never decides what is allowed.
"""

from __future__ import annotations

import bisect
import re
import tomllib

KeyPath = tuple[str | int, ...]
"""The names and numbers that lead to a value."""
_BLANK = re.compile(r"[ \t]*")
_BLANK_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\r\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, counted from 1, at which each key, entry of a list and table begins."""
    return _Scan(text).found


class _Scan:
    def __init__(self, text: str) -> None:
        self.found: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._ends = [place.start() for place in re.finditer("\n", text)]
        self._counts: dict[KeyPath, int] = {}
        """How many tables each list of tables has."""
        here: KeyPath = ()
        self._skip(_BLANK_LINES)
        while self._at < len(text):
            begins = self._at
            here = self._statement(here)
            self._skip(_BLANK_LINES)
            if self._at == begins:  # it is not as was taken for granted: the rest stays without lines
                break

    def _statement(self, table: KeyPath) -> KeyPath:
        """A header or a key with its value; gives the table that what follows belongs to."""
        begins = self._at
        if not self._takes("["):
            self._pair(table)
            return table
        is_list = self._takes("[")
        parts = self._key()
        self._at += 2 if is_list else 1
        *above, last = parts
        whole = (*self._latest((), above), last)
        if is_list:
            self._counts[whole] = self._counts.get(whole, -1) + 1
        whole = self._latest((), parts)
        self._note(whole, begins)
        return whole

    def _pair(self, table: KeyPath) -> None:
        begins = self._at
        whole = self._latest(table, self._key())
        self._note(whole, begins)
        self._takes("=")
        self._value(whole)

    def _value(self, path: KeyPath) -> None:
        self._skip(_BLANK)
        if string := _STRING.match(self._text, self._at):
            self._at = string.end()
        elif self._takes("["):
            self._entries(path)
        elif self._takes("{"):
            self._skip(_BLANK_LINES)
            while not self._takes("}") and self._at < len(self._text):
                self._pair(path)
                self._skip(_BLANK_LINES)
                self._takes(",")
                self._skip(_BLANK_LINES)
        else:
            self._skip(_BARE_VALUE)

    def _entries(self, path: KeyPath) -> None:
        number = 0
        self._skip(_BLANK_LINES)
        while not self._takes("]") and self._at < len(self._text):
            self._note((*path, number), self._at)
            self._value((*path, number))
            number += 1
            self._skip(_BLANK_LINES)
            self._takes(",")
            self._skip(_BLANK_LINES)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_BLANK)
            if string := _STRING.match(self._text, self._at):
                parts.append(str(tomllib.loads(f"x = {string[0]}")["x"]))
                self._at = string.end()
            else:
                begins = self._at
                self._skip(_BARE_KEY)
                parts.append(self._text[begins : self._at])
            self._skip(_BLANK)
            if not self._takes("."):
                return parts

    def _latest(self, table: KeyPath, parts: list[str]) -> KeyPath:
        """The whole path; a list of tables means its latest one."""
        for part in parts:
            table = (*table, part)
            table = (*table, self._counts[table]) if table in self._counts else table
        return table

    def _note(self, path: KeyPath, at: int) -> None:
        line = bisect.bisect_left(self._ends, at) + 1
        for end in range(1, len(path) + 1):
            self.found.setdefault(path[:end], line)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if found := pattern.match(self._text, self._at):
            self._at = found.end()

    def _takes(self, mark: str) -> bool:
        if self._text.startswith(mark, self._at):
            self._at += len(mark)
            return True
        return False
