"""The rules every run's guard asks before a tool call: is it offered, is there time, is there budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from toolkit.runs.asking.guard import ALLOW, Rule, Verdict
from toolkit.tools import Budget, Deadline


def only_offered(patterns: Iterable[str]) -> Rule:
    """Refuse a tool that was not offered; names may end in `*`."""
    offered = tuple(patterns)

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        if any(fnmatchcase(tool, pattern) for pattern in offered):
            return ALLOW
        return Verdict(False, f"{tool} is not offered in this run")

    return rule


def before_deadline(deadline: Callable[[], Deadline | None]) -> Rule:
    """Past the deadline, refuse and stop."""

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        at = deadline()
        if at is None or at.remaining() > 0:
            return ALLOW
        return Verdict(False, "Deadline exceeded", stops="deadline")

    return rule


def within_budget(counted: Callable[[], Budget]) -> Rule:
    """With the tokens used up, refuse and stop."""

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        if counted().remaining() == 0:
            return Verdict(False, "Token budget exhausted", stops="budget")
        return ALLOW

    return rule
