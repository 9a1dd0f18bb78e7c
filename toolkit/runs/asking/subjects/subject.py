"""What a decision is about that holds for more than one call: the subject that is remembered.

It is the tool; for Bash it is the very command. A few programs that only look are
remembered with their subcommand, whatever plain arguments they get: `git status`,
`ls`. Any option that is not in the table here, anything the shell would read, and
any other program make it the very command: options of many programs run other
programs (`git -c`, `tar --checkpoint-action`, `sort --compress-program`, `find -exec`),
and a list of those is never complete. In doubt a person is asked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.runs.asking.subjects.git_setup import UNSEEN

_COMMANDS = ("Bash", "Monitor")
"""Tools of the CLI that run a command."""
_WITHOUT_MEANING = frozenset({"command", "description", "timeout"})
"""Arguments of such a call that change nothing about what the command may do."""

_DEFINED = " as defined "
_SET_UP = " with git set up as "
_GIT_WORD = re.compile(r"\bgit\b")
_PLAIN_WORD = re.compile(r"(?:[A-Za-z0-9_./:@,+%^=-]|(?<=[A-Za-z0-9^~])~)+")
"""Nothing in it that a shell expands, splits or redirects; `HEAD~2` is such a word, `~/x` is not."""


@dataclass(frozen=True, slots=True)
class _Looks:
    """The options with which a program only looks."""

    letters: str = ""
    """Of these any may stand together behind one dash."""
    counts: bool = False
    """A number may stand behind a dash, or behind `-n` and `-c`."""
    words: tuple[str, ...] = ()
    """Long options, with or without a value."""

    def at_all(self, option: str) -> bool:
        """Whether the option is one of them."""
        if option.startswith("--"):
            return option == "--" or option.partition("=")[0] in self.words
        if self.counts and re.fullmatch(r"-[nc]?\+?[0-9]+|-[nc]", option):
            return True
        return bool(re.fullmatch(f"-[{self.letters}]+", option)) if self.letters else False


_HISTORY = ("--oneline", "--stat", "--name-only", "--name-status", "--graph", "--all", "--follow", "--no-color")
_CHANGES = ("--stat", "--name-only", "--name-status", "--cached", "--staged", "--no-color")
_GIT = {
    "status": _Looks("sb", words=("--short", "--branch", "--porcelain", "--long")),
    "diff": _Looks("pw", words=_CHANGES),
    "log": _Looks("p", counts=True, words=_HISTORY),
    "show": _Looks("p", words=_CHANGES),
    "ls-files": _Looks("com"),
}
_LOOKING: dict[str, dict[str, _Looks] | _Looks] = {
    "git": _GIT,
    "ls": _Looks("aAdFhlLnrRsStu1", words=("--all",)),
    "cat": _Looks("nbsAET"),
    "head": _Looks(counts=True),
    "tail": _Looks(counts=True),
    "wc": _Looks("lwcmL"),
    "pwd": _Looks("LP"),
}
"""Programs that run nothing and write nothing when they get only these options. A short list, on purpose."""


def speaks_of_git(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call is a command that may run git."""
    return tool in _COMMANDS and _GIT_WORD.search(str(arguments.get("command", ""))) is not None


def subject_of(tool: str, arguments: Mapping[str, Any], definition: str | None = None, git_setup: str = "") -> str:
    """What a remembered decision is about: `Write`, `Bash(git status)`, or `Bash[make all]` for that very command.

    With a `definition` it is the tool as it is defined now, so that no decision about another one speaks for it; of
    git it is git as it is set up now.
    """
    if definition is not None:
        return f"{tool}{_DEFINED}{definition}"
    subject = _subject_of(tool, arguments)
    return f"{subject}{_SET_UP}{git_setup}" if git_setup and speaks_of_git(tool, arguments) else subject


def _subject_of(tool: str, arguments: Mapping[str, Any]) -> str:
    if tool not in _COMMANDS:
        return tool
    command = str(arguments.get("command", ""))
    unusual = {name: value for name, value in arguments.items() if name not in _WITHOUT_MEANING and value}
    if unusual:  # in the background, say, or outside of the CLI's sandbox
        return f"{tool}[{command}] {json.dumps(unusual, sort_keys=True, default=str)}"
    family = _family(command) if tool == "Bash" else None
    return f"{tool}[{command}]" if family is None else f"{tool}({family})"


def what_is_remembered(subject: str) -> str:
    """The same for a person, behind "remember"."""
    subject, _, git_setup = subject.partition(_SET_UP)
    if git_setup.startswith(UNSEEN):
        return "nothing, as what git may run here cannot be told: it is asked about every time"
    if git_setup:
        return f"{what_is_remembered(subject)}, as long as git is set up as it is now"
    if family := re.fullmatch(r"\w+\((.+)\)", subject):
        return f"every '{family[1]}' with plain arguments"
    if _DEFINED in subject and "[" not in subject:
        return f"every call of {subject.partition(_DEFINED)[0]}, as long as it is defined as it is now"
    if "[" not in subject:
        return f"every call of {subject}"
    return "exactly this command" if subject.endswith("]") else "exactly this call"


def _family(command: str) -> str | None:
    """The program, with its subcommand, of a command that only looks; None for every other."""
    words = command.split(" ")
    if not all(_PLAIN_WORD.fullmatch(word) for word in words):
        return None
    name, arguments = words[0], words[1:]
    looks = _LOOKING.get(name)
    if isinstance(looks, dict):  # an option before the subcommand is for the program itself, and may do anything
        subcommand, arguments = (arguments[0], arguments[1:]) if arguments else ("", [])
        name, looks = f"{name} {subcommand}", looks.get(subcommand)
    if looks is None:
        return None
    return name if all(looks.at_all(word) for word in arguments if word.startswith("-")) else None
