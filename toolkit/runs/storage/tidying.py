"""Kept copies take room. Those that nobody needs any more go: old ones, and the oldest beyond a size.

A copy is needed while its run lives, while a later run works in it, while it holds changes that were not
taken back, and until an interrupted apply is settled. Everything else of the run stays: what it was asked,
said, changed and cost.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.files import write_whole
from toolkit.errors import ToolkitError
from toolkit.runs.storage.stored_run import StoredRun
from toolkit.runs.storage.stored_runs import list_runs

KEPT_BYTES = 2 * 1024**3
"""What kept copies may have together."""
KEPT_SECONDS = 30 * 24 * 3600.0
"""How long a copy is kept."""
_SIZE = "size.json"


@dataclass(frozen=True, slots=True)
class Tidied:
    """One copy that went, or would go, or has to stay although it is over a bound."""

    run: str
    size: int
    why: str
    """Which bound it is over, or what keeps it."""
    gone: bool
    kept_copy: tuple[str, ...] | None = None
    """The host paths that a copy kept for overlays is of; `run` is its name then. None for the copy of a run."""
    unfinished: bool = False
    """Whether it stays because an apply of its changes, or taking them back, was interrupted."""


def is_half_applied(copy: Path) -> bool:
    """Whether an apply of the changes in a run's copy was interrupted, or nobody can tell."""
    from toolkit_workspace import Workspace

    try:
        return Workspace(copy).has_unfinished_apply
    except ToolkitError:
        return True


def size_of(run: StoredRun) -> int:
    """The bytes that a run has on disk. Of one that has ended they are counted once, and kept beside it."""
    kept = run.folder / _SIZE
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(kept.read_text(encoding="utf-8"))["bytes"])
    size = _counted(run.folder)
    if not run.is_running():
        with contextlib.suppress(OSError):
            write_whole(kept, json.dumps({"bytes": size}))
    return size


def tidy_copies(
    *,
    most_bytes: int = KEPT_BYTES,
    most_seconds: float = KEPT_SECONDS,
    dry_run: bool = False,
    home: Path | str | None = None,
) -> list[Tidied]:
    """Remove the copies that are over a bound and that nobody needs, the oldest first; says what became of each."""
    now = time.time()
    runs = [run for run in list_runs(home, on_damaged=lambda damage: None) if _has_copy(run)]
    total, done = 0, []
    over = []
    for run in runs:  # the latest first: they have the room
        size = size_of(run)
        total += size
        ended = run.ended
        if ended is not None and now - ended > most_seconds:
            over.append((run, size, f"older than {most_seconds / 86400:g} days"))
        elif total > most_bytes:
            over.append((run, size, "kept copies have more than their size together"))
    for run, size, why in reversed(over):
        unfinished = run.unfinished_apply
        needed = _needed(run) if unfinished is None else unfinished.what
        if needed is None and not dry_run:
            needed = _drop(run)
        gone, why = needed is None, why if needed is None else needed
        done.append(Tidied(run.id, size, why, gone, unfinished=unfinished is not None))
    return [*done, *_tidy_kept(most_bytes, most_seconds, dry_run=dry_run, home=home)]


def _tidy_kept(most_bytes: int, most_seconds: float, *, dry_run: bool, home: Path | str | None) -> list[Tidied]:
    """The same for copies that are kept for overlays: what no workspace lies over may go."""
    from toolkit_workspace.pristine import KeptCopies

    copies = KeptCopies(home)
    if not copies.folder.is_dir():
        return []
    done = copies.tidy(most_bytes=most_bytes, most_seconds=most_seconds, dry_run=dry_run)
    return [Tidied(one.name, one.size, one.why, one.gone, one.mounts) for one in done]


def _has_copy(run: StoredRun) -> bool:
    place = run.facts.get("workspace")
    return place is not None and Path(place).parent == run.folder and Path(place).is_dir()


def _needed(run: StoredRun) -> str | None:
    """Why the copy has to stay; None where nobody needs it."""
    if run.is_running():
        return "it is running"
    if run.guests:
        return "a later run went on in it"
    if run.changed_files() == []:
        return None
    try:
        left = run.changes().counted
    except ToolkitError as error:  # what cannot be looked at may hold work
        return error.what
    return f"{len(left)} of its changes were not applied" if left else None


def _drop(run: StoredRun) -> str | None:
    try:
        run.drop_workspace()
        (run.folder / _SIZE).unlink(missing_ok=True)
    except (ToolkitError, OSError) as error:
        return str(error).partition("\n")[0]
    return None


def _counted(folder: Path) -> int:
    """The bytes below a folder, as the disk has them; what cannot be looked at counts as nothing."""
    total, folders = 0, [str(folder)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
