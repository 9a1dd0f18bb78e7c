"""Runs as they are stored: found again, read, followed, applied and removed, from any process.

A run lives as long as its lock is held; nothing else is believed, a pid least of all.
One that lives is never changed from here. A run whose launcher was killed has crashed:
its events are all there, and its result is rebuilt from them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from toolkit._base.handles import remove_folder
from toolkit._base.unborn import UNBORN, is_stillborn
from toolkit.errors import RunError
from toolkit.runs.storage.run_folder import LAST, runs_home
from toolkit.runs.storage.stored_run import State, StoredRun, forget_unused, stored_in

__all__ = [
    "State",
    "StoredRun",
    "find_run",
    "latest_first",
    "list_runs",
    "load_run",
    "remove_older_than",
    "run_of_session",
]

_LEFT_OVER = 3600.0
"""Seconds after which a half-removed folder belongs to nobody."""


def list_runs(
    home: Path | str | None = None, *, on_damaged: Callable[[RunError], None] | None = None
) -> list[StoredRun]:
    """All stored runs, the latest first.

    A run that cannot be read is left out and given to `on_damaged`; without one it is logged.
    """
    found = []
    for run in stored_in(runs_home(home)):
        try:
            found.append((float(run.facts["began"]), run))
        except (RunError, KeyError, TypeError, ValueError) as error:
            problem = error if isinstance(error, RunError) else run.damaged("run.json", repr(error))
            (on_damaged or _warn)(problem)
    return [run for _, run in sorted(found, key=lambda pair: pair[0], reverse=True)]


def find_run(name: str, home: Path | str | None = None) -> StoredRun:
    """The run that `name` means: its id, a beginning of it that no other has, or `last`. Nothing of it is read.

    Raises:
        RunError: there is none, or more than one.
    """
    if not isinstance(name, str):
        what = f"a run is named by its id as a text, not by {type(name).__name__}(…)"
        raise RunError(what, fix='Write for example: load_run("last"), or load_run(result.run)').as_mistyped()
    if name == LAST:
        runs = list_runs(home, on_damaged=lambda damage: None)[:1]
    else:
        every = stored_in(runs_home(home))
        begins = [run for run in every if name and run.id.startswith((name, f"run-{name}"))]
        runs = [run for run in every if run.id == name] or begins
    if len(runs) == 1:
        return runs[0]
    if not runs:
        what = "there are no runs" if name == LAST else f"there is no run '{name}'"
        raise RunError(what, where=[str(runs_home(home))], fix="See: toolkit runs list")
    raise RunError(
        f"'{name}' is the beginning of {len(runs)} runs", where=[run.id for run in runs[:10]], fix="Write more of it"
    )


def load_run(name: str, home: Path | str | None = None) -> StoredRun:
    """A stored run, by its id, a beginning of it that no other has, or `last`.

    Raises:
        RunError: there is none, more than one, or it cannot be read.
    """
    run = find_run(name, home)
    run.facts  # noqa: B018  (what cannot be read is said here, not later)
    return run


def run_of_session(session: str, home: Path | str | None = None) -> StoredRun | None:
    """The latest run of a conversation that had a place to work in; None where no stored run knows of it."""
    for run in list_runs(home, on_damaged=lambda damage: None):
        facts = run.facts
        if facts.get("workspace") is not None and session in (facts.get("resume"), run.session):
            return run
    return None


def remove_older_than(seconds: float, home: Path | str | None = None) -> list[str]:
    """Remove the runs that ended longer ago than this, with their workspaces, and give their ids.

    Runs that live, and those whose workspace is in use or was taken up by a run that stays, are left as they are.
    Conversations to which no run belongs any more go along.
    """
    now, removed, sessions = time.time(), [], set[str]()
    for run in latest_first(stored_in(runs_home(home))):
        ended = run.ended
        if ended is None or now - ended < seconds:
            continue
        session = run.session
        try:
            run.remove(forgetting=False)
        except RunError as error:
            _warn(error)
        else:
            removed.append(run.id)
            sessions |= {session} if session is not None else set()
    if sessions:
        forget_unused(sessions, runs_home(home))
    _sweep(runs_home(home), now)
    return removed


def latest_first(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Runs in an order in which they can be removed: one that went on in the workspace of another comes before it."""
    return sorted(runs, key=_began, reverse=True)


def _began(run: StoredRun) -> float:
    try:
        return float(run.facts["began"])
    except (RunError, KeyError, TypeError, ValueError):
        return 0.0


def _sweep(home: Path, now: float) -> None:
    """Remove what a kill left half-made or half-removed."""
    for rest in home.glob(f".*{UNBORN}"):
        with contextlib.suppress(OSError):
            if is_stillborn(rest):
                remove_folder(rest)
    for rest in home.glob(".*.gone"):
        with contextlib.suppress(OSError):
            if now - rest.stat().st_mtime > _LEFT_OVER and not StoredRun(rest).is_running():
                remove_folder(rest)


def _warn(error: RunError) -> None:
    import logging

    logging.getLogger("toolkit.runs").warning("%s", error)
