"""What a person can decide about a tool call, and the decisions that are remembered.

The CLI's own "allow for session" does not hold, and its suggestions write into the
workspace. So we remember ourselves: for the session in memory, for the project and
for always in one file of ours, outside of every workspace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from toolkit._base.files import write_json
from toolkit._base.locks import take_lock
from toolkit.errors import RunError
from toolkit.runs.storage.run_folder import runs_home

Kind = Literal["ALLOW_ONCE", "ALLOW_SESSION", "ALLOW_PROJECT", "ALLOW_ALWAYS", "DENY"]
KINDS: tuple[Kind, ...] = ("ALLOW_ONCE", "ALLOW_SESSION", "ALLOW_PROJECT", "ALLOW_ALWAYS", "DENY")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer to the question whether a tool call may run.

    Raises:
        RunError: a kind that does not exist.
    """

    kind: Kind
    message: str = ""
    """What the model reads when it is refused."""
    stop: bool = False
    """A refusal that also ends the run."""
    arguments: Mapping[str, Any] | None = None
    """Run it with these arguments instead."""

    ALLOW_ONCE: ClassVar[Decision]
    ALLOW_SESSION: ClassVar[Decision]
    ALLOW_PROJECT: ClassVar[Decision]
    ALLOW_ALWAYS: ClassVar[Decision]
    DENY: ClassVar[Decision]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RunError(f"'{self.kind}' is no decision", fix=f"Use one of: {', '.join(KINDS)}")

    @property
    def allows(self) -> bool:
        """Whether the call may run."""
        return self.kind != "DENY"

    @classmethod
    def deny(cls, message: str = "", *, stop: bool = False) -> Decision:
        """Refuse, with words for the model, and maybe end the run."""
        return cls("DENY", message, stop)

    @classmethod
    def allow(cls, arguments: Mapping[str, Any] | None = None) -> Decision:
        """Let it run this once, maybe with other arguments."""
        return cls("ALLOW_ONCE", arguments=arguments)


Decision.ALLOW_ONCE = Decision("ALLOW_ONCE")
Decision.ALLOW_SESSION = Decision("ALLOW_SESSION")
Decision.ALLOW_PROJECT = Decision("ALLOW_PROJECT")
Decision.ALLOW_ALWAYS = Decision("ALLOW_ALWAYS")
Decision.DENY = Decision("DENY")

_PLAIN_COMMAND = re.compile(r"[\w./=:@,+%^~\- '\"]*")
"""No operators, expansions or redirections: one program with its arguments."""


_STARTER = re.compile(
    r"(.*/)?(ba|da|z|k|fi|s)?sh|(.*/)?(env|sudo|doas|su|exec|eval|command|builtin|source|\.|nohup|nice|ionice|time|timeout"
    r"|stdbuf|setsid|xargs|find|watch|parallel|python[\d.]*|perl|ruby|node|deno|bun|php|lua|g?awk|make|npx|uvx?|pipx)"
)
"""Programs that run whatever they are told to: to allow one of them once is not to allow it anything."""


def subject_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """What a remembered decision is about: the tool; for Bash the program.

    It is the exact command where that is compound, sets variables first, or starts a program that runs others.
    """
    if tool != "Bash":
        return tool
    command = str(arguments.get("command", "")).strip()
    program = command.split()[0] if command and _PLAIN_COMMAND.fullmatch(command) else ""
    if program and not set(program) & set("='\"") and not _STARTER.fullmatch(program):
        return f"Bash({program})"
    return f"Bash[{command}]"


class Remembered:
    """Decisions that hold beyond one call. The file is shared by all runs of a user."""

    def __init__(self, project: str, *, home: Path | str | None = None) -> None:
        self.path = runs_home(home).parent / "approvals.json"
        self._project = project
        self._session: set[str] = set()
        self.warning: str | None = None
        """What was wrong with the file when it was last read."""

    def allows(self, subject: str) -> str | None:
        """The scope in which the subject is allowed: session, project or always; None if in none."""
        if subject in self._session:
            return "session"
        kept = self._read()
        if subject in kept["always"]:
            return "always"
        return "project" if subject in kept["projects"].get(self._project, []) else None

    def remember(self, subject: str, decision: Decision) -> None:
        """Keep a decision for as long as it says."""
        if decision.kind == "ALLOW_SESSION":
            self._session.add(subject)
        elif decision.kind in ("ALLOW_PROJECT", "ALLOW_ALWAYS"):
            with self._locked() as kept:
                always = decision.kind == "ALLOW_ALWAYS"
                entries = kept["always"] if always else kept["projects"].setdefault(self._project, [])
                if subject not in entries:
                    entries.append(subject)

    def listed(self) -> list[tuple[str, str, str]]:
        """Everything in the file: scope, project (or nothing) and subject."""
        kept = self._read()
        rows = [("always", "", subject) for subject in kept["always"]]
        return rows + [("project", place, subject) for place, found in kept["projects"].items() for subject in found]

    def forget(self, subject: str) -> int:
        """Remove a subject wherever it stands; how many entries went."""
        with self._locked() as kept:
            groups = [kept["always"], *kept["projects"].values()]
            count: int = sum(entries.count(subject) for entries in groups)
            for entries in groups:
                entries[:] = [entry for entry in entries if entry != subject]
        return count

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        """The file's content, written back whole afterwards; one writer at a time."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = take_lock(self.path.with_suffix(".lock"), wait=True)
        assert lock is not None, "it is waited for"
        with lock:
            kept = self._read()
            yield kept
            write_json(self.path, kept, indent=1)

    def _read(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {"version": _VERSION, "always": [], "projects": {}}
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            if kept["version"] != _VERSION:
                raise ValueError(f"version {kept['version']}")
            if not _is_well_formed(kept):
                raise ValueError("not the form we write")
        except FileNotFoundError:
            return fresh
        except (ValueError, KeyError, TypeError) as error:
            aside = self._put_aside()
            self.warning = (
                f"{self.path.name} could not be read ({error}); it is kept as {aside.name}, a fresh one is started"
            )
            return fresh
        return dict(kept)

    def _put_aside(self) -> Path:
        for number in range(1, 1000):
            aside = self.path.with_name(f"{self.path.name}.damaged-{number}")
            if not aside.exists():
                break
        self.path.replace(aside)
        return aside


def _is_well_formed(kept: Any) -> bool:
    lists = [kept["always"], *kept["projects"].values()]
    return all(isinstance(entries, list) and all(isinstance(e, str) for e in entries) for entries in lists)
