"""What an option of a run can be made of: texts, numbers, lists and mappings of these, functions, objects.

Each is a rule: it gets an option's name and what the caller wrote, and gives what the
spec keeps, or raises an `OptionError` that says what the option is and how to write it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from toolkit._base.words import did_you_mean, safe_line
from toolkit.errors import RunError

Rule = Callable[[str, Any], Any]
"""From an option's name and what was written to what is kept."""
_WIDTH = 60
MOST = 2**63 - 1
"""What clocks and counters take; a larger number is no limit of anything."""


_MOST_ARGUMENT = 131_000
"""Bytes that Linux gives a program as one argument, or one variable with its name: a few more than these."""


class OptionError(RunError):
    """An option of a run that cannot be as it was written; nothing was started."""

    exit_code = 2

    def __init__(self, option: str, what: str, *, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.option = option


def wrong(name: str, value: object, what: str, fix: str = "") -> OptionError:
    """The error for one option: what was written, what it is, what to do."""
    return OptionError(name, f"{name}={shown(value)}: {what}", fix=fix)


def shown(value: object) -> str:
    """A value as it may stand in an error, on one line, whatever its own `repr` does."""
    try:
        return safe_line(repr(value), _WIDTH)
    except Exception:
        return f"{type(value).__name__}(…)"


def check_names(
    whose: str, given: Iterable[object], known: Iterable[str], meant: Mapping[str, str] | None = None
) -> None:
    """Answer an argument's name that does not exist in words, before Python says that it is no argument.

    Raises:
        OptionError: the first such name, and what was probably meant; `meant` has the names that others give it.
    """
    words = tuple(known)
    for name in given:
        if name not in words:
            there = f"; write {meant[str(name)]}" if meant and name in meant else did_you_mean(str(name), words)
            raise OptionError(str(name), f"{whose} has no '{name}'{there}")


def optional(rule: Rule) -> Rule:
    """The same, or None."""
    return lambda name, value: None if value is None else rule(name, value)


def text(what: str, fix: str = "") -> Rule:
    """A text that is not empty."""

    def rule(name: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise wrong(name, value, f"it is {what}, as a text", fix)
        _check_characters(name, value, "strict")
        return value

    return rule


def _check_characters(name: str, value: str, errors: str) -> None:
    """Refuse what no program can be given: a NUL, or half of a character; in a path a byte that is no UTF-8 may be."""
    if "\0" in value:
        raise wrong(name, value, "it holds a NUL, which no program takes", "Leave the NUL out")
    try:
        value.encode("utf-8", errors)
    except UnicodeEncodeError:
        what = "it holds a lone surrogate, which is half of a character"
        raise wrong(name, value, what, "Write the whole character, or leave it out") from None


def passed_on(rule: Rule) -> Rule:
    """The same, for a text that a program is given as one argument or variable: the kernel takes no longer one."""

    def of_length(name: str, value: Any) -> Any:
        kept = rule(name, value)
        if len(str(kept).encode(errors="surrogateescape")) > _MOST_ARGUMENT:
            what = f"it is longer than the {_MOST_ARGUMENT} bytes that a program can be given at once"
            raise wrong(name, value, what, "Put it into a file that the agent can read, and name that")
        return kept

    return of_length


def argument(what: str, fix: str = "") -> Rule:
    """A text that the CLI is given as an argument: it would take one with a dash in front for an option of its own."""
    is_text = passed_on(text(what, fix))

    def rule(name: str, value: Any) -> str:
        if is_text(name, value).lstrip().startswith("-"):
            raise wrong(name, value, f"it is {what}, which does not begin with a dash", fix)
        return str(value)

    return rule


def path(name: str, value: Any) -> Path | str:
    """A path, as a text or a Path."""
    if not isinstance(value, str | Path) or not str(value):
        raise wrong(name, value, "it is a path, as a text or a Path")
    _check_characters(name, str(value), "surrogateescape")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong(name, value, "it is True or False")
    return value


def number(name: str, value: Any) -> float:
    """A number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise wrong(name, value, "it is a number above zero")
    if value > MOST:
        raise wrong(name, value, f"it is a number up to {MOST}")
    return value


def one_of(known: Iterable[str], what: str) -> Rule:
    """One of these words."""
    words = tuple(known)

    def rule(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise wrong(name, value, f"there is no such {what}{did_you_mean(str(value), words)}")
        return value

    return rule


def list_of(rule: Rule) -> Rule:
    """A list or tuple whose every entry keeps to `rule`; a single text is a common mistake, and refused."""

    def of_all(name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) and not _is_listed(value):
            fix = "" if isinstance(value, Mapping) else f"Write {name}=[{as_written(value)}]"
            fix = "Leave it out, or write an empty list" if value is None else fix
            raise wrong(name, value, "it is a list", fix)
        return tuple(rule(f"{name}[{place}]", entry) for place, entry in enumerate(value))

    return of_all


def _is_listed(value: Any) -> bool:
    """Whether it holds several, one after the other; a box of tools does, but is meant as one."""
    from toolkit.tools import Toolbox

    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Path | Mapping | Toolbox)


def mapping_of(rule: Rule, what: str, fix: str = "") -> Rule:
    """A mapping from names to what keeps to `rule`."""

    def of_all(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong(name, value, f"it is {what}", fix)
        for key in value:
            if not isinstance(key, str) or not key:
                raise wrong(name, value, f"{key!r} is no name", fix)
        return {key: rule(f"{name}[{key!r}]", entry) for key, entry in value.items()}

    return of_all


def called_with(argument: str, example: str) -> Rule:
    """A function of one argument."""

    def rule(name: str, value: Any) -> Any:
        if not callable(value):
            raise wrong(name, value, f"it is a function that takes {argument}", f"Write for example: {example}")
        if not _takes_one(value):
            raise wrong(name, value, f"it has to take one argument, {argument}", f"Write for example: {example}")
        return value

    return rule


def with_methods(what: str, *methods: str) -> Rule:
    """An object with these methods."""

    def rule(name: str, value: Any) -> Any:
        missing = [method for method in methods if not callable(getattr(value, method, None))]
        if missing or isinstance(value, type):
            lacks = "an object, not a class" if not missing else f"without {', '.join(missing)}() it is none"
            raise wrong(name, value, f"it is {what}; {lacks}")
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


def as_written(value: Any) -> str:
    """A value as it stands in the caller's code, as far as one can tell."""
    from toolkit.tools import Toolbox, as_tool

    if isinstance(value, Toolbox):
        return "box"
    found = as_tool(value)
    if found is None and callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return found.name if found is not None else shown(value)
