"""Keep what a walk left behind and why: true counts, and examples up to a bound."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Why = Literal[
    "excluded",
    "ignored",
    "not included",
    "link leads out",
    "link loop",
    "special file",
    "the workspace itself",
    "unreadable",
    "vanished",
    "changed meanwhile",
    "has other names",
]
"""Reasons; an entry that "changed meanwhile" or "has other names" was copied all the same."""

COPIED_ALL_THE_SAME: frozenset[Why] = frozenset({"changed meanwhile", "has other names"})
_MOST_EXAMPLES = 200


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One entry that did not come along, or came along with a remark."""

    path: str
    """Relative to the mount; a folder ends with a slash. Names that are not UTF-8 hold surrogates."""
    why: Why
    detail: str = ""
    """The rule, the link's target, the kind of special file, or the error."""


class Notes:
    """What was left out of one mount; the same whatever the order in which it was noted."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Why, str]] = Counter()
        self._examples: dict[tuple[Why, str], list[tuple[bytes, str]]] = {}

    def add(self, path: bytes, why: Why, rule: str = "", detail: str = "") -> None:
        """Note an entry; `rule` groups entries that the same rule left out."""
        self._counts[why, rule] += 1
        examples = self._examples.setdefault((why, rule), [])
        examples.append((path, rule or detail))
        if len(examples) > 2 * _MOST_EXAMPLES:
            examples.sort()
            del examples[_MOST_EXAMPLES:]

    @property
    def examples(self) -> tuple[LeftOut, ...]:
        """The entries by path, the first 200 for each rule."""
        kept = [
            (path, why, detail)
            for (why, _), examples in self._examples.items()
            for path, detail in sorted(examples)[:_MOST_EXAMPLES]
        ]
        return tuple(LeftOut(os.fsdecode(path), why, detail) for path, why, detail in sorted(kept))

    @property
    def counts(self) -> dict[tuple[Why, str], int]:
        """How many entries each reason and rule left out; an excluded folder counts once, unread."""
        return dict(sorted(self._counts.items()))
