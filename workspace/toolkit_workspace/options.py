"""What an option of a mount or of a section may be: one rule for each, and none without one.

A rule gets an option's name and what the caller wrote, and gives what is kept, or raises a
`WorkspaceError` that says what the option is and how to write it. No rule opens anything.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from toolkit._base.words import did_you_mean, safe_line
from toolkit.errors import WorkspaceError

Backend = Literal["auto", "copy", "overlay"]
"""The ways in which a workspace can get its files."""
Rule = Callable[[str, Any], Any]
"""From an option's name and what was written to what is kept."""
_WIDTH = 60


def checked(rules: Mapping[str, Rule], written: Mapping[str, Any]) -> dict[str, Any]:
    """Every option as its rule keeps it; `written` are the locals of a constructor, so that it leaves none out.

    Raises:
        WorkspaceError: one is not what it may be.
        KeyError: one has no rule.
    """
    try:
        return {name: rules[name](name, value) for name, value in written.items() if name != "self"}
    except WorkspaceError as error:
        raise error.as_mistyped() from None


def wrong(name: str, value: object, what: str, fix: str = "") -> WorkspaceError:
    """The error for one option: what was written, what it is, what to do."""
    error = WorkspaceError(f"{name}={safe_line(repr(value), _WIDTH)}: {what}", fix=fix)
    return error.as_mistyped()


def optional(rule: Rule) -> Rule:
    """The same, or None."""
    return lambda name, value: None if value is None else rule(name, value)


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that Python takes for one of them: "no" would be True."""
    if not isinstance(value, bool):
        raise wrong(name, value, "it is True or False")
    return value


def size(name: str, value: Any) -> int:
    """A number of bytes."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        fix = "Write for example 50_000_000, or None for no limit"
        raise wrong(name, value, "it is a whole number of bytes, 0 or more", fix)
    return value


def path(name: str, value: Any) -> Path:
    """A path of the host. An empty text is none: to Python it is the current folder."""
    text = path_text(name, value, "a path")
    if not text:
        raise wrong(name, value, "the path is empty", "Write '.' for the current folder")
    if "\0" in text:
        raise wrong(name, value, "a path holds no NUL")
    return Path(text)


def path_text(name: str, value: Any, what: str) -> str:
    """A text or a Path, as a text; it may be empty."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise wrong(name, value, f"it is {what}, as a text or a Path")
    check_name(name, text)
    return text


def check_name(name: str, text: str) -> None:
    """Refuse a text that no file name can hold."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise wrong(name, text, "no file name can hold these characters") from None


def one_of(known: Iterable[str], what: str) -> Rule:
    """One of these words."""
    words = tuple(known)

    def rule(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise wrong(name, value, f"there is no such {what}{did_you_mean(str(value), words)}")
        return value

    return rule


def several(rule: Rule, what: str, example: str, *, alone: tuple[type, ...]) -> Rule:
    """Any number of what keeps to `rule`; one of a type in `alone` may stand without a list around it."""

    def of_all(name: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, alone):
            return (rule(name, value),)
        is_one = isinstance(value, str | bytes | bytearray | memoryview | os.PathLike | Mapping)
        if is_one or not isinstance(value, Iterable):
            fix = f"Write for example: {name}={example}"
            raise wrong(name, value, f"it is a list of {what}", "Write [] for none" if value is None else fix)
        return tuple(rule(f"{name}[{place}]", entry) for place, entry in enumerate(value))

    return of_all


def called_with(argument: str, example: str) -> Rule:
    """A function of one argument."""

    def rule(name: str, value: Any) -> Any:
        if not callable(value) or not _takes_one(value):
            raise wrong(name, value, f"it is a function that takes {argument}", f"Write for example: {example}")
        return value

    return rule


def _takes_one(function: Any) -> bool:
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    except ValueError:  # it has no signature to look at
        return True
    return True
