"""Decisions that hold for more than one call: in memory for the session, in one file for a project and for always.

The CLI's own "allow for session" does not hold, and its suggestions write into the
workspace. So they are kept here, in a file of ours outside of every workspace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.files import state_home, write_json
from toolkit._base.locks import take_lock

if TYPE_CHECKING:
    from toolkit.runs.asking.approvals import Decision

_VERSION = 1


class Remembered:
    """Decisions that hold beyond one call. The file is shared by all runs of a user."""

    def __init__(self, project: str, *, home: Path | str | None = None) -> None:
        self.path = state_home(home) / "approvals.json"
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
