"""Who may run what: policies for each tool, and the mode that decides the rest.

Asked in this order: the allow list (elsewhere, and first), tools marked safe, the
policy, the mode. Anything unknown, and any failure, is a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from toolkit._base.words import did_you_mean
from toolkit.errors import RunError
from toolkit.runs.asking.modes import MODES, OWN_MODES
from toolkit.runs.asking.patterns import Offer, bash_prefix, covers
from toolkit.runs.kinds import OptionError
from toolkit.sandbox import READ_ONLY_TOOLS

Choice = Literal["allow", "ask", "deny", "defer"]
POLICIES = (*get_args(Choice), "disable")
_STRICTNESS = {"allow": 0, "ask": 1, "defer": 1, "deny": 2, "disable": 2}

_BASH = re.compile(r"Bash\((?P<prefix>.+)\)", re.DOTALL)
_OPERATORS = re.compile(r"[;&|<>`$\n(){}]")
_BLANKS = re.compile(r"[ \t]+")
_LEADING = re.compile(
    r"""\s*(?:[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|[^\s"'])*|!|if|elif|then|else|while|until|do|time|exec|command|env|nohup|sudo)\s+"""
)
"""A keyword, a variable or a program that comes before the command that is meant."""
_MOST_LEADING = 8
"""How many of them are looked at one by one: `Bash(sudo)` can be a rule as well."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy and the mode say about a call."""

    choice: Choice
    reason: str


@dataclass(frozen=True, slots=True)
class Policy:
    """Patterns with their policy, the mode, and which tools are safe or read-only.

    The first pattern that matches decides. A pattern is a tool's name with `*`
    wildcards, or `Bash(prefix)` for commands that begin with these words; a
    prefix never allows a compound command, and forbids one that contains it.

    Raises:
        RunError: a policy or a mode that does not exist.
    """

    mode: str = "yolo"
    rules: Mapping[str, str] | None = None
    safe: Sequence[str] = ()
    is_read_only: Callable[[str], bool] = lambda tool: False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise RunError(f"there is no mode '{self.mode}'{did_you_mean(self.mode, MODES)}")
        for pattern, policy in (self.rules or {}).items():
            if policy not in POLICIES:
                raise RunError(f"policy for '{pattern}': there is no '{policy}'{did_you_mean(policy, POLICIES)}")

    @property
    def cli_mode(self) -> str:
        """The permission mode the CLI is started with; ours are enforced by us."""
        return "bypassPermissions" if self.mode in OWN_MODES else self.mode

    def about(self, offer: Offer) -> Policy:
        """The same policy with the full names of the tools it is about.

        Raises:
            OptionError: a pattern that means no tool of the run, or a rule that never holds beside `safe` or behind a
                looser one.
        """
        rules: dict[str, str] = {}
        written: dict[str, str] = {}
        for pattern, policy in (self.rules or {}).items():
            before = written.setdefault(meant := offer.meant("policy", pattern), pattern)
            if _STRICTNESS[policy] > _STRICTNESS[looser := rules.setdefault(meant, policy)]:
                raise _too_late(pattern, policy, before, looser)
        safe = tuple(offer.meant_whole("safe", pattern) for pattern in self.safe)
        for pattern, policy in rules.items():
            names = offer.matching(pattern) if policy not in ("allow", "disable") else ()
            if names and all(any(fnmatchcase(name, one) for one in safe) for name in names):
                what = f"policy: '{pattern}={policy}' never holds: safe= has it, and what is safe is not asked about"
                raise OptionError("policy", what, fix="Leave it out of safe=, or write 'allow' if that is meant")
        _check_order(rules, offer)
        return replace(self, rules=rules, safe=safe)

    def patterns(self) -> list[tuple[str, str]]:
        """Every pattern, with the option it was written in."""
        return [*(("policy", pattern) for pattern in self.rules or {}), *(("safe", pattern) for pattern in self.safe)]

    def disabled(self, tool: str) -> bool:
        """Whether the tool is not offered at all: the first pattern that is about it says so."""
        for pattern, policy in (self.rules or {}).items():
            if fnmatchcase(tool, pattern):
                return policy == "disable"
            if tool == "Bash" and _BASH.fullmatch(pattern) and policy != "disable":
                return False  # some of its commands may run
        return False

    def disabled_names(self) -> list[str]:
        """The disabled tools that were named in full: also those of servers whose tools are not known beforehand."""
        return [name for name in self.rules or {} if re.fullmatch(r"[\w-]+", name) and self.disabled(name)]

    def rule(self, tool: str, arguments: Mapping[str, Any]) -> Ruling:
        """Allow, ask or deny, and why."""
        if self.mode == "read-only" and not self._reads(tool):
            return Ruling("deny", f"{tool} may change things, and this run is read-only")
        written = self.written(tool, arguments)
        if written is not None:
            return written
        if self.mode == "normal" and not self._reads(tool):
            return Ruling("ask", f"{tool} may change things")
        return Ruling("allow", self.mode)

    def written(self, tool: str, arguments: Mapping[str, Any]) -> Ruling | None:
        """What the caller wrote about such a call; None where only the mode decides."""
        if any(fnmatchcase(tool, pattern) for pattern in self.safe):
            return Ruling("allow", "safe")
        for pattern, policy in (self.rules or {}).items():
            if _matches(pattern, policy, tool, arguments):
                return _by_policy(policy, pattern, tool)
        return None

    def _reads(self, tool: str) -> bool:
        return tool in (*READ_ONLY_TOOLS, "StructuredOutput") or self.is_read_only(tool)


def _check_order(rules: Mapping[str, str], offer: Offer) -> None:
    """Refuse a rule behind a looser one that is about the same calls: it would never hold."""
    # What a server offers is not known yet. Only some of another's tools: of the same ones there may be more one day.
    tools = {pattern: set() if offer.servers else set(offer.matching(pattern)) for pattern in rules}
    earlier: list[tuple[str, str]] = []
    for pattern, policy in rules.items():
        for before, looser in earlier:
            is_stricter = _STRICTNESS[policy] > _STRICTNESS[looser]
            if is_stricter and (covers(before, pattern) or tools[pattern] < tools[before]):
                raise _too_late(pattern, policy, before, looser)
        earlier.append((pattern, policy))


def _too_late(pattern: str, policy: str, before: str, looser: str) -> OptionError:
    what = f"policy: '{pattern}={policy}' comes too late: '{before}={looser}' decides before it"
    return OptionError("policy", what, fix="Write it first: the first match decides")


def _by_policy(policy: str, pattern: str, tool: str) -> Ruling:
    if policy == "allow":
        return Ruling("allow", f"policy for {pattern}")
    if policy == "ask":
        return Ruling("ask", f"policy for {pattern}")
    if policy == "defer":
        return Ruling("defer", f"{tool} is left to the caller")
    return Ruling("deny", f"{tool} is not allowed in this run")


def _matches(pattern: str, policy: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    bash = _BASH.fullmatch(pattern)
    if bash is None:
        return fnmatchcase(tool, pattern)
    if tool != "Bash":
        return False
    command, prefix = str(arguments.get("command", "")), bash_prefix(bash["prefix"])
    if policy == "allow":
        return not _OPERATORS.search(command) and _begins(command, prefix)
    return any(_begins(rest, prefix) for part in _OPERATORS.split(command) for rest in _without_leading(part))


def _without_leading(part: str) -> Iterator[str]:
    """A command, and the same without words that only say how it is run: some of the first ones, and all."""
    yield part
    for _ in range(_MOST_LEADING):
        if (leading := _LEADING.match(part)) is None:
            return
        part = part[leading.end() :]
        yield part
    while (leading := _LEADING.match(part)) is not None:
        part = part[leading.end() :]
    yield part


def _begins(command: str, prefix: str) -> bool:
    # As the shell tells words apart: any other white space is part of a word, which may be the name of another file.
    return f"{_BLANKS.sub(' ', command).strip(' ')} ".startswith(f"{prefix} ")
