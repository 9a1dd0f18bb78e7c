"""All stored runs as rows, kept up to date by looking only at what changed.

A run that has ended is read once, one that goes on at every look. Of ended runs only the folder is looked at: what is
added or replaced in it changes its time. Every twentieth look is at the files themselves, to be sure, and at whether an
apply of the changes was interrupted; such a run is read at every look until that is settled.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_line
from toolkit.errors import ToolkitError
from toolkit.runs import StoredRun
from toolkit.runs.asking import RunClient
from toolkit.runs.storage import is_half_applied, runs_home

_TITLE = 200
_PROMPT = 4_000
_THOROUGH = 20


@dataclass(slots=True)
class _Kept:
    """What is known of one run, and what it was read from."""

    changed_ns: int
    """When something was last added to its folder, taken away or replaced."""
    stamp: tuple[Any, ...]
    row: dict[str, Any]
    workspace: Path | None
    """The copy that it worked in."""
    is_over: bool

    def is_half_applied(self) -> bool:
        """Whether an apply of its changes was interrupted, or nobody can tell."""
        return self.workspace is not None and is_half_applied(self.workspace)


class RunTable:
    """The rows of every run below a state folder."""

    def __init__(self, home: Path | str | None = None) -> None:
        self._folder = runs_home(home)
        self._kept: dict[str, _Kept] = {}
        self._looks = 0

    def look(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The rows that are new or differ since the last look, and the ids that are gone."""
        changed, seen = [], set()
        self._looks += 1
        is_thorough = self._looks % _THOROUGH == 0
        for name, changed_ns in self._folders():
            seen.add(name)
            before = self._kept.get(name)
            is_over = before is not None and before.is_over
            if is_over and before is not None and before.changed_ns == changed_ns and not is_thorough:
                continue
            run = StoredRun(self._folder / name)
            stamp = _stamp(run)
            if is_over and before is not None and before.stamp == stamp and not before.is_half_applied():
                before.changed_ns = changed_ns
                continue
            now = _read(run, stamp, changed_ns)
            if before is None or before.row != now.row:
                changed.append(now.row)
            self._kept[name] = now
        gone = [name for name in self._kept if name not in seen]
        for name in gone:
            del self._kept[name]
        return changed, gone

    def rows(self) -> list[dict[str, Any]]:
        """Every row as it was at the last look, the latest first."""
        return sorted((kept.row for kept in self._kept.values()), key=lambda row: row["began"], reverse=True)

    def _folders(self) -> Iterable[tuple[str, int]]:
        """The names of the runs, each with the time of its folder."""
        try:
            entries = list(os.scandir(self._folder))
        except FileNotFoundError:
            return
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    yield entry.name, entry.stat(follow_symlinks=False).st_mtime_ns


def _stamp(run: StoredRun) -> tuple[Any, ...]:
    """What differs when something about the run does."""
    found: list[Any] = []
    for name in ("run.json", "result.json", "events.jsonl", "delivery.json"):
        try:
            stat = (run.folder / name).stat()
            found += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
        except OSError:
            found.append(None)
    return tuple(found)


def _read(run: StoredRun, stamp: tuple[Any, ...], changed_ns: int) -> _Kept:
    try:
        row = _row(run)
    except (ToolkitError, KeyError, TypeError, ValueError, OSError) as error:
        said = error.what if isinstance(error, ToolkitError) else f"{type(error).__name__}: {error}"
        row = {"id": run.id, "state": "damaged", "began": 0.0, "title": safe_line(said, _TITLE), "questions": []}
    place = row.pop("workspace", None)
    is_over = row["state"] != "running" and row.get("half_applied") is None
    return _Kept(changed_ns, stamp, row, None if place is None else Path(place), is_over)


def _row(run: StoredRun) -> dict[str, Any]:
    facts = run.facts
    state = run.state
    result = run.so_far() if state == "running" else run.result()
    prompt = str(facts.get("prompt") or "")
    known = None if state == "running" else run.changed_files()
    half = run.unfinished_apply
    return {
        "id": run.id,
        "state": state,
        "code": None if state == "running" else result.code,
        "ok": None if state == "running" else result.ok,
        "message": "" if state == "running" else result.message,
        "cause": result.cause if state != "running" else None,
        "began": float(facts["began"]),
        "ended": run.ended,
        "title": safe_line(prompt.strip().partition("\n")[0], _TITLE),
        "prompt": prompt[:_PROMPT],
        "project": _project(facts),
        "batch": _batch(run.id),
        "model": result.model or facts.get("model"),
        "turns": len(result.calls),
        "tokens": result.total.total,
        "cost": result.cost,
        "known_cost": result.known_cost,
        "verified": getattr(result, "verified", None),
        "denied": len(result.denied),
        "session": result.session,
        "changes": None if known is None else sum(not one.get("quiet") for one in known),
        "copied": bool(facts.get("copied")),
        "workspace": facts.get("workspace") if facts.get("copied") else None,
        "half_applied": None if half is None else str(half),
        "questions": _questions(run) if state == "running" else [],
    }


def _batch(run_id: str) -> str | None:
    """The batch that a run belongs to, by its id: BATCH.TASK.NUMBER."""
    name, _, rest = run_id.partition(".")
    return name if rest.rpartition(".")[2].isdecimal() else None


def _project(facts: dict[str, Any]) -> str:
    """The folder the run is about: its first mount, or where it was started."""
    mounts = facts.get("mounts") or []
    with contextlib.suppress(IndexError, TypeError, KeyError):
        return str(mounts[0][0])
    return str(facts.get("cwd") or "")


def _questions(run: StoredRun) -> list[dict[str, Any]]:
    """What the run waits to be told; nothing where nobody is asked, or it ended meanwhile."""
    try:
        with RunClient(run.folder) as client:
            return client.pending()
    except (ToolkitError, OSError):
        return []
