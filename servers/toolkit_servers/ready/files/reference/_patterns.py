"""Patterns as the reference server reads them: `*.py` means this folder, `**/*.py` any, and `?` one letter.

A pattern becomes an RE2 expression, which no name can make run for ever. Negated, extended and range patterns
(`!a`, `+(a|b)`, `{1..3}`) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import re2  # type: ignore[import-untyped]

from toolkit.errors import ToolError
from toolkit_servers.ready.files.root import as_path
from toolkit_servers.ready.files.walk import alternatives

_UNKNOWN = re.compile(r"^!|[?*+@!]\(|\{[^{},]*\}")
_NAMED = {
    "alpha": r"\p{L}\p{Nl}",
    "alnum": r"\p{L}\p{Nl}\p{Nd}",
    "digit": r"\p{Nd}",
    "lower": r"\p{Ll}",
    "upper": r"\p{Lu}",
    "punct": r"\p{P}",
}
"""Classes of letters that are those of all languages; the others are ASCII's."""
_LETTER = r"(?:\[:[a-z]+:\]|\\.|[^\]\\])"
_CLASS = re.compile(rf"\[([!^]?)(\]{_LETTER}*|{_LETTER}+)\]")


class FolderPatterns:
    """Patterns relative to the folder that is searched; a path matches if one of them does."""

    def __init__(self, patterns: Sequence[str], *, names_anywhere: bool = False) -> None:
        """With `names_anywhere`, a pattern without a star also means that name at any depth."""
        self._expressions = list[Any]()
        for pattern in patterns:
            if _UNKNOWN.search(pattern):
                raise ToolError(f"{as_path(pattern)} is no pattern here: !a, +(a|b) and {{1..3}} do not exist")
            if pattern.startswith("#"):
                continue  # a comment
            for plain in alternatives(pattern):
                self._expressions.append(_compiled(plain))
                if names_anywhere and "*" not in pattern:
                    self._expressions += [_compiled(f"**/{plain}"), _compiled(f"**/{plain}/**")]

    def match(self, path: str, is_folder: bool) -> bool:
        """Whether the path itself is meant."""
        name = path.encode("utf-8", "replace").decode()
        return any(expression.fullmatch(name) for expression in self._expressions)


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    parts = re.split("/+", pattern)
    source = ""
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        if part == "**":
            source += ".+" if is_last else "(?:[^/]+/)*"
        else:
            source += _segment(part) + ("" if is_last else "/")
    try:
        return re2.compile(source, options)
    except re2.error as error:
        raise ToolError(f"{as_path(pattern)} is not a pattern; write one such as *.py or src/**/*.py") from error


def _segment(part: str) -> str:
    """One name of a pattern; it has no slash."""
    if part and not part.strip("*"):
        return "[^/]+"
    out, at = "", 0
    while at < len(part):
        char = part[at]
        found = _CLASS.match(part, at) if char == "[" else None
        if found:
            out += _letters(*found.groups())
            at = found.end()
            continue
        if char == "\\" and at + 1 < len(part):
            at += 1
            out += re2.escape(part[at])
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(char) or re2.escape(char)
        at += 1
    return out


def _letters(negation: str, inside: str) -> str:
    """A class of letters; a backslash means the same to RE2."""
    inside = re.sub(r"\[:([a-z]+):\]", lambda found: _NAMED.get(found[1], found[0]), inside)
    inside = f"\\{inside}" if inside.startswith(("^", "]")) else inside
    return f"[^/{inside}]" if negation else f"[{inside}]"
