"""Which tool a pattern means: every pattern of a policy names a tool of the run, or is refused.

A pattern that matches nothing is a rule that never holds: `{"wipe": "deny"}` would let
`mcp__notes__wipe` run. So each is looked up among the tools that the run has, before
anything starts. What a server of `servers=` offers is known only once it is connected:
a pattern has to name that server, and is looked up among its tools before the first
prompt is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolkit._base.words import did_you_mean
from toolkit.runs.kinds import OptionError
from toolkit.sandbox import NATIVE_TOOLS, OLD_NAMES

_NAMES = re.compile(r"[A-Za-z0-9_|, -]+")
"""A hook's matcher that is no regular expression: names of tools, as the CLI reads them."""
_NO_WORDS = re.compile(r"[*;&|<>`$\n(){}]")
"""Wildcards and what a shell reads as more than a word: commands are compared piece by piece, without them."""
_NO_PROGRAM = re.compile(r"""[?\[\],'"\\]""")
"""What the name of a program does not hold as it is compared."""
_OF_CALLS = re.compile(r"(?P<tool>[^()]*)\((?P<words>.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a run, before any of them is disabled."""

    native: tuple[str, ...]
    boxes: Mapping[str, tuple[str, ...]]
    """The tools of each toolbox, by the box's name."""
    servers: tuple[str, ...] = ()
    """Servers whose tools are known once they are connected."""

    def meant(self, option: str, pattern: str) -> str:
        """The pattern with the full name of the tool it means.

        Raises:
            OptionError: it means no tool of the run, or two.
        """
        if calls := _OF_CALLS.fullmatch(pattern):
            self._check_calls(option, pattern, calls["tool"], calls["words"])
            return pattern
        pattern = OLD_NAMES.get(pattern, pattern)
        possible = [*self._names(), *(f"mcp__{server}__tool" for server in self.servers)]
        if self.server_of(pattern) is not None or any(fnmatchcase(name, pattern) for name in possible):
            return pattern
        found = [f"mcp__{box}__{tool}" for box, tools in self.boxes.items() for tool in tools if tool == pattern]
        if len(found) == 1:
            return found[0]
        if found:
            what = f"{option}: two tools of this run are called '{pattern}'"
            raise OptionError(option, what, fix=f"Say which one: {' or '.join(found)}")
        raise self._unknown(option, pattern)

    def meant_whole(self, option: str, pattern: str) -> str:
        """The same for an option that is about all calls of a tool.

        Raises:
            OptionError: it means no tool of the run, two, or some calls only.
        """
        if _OF_CALLS.fullmatch(pattern):
            what = f"{option}: '{pattern}' is about some calls only, and {option} names tools"
            raise OptionError(option, what, fix=f"Write it as a policy: policy={{'{pattern}': 'allow'}}")
        return self.meant(option, pattern)

    def matching(self, pattern: str) -> list[str]:
        """The tools that a pattern with full names is about; of a server whose tools are not known, the pattern."""
        if calls := _OF_CALLS.fullmatch(pattern):
            return [calls["tool"]]
        return [name for name in self._names() if fnmatchcase(name, pattern)] or [pattern]

    def check_name(self, option: str, name: str, *, whole_boxes: bool = True) -> None:
        """Refuse the name of a tool that neither the run nor the CLI has; `mcp__BOX` means all `whole_boxes`.

        Raises:
            OptionError: there is no such tool.
        """
        tool = name.partition("(")[0]
        tool = OLD_NAMES.get(tool, tool)
        boxes = [f"mcp__{box}" for box in (*self.boxes, *self.servers)] if whole_boxes else []
        known = [*NATIVE_TOOLS, *self._names(), *boxes]
        if self.server_of(tool) is None and not any(fnmatchcase(one, tool) for one in known):
            raise self._unknown(option, tool)

    def check_regex(self, option: str, regex: str) -> None:
        """Refuse a regular expression that matches no tool's name; one that names a server is taken as it is.

        Raises:
            OptionError: it can match no call.
        """
        on_servers = any(f"mcp__{server}" in regex for server in self.servers)
        if not on_servers and not any(matches(regex, name) for name in (*NATIVE_TOOLS, *self._names())):
            raise self._unknown(option, regex)

    def server_of(self, pattern: str) -> str | None:
        """The server a pattern is about, where only that server knows its tools."""
        return next((name for name in self.servers if pattern.startswith(f"mcp__{name}__")), None)

    def check_connected(self, patterns: Iterable[tuple[str, str]], tools: Mapping[str, Iterable[str]]) -> None:
        """Look up the patterns about servers, each with its option, among the tools that these turned out to have.

        Raises:
            OptionError: one means no tool.
        """
        for option, pattern in patterns:
            server = self.server_of(pattern)
            names = [f"mcp__{server}__{tool}" for tool in tools.get(server, ())] if server is not None else []
            if server in tools and not any(fnmatchcase(name, pattern) for name in names):
                what = f"{option}: the server '{server}' has no tool '{pattern}'{did_you_mean(pattern, names)}"
                raise OptionError(option, what)

    def _names(self) -> list[str]:
        return [*self.native, *(f"mcp__{box}__{tool}" for box, tools in self.boxes.items() for tool in tools)]

    def _check_calls(self, option: str, pattern: str, tool: str, words: str) -> None:
        if tool != "Bash":
            what = f"{option}: '{pattern}' is no pattern: only Bash is told apart by its arguments"
            raise OptionError(option, what, fix=f"Write '{tool}' for every call of it")
        if tool not in self.native:
            raise self._unknown(option, tool)
        prefix = bash_prefix(words)
        odd = _NO_WORDS.search(prefix) or _NO_PROGRAM.search(prefix.split()[0]) if prefix else None
        if not prefix or odd:
            why = f", and {odd[0]!r} is no part of them" if odd else ""
            what = f"{option}: '{pattern}' matches no command: it is Bash(words a command begins with){why}"
            raise OptionError(option, what, fix="Write 'Bash' for every command, or for example 'Bash(git push)'")

    def _unknown(self, option: str, pattern: str) -> OptionError:
        if pattern in NATIVE_TOOLS:
            what = f"{option}: {pattern} is not offered in this run"
            return OptionError(option, what, fix=f"Leave it out, or offer it: native=[…, '{pattern}']")
        known = [*self._names(), *(tool for tools in self.boxes.values() for tool in tools)]
        known += [f"mcp__{name}__*" for name in (*self.boxes, *self.servers)]
        fix = "A tool of a server is written mcp__SERVER__TOOL" if self.servers else ""
        what = f"{option}: no tool of this run is called '{pattern}'{did_you_mean(pattern, known)}"
        return OptionError(option, what, fix=fix)


def names_in(matcher: str) -> list[str] | None:
    """The tools that a hook's matcher names, with bars or commas between; None where it is a regular expression."""
    if _NAMES.fullmatch(matcher) is None:
        return None
    return [OLD_NAMES.get(name, name) for part in re.split("[|,]", matcher) if (name := part.strip())]


def matches(matcher: str | None, tool: str) -> bool:
    """Whether a hook's matcher is about a tool, as the CLI reads it."""
    if not matcher or matcher == "*":
        return True
    if (names := names_in(matcher)) is not None:
        return tool in names
    return any(re.search(matcher, name) for name in (tool, *(old for old, new in OLD_NAMES.items() if new == tool)))


def covers(earlier: str, later: str) -> bool:
    """Whether a plain call that one pattern is about is always one of an earlier pattern, too, which decides then."""
    calls, inner = _OF_CALLS.fullmatch(earlier), _OF_CALLS.fullmatch(later)
    if calls is None:
        return fnmatchcase(later if inner is None else inner["tool"], earlier)
    return inner is not None and f"{bash_prefix(inner['words'])} ".startswith(f"{bash_prefix(calls['words'])} ")


def bash_prefix(words: str) -> str:
    """The words in `Bash(…)`, spelled as they are compared; `Bash(git push:*)` is the CLI's way to write one."""
    return " ".join(re.sub(r"(?:^|\s+|:)\*$", "", words.strip()).removesuffix(":").split())
